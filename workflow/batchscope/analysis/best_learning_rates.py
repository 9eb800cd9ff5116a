"""Rows of runs.csv of a series in, the best learning rate of each batch size and its growth out.

The validation loss chooses a rate. Rates are *effective* ones, after scaling. Only figures use this
module; the rates of comparisons are chosen in `chosen_rates`.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import compress
from typing import NamedTuple

import numpy as np
import pandas

from batchscope.analysis import chosen_rates, intervals, verdicts
from batchscope.analysis.chosen_rates import RATE
from batchscope.analysis.trainings import RUN_LOSS, Trainings, series_over_rates

LOW, HIGH, BOTH = "lowest", "highest", "only"  # edges of a grid of rates
# Kind of bound of an exponent if best rates are on an edge: the true rates may be beyond it.
AT_LEAST, AT_MOST, UNBOUNDED = "at least", "at most", "unbounded"


def edge_name(rate: float, rates: Sequence[float]) -> str:
    """Return the edge of the ascending rates that a rate is on; empty if it is inside."""
    if [rate] == [*rates]:
        return BOTH
    return {rates[0]: LOW, rates[-1]: HIGH}.get(rate, "")


@dataclass(frozen=True)
class BestRate:
    """The best rate of one batch size; NaN if no rate has a finished run of every seed."""

    batch_size: int
    rates: tuple[float, ...]  # effective rates that were tried, ascending
    learning_rate: float  # the best rate before scaling, as in the study
    rate: float  # the best effective rate
    by_seed: dict[int, float]  # seed -> its own best rate; NaN if it lacks a rate that was tried

    @property
    def edge(self) -> str:
        """`lowest`, `highest` or `only` if the best rate is on the edge of the grid."""
        return edge_name(self.rate, self.rates)


class Exponent(NamedTuple):
    """k of rate = c * B^k, fitted for each seed by least squares in log-log."""

    # Mean over seeds with its 95 % t-interval. All seeds have the same grid, so both ends are
    # widened by the largest shift of the exponent if every best rate is off by half a step of it.
    interval: intervals.Interval
    factor: float  # c; the line goes through the mean of all points
    bound: str  # kind of bound if best rates are on an edge; `unbounded` if it is one both ways


def effective_rates(frame: pandas.DataFrame) -> pandas.Series:
    """Return the learning rate of every run after scaling; a missing run is scaled as others."""
    rates = frame["effective_learning_rate"].astype(float)
    scaling = rates / frame[RATE]
    filled = scaling.copy()
    for group in series_over_rates(frame):
        scales = scaling.loc[group.frame.index]
        first = scales.groupby(group.frame["batch_size"]).transform("first")
        filled.loc[scales.index] = scales.fillna(first)
    rates = rates.fillna(frame[RATE] * filled.fillna(1.0))
    # Scaling may round equal rates to different numbers.
    return rates.map(lambda rate: float(f"{rate:.12g}"))


def has_choice(frame: pandas.DataFrame) -> bool:
    """Return whether any batch size of any series was trained at more than one rate."""
    groups = series_over_rates(frame) if RATE in frame and not frame.empty else []
    return any(Trainings({}, group.frame, frame[:0]).has_several_rates for group in groups)


def best_rates(rows: pandas.DataFrame) -> list[BestRate]:
    """Return the best rate of every batch size of one series' runs, in order of batch size."""
    if rows.empty:
        return []
    trainings, result = Trainings({}, rows, rows[:0]), []
    losses, (sizes, factors, seeds) = trainings.column_cube(RUN_LOSS), trainings.axes
    rates = np.fmax.reduce(trainings.cube(effective_rates(rows)), axis=2)
    tried = chosen_rates.was_tried(losses)
    tried = np.where(tried.any(axis=1, keepdims=True), tried, ~np.isnan(rates))
    best = chosen_rates.index_of_lowest_loss(losses)
    losses_of_seeds = (losses[:, :, [seed]] for seed in range(len(seeds)))
    best_of_seeds = np.transpose([*map(chosen_rates.index_of_lowest_loss, losses_of_seeds)])
    # A seed that lacks a rate (it may have left a race) has no choice.
    best_of_seeds[(np.isnan(losses) & tried[:, :, None]).any(axis=1)] = -1
    for index, size in enumerate(sizes):
        size_rates = [*rates[index].tolist(), math.nan]  # the index -1 gives NaN
        rates_of_seeds = [size_rates[rate] for rate in best_of_seeds[index]]
        rate = best[index]
        choice = BestRate(
            batch_size=size,
            rates=tuple(compress(size_rates, tried[index])),
            learning_rate=[*factors, math.nan][rate],
            rate=size_rates[rate],
            by_seed=dict(zip(seeds, rates_of_seeds, strict=True)),
        )
        result.append(choice)
    return result


def exponent(points: list[BestRate]) -> Exponent | None:
    """Return the exponent of the best rate against batch size, or None below two batch sizes.

    Batch sizes with a single rate, or without a best rate, are left out.
    """
    points = [choice for choice in points if math.isfinite(choice.rate) and len(choice.rates) > 1]
    seeds = sorted({seed for choice in points for seed in choice.by_seed})
    rates = np.array([[choice.by_seed.get(seed, math.nan) for choice in points] for seed in seeds])
    complete = np.isfinite(rates).all(axis=1) if len(points) > 1 else np.zeros(len(seeds), bool)
    if not complete.any():
        return None
    logs = np.log2(rates[complete])
    doublings = np.log2([choice.batch_size for choice in points])
    centred = doublings - doublings.mean()
    interval = intervals.t_interval(verdicts.slopes(logs, doublings))
    widest = [np.diff(np.log2(choice.rates)).max() for choice in points]  # step of each grid
    shift = float(np.abs(centred) @ widest / 2 / (centred @ centred))
    # A higher rate increases the exponent at batch sizes above the mean, and decreases it below.
    edges = [
        (position, edge_name(choice.by_seed[seed], choice.rates))
        for position, choice in zip(centred.tolist(), points, strict=True)
        for seed in compress(seeds, complete)
    ]
    bounds = {
        AT_LEAST if (position > 0) == (edge == HIGH) else AT_MOST
        for position, edge in edges
        if edge and abs(position) > 1e-12
    }
    return Exponent(
        interval=interval._replace(low=interval.low - shift, high=interval.high + shift),
        factor=float(2 ** (logs.mean() - interval.mean * doublings.mean())),
        bound=UNBOUNDED if len(bounds) == 2 else "".join(bounds),
    )
