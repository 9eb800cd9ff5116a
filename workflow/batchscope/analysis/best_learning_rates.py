"""The best learning rate of every batch size, and how it grows with the batch size.

The validation loss chooses a rate, and the test data report it: the data that choose a rate
overstate it. Rates are *effective* ones, after scaling.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import compress
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from batchscope.analysis import chosen_rates, intervals, verdicts
from batchscope.analysis.chosen_rates import RATE
from batchscope.analysis.trainings import CHOSEN_ON, Trainings, series

if TYPE_CHECKING:
    import pandas

LOW, HIGH, BOTH = "lowest", "highest", "only"  # edges of the grid of a rate
# Bounds of an exponent if best rates are on an edge: the true ones may be beyond it.
AT_LEAST, AT_MOST, UNBOUNDED = "at least", "at most", "unbounded"


def edge(rate: float, rates: Sequence[float]) -> str:
    """Return the edge of ascending rates that a rate is on; an empty string if it is inside."""
    if [rate] == [*rates]:
        return BOTH
    return {rates[0]: LOW, rates[-1]: HIGH}.get(rate, "")


@dataclass(frozen=True)
class Choice:
    """The best rate of one batch size; NaN if no rate has a finished run of every seed."""

    batch_size: int
    rates: tuple[float, ...]  # every effective one that was tried, ascending
    learning_rate: float  # the best one as the factor has it, before scaling
    rate: float  # the best effective one
    by_seed: dict[int, float]  # seed -> its own choice; NaN if it lacks a rate that was tried
    runs: int  # finished ones at the best rate

    @property
    def edge(self) -> str:
        """`lowest`, `highest` or `only` if the best rate is on the edge of the grid."""
        return edge(self.rate, self.rates)


class Exponent(NamedTuple):
    """k of rate = c * B^k, fitted for each seed by least squares in log-log.

    A rate between two of its grid is never seen, and all seeds see the same grid: an interval over
    seeds alone covers the exponent far less often than it says.
    """

    # Mean over seeds with its 95 % t-interval, widened at both ends by how far the exponent moves
    # at most where every best rate is off by half a step of the grid.
    interval: intervals.Interval
    factor: float  # c, so that the line goes through the mean of all points
    bound: str  # whether best rates on an edge make the mean a bound; `unbounded` if both ways


def effective(frame: pandas.DataFrame) -> pandas.Series:
    """Return every run's learning rate after scaling.

    A missing run has the scaling of the other runs of its series and batch size.
    """
    rates = frame["effective_learning_rate"].astype(float)
    scaling = rates / frame[RATE]
    filled = scaling.copy()
    for group in series(frame):
        scales = scaling.loc[group.frame.index]
        first = scales.groupby(group.frame["batch_size"]).transform("first")
        filled.loc[scales.index] = scales.fillna(first)
    rates = rates.fillna(frame[RATE] * filled.fillna(1.0))
    # Rates that differ by the rounding of their scaling are the same rate.
    return rates.map(lambda rate: float(f"{rate:.12g}"))


def several(frame: pandas.DataFrame) -> bool:
    """Return whether any batch size of any series was trained at more than one rate.

    A rate that follows from the batch size and the other factors is no choice.
    """
    has_rates = not frame.empty and RATE in frame
    return has_rates and any(Trainings({}, group.frame, frame[:0]).tuned for group in series(frame))


def choices(rows: pandas.DataFrame) -> list[Choice]:
    """Return the best rate of every batch size of one series' runs, in order of batch size."""
    if rows.empty:
        return []
    trainings, result = Trainings({}, rows, rows[:0]), []
    losses, (sizes, factors, seeds) = trainings.column(CHOSEN_ON), trainings.axes
    rates = np.fmax.reduce(trainings.cube(effective(rows)), axis=2)
    tried = chosen_rates.tried(losses)
    tried = np.where(tried.any(axis=1, keepdims=True), tried, ~np.isnan(rates))
    best = chosen_rates.by_lowest(losses)
    alone = np.transpose([chosen_rates.by_lowest(losses[:, :, [at]]) for at in range(len(seeds))])
    # A seed that lacks a rate, which may have left a race, cannot choose it.
    alone[(np.isnan(losses) & tried[:, :, None]).any(axis=1)] = -1
    for at, size in enumerate(sizes):
        size_rates = [*rates[at].tolist(), math.nan]  # the index -1 is none
        choice = Choice(
            batch_size=size,
            rates=tuple(compress(size_rates, tried[at])),
            learning_rate=[*factors, math.nan][best[at]],
            rate=size_rates[best[at]],
            by_seed={seed: size_rates[index] for seed, index in zip(seeds, alone[at], strict=True)},
            runs=int(np.isfinite(losses[at, best[at]]).sum()) if best[at] >= 0 else 0,
        )
        result.append(choice)
    return result


def exponent(points: list[Choice]) -> Exponent | None:
    """Return the exponent of the best rate against batch size, or None below two batch sizes.

    Every seed with a best rate at every batch size gives one exponent. Batch sizes without any
    best rate, or without a choice, are left out.
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
    off = float(np.abs(centred) @ widest / 2 / (centred @ centred))
    # A higher rate at a batch size above the mean makes the exponent higher, one below it lower.
    edges = [
        (at, edge(choice.by_seed[seed], choice.rates))
        for at, choice in zip(centred.tolist(), points, strict=True)
        for seed in compress(seeds, complete)
    ]
    ways = {
        AT_LEAST if (at > 0) == (place == HIGH) else AT_MOST
        for at, place in edges
        if place and abs(at) > 1e-12
    }
    return Exponent(
        interval=interval._replace(low=interval.low - off, high=interval.high + off),
        factor=float(2 ** (logs.mean() - interval.mean * doublings.mean())),
        bound=UNBOUNDED if len(ways) == 2 else "".join(ways),
    )
