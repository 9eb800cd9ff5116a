"""What an advice rests on, gathered from an experiment's tables: one piece of evidence per series.

The seconds to the target are read at the rates that the other seeds choose; the outcome is that of
each training at its lowest validation loss, at the rate with the lowest mean of it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from itertools import compress
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pandas

from batchscope import wording
from batchscope.analysis import (
    advice,
    chosen_rates,
    equal_budgets,
    run_series,
    step_cost,
    to_target_tables,
    updates_to_target,
    verdict_matrix,
)
from batchscope.analysis.advice import Edge, Evidence, Limits, Outcome, ToTarget, TriedRates
from batchscope.analysis.advice_tables import SeriesAdvice
from batchscope.analysis.critical_batch_size import LEAST_SIZES
from batchscope.analysis.updates_to_target import Scaling, Series, Target
from batchscope.catalogue import own_columns
from batchscope.catalogue.budget_kinds import CONVERGENCE, EPOCHS, TARGET, UPDATES
from batchscope.catalogue.run_factors import TIMING_FACTORS
from batchscope.store.records import FINISHED, UNSUCCESSFUL

if TYPE_CHECKING:
    from batchscope.study.plan import Trainings

# Runs of a series -> seconds that one more seed of them takes: of one core for trainings and
# measures, NaN where unknown, and of the machine for timings.
Price = Callable[[list[str]], tuple[float, float]]
_KNEE = step_cost.PLATEAU_SHARE / (1 - step_cost.PLATEAU_SHARE)  # in units of B_half
_OF_MACHINE = ("machine", "dataset", "dataset_digest", "model", "model_digest", "device")


class EvidenceTables(NamedTuple):
    """The tables of an experiment that its advice rests on.

    Attributes:
        runs: Rows of runs.csv; those of the first machine count.
        matrix: Rows of budgets.csv.
    """

    runs: pandas.DataFrame
    trajectories: pandas.DataFrame
    limits: pandas.DataFrame
    matrix: pandas.DataFrame


def series_advice(tables: EvidenceTables, asked: Trainings, price: Price) -> list[SeriesAdvice]:
    """Returns the advice of every series that trains at three batch sizes or more.

    Args:
        asked: What the experiment states: target, margins, how much slower, seeds.
        price: What one more seed takes.
    """
    runs, trajectories = run_series.own(tables.runs), tables.trajectories
    if "machine" in trajectories and len(runs):
        trajectories = trajectories[trajectories["machine"] == runs["machine"].iloc[0]]
    if trajectories.empty:
        return []
    tables = tables._replace(trajectories=trajectories)
    frame = to_target_tables.evaluations(trajectories, runs)
    constant = to_target_tables.constants(runs)
    found = []
    for series in updates_to_target.series(frame, run_series.factor_columns(frame)):
        own = runs[runs["run"].isin(series.rows["run"])]
        if run_series.finished(own)["batch_size"].nunique() >= LEAST_SIZES:
            evidence = _evidence(series, tables._replace(runs=own), asked, price)
            found.append(SeriesAdvice({**constant, **series.factors}, advice.advise(evidence)))
    return found


def _evidence(series: Series, tables: EvidenceTables, asked: Trainings, price: Price) -> Evidence:
    """Returns what is known of one series, of which the runs are all."""
    runs = tables.runs
    scaling = _scaling(series, tables.trajectories, asked.budgets)
    converged = _converged(runs, tables.trajectories)
    outcomes = tuple(_outcomes(converged, asked.margins))
    limits = _matching(tables.limits, runs)
    trainings, timings = price(runs["run"].tolist())
    rates = _rates(runs, scaling, converged, trainings)
    return Evidence(
        batch_sizes=sorted(runs["batch_size"].unique().tolist()),
        seeds=sorted(runs["seed"].unique().tolist()),
        to_target=_to_target(scaling, asked.slower),
        outcomes=outcomes,
        rates=rates,
        limits=Limits(*_memory(limits), _knee(limits, scaling)),
        scope=_scope(runs, series.along, rates.tuned),
        seed_seconds=trainings + timings,
        trends=_trends(tables.matrix, series.factors, outcomes),
        elsewhere=runs["machine"].iloc[0] == own_columns.ELSEWHERE,
        planned=asked.seeds_planned,
        falling=next((each.falling for each in converged.values()), ()),
    )


def _scaling(
    series: Series, trajectories: pandas.DataFrame, budgets: dict[str, Any]
) -> Scaling | None:
    """Returns what each size takes to the target, the lowest where none is stated."""
    stated = [Target(*each) for each in budgets.get(TARGET, {}).items()]
    targets = stated or updates_to_target.default_targets(series.rows)[-1:]
    found = updates_to_target.scalings(series.rows, (), targets)
    own_targets = updates_to_target.at_own_targets(trajectories)
    return next((each for each in found if own_targets or each.target.column), None)


def _to_target(scaling: Scaling | None, slower: float) -> ToTarget:
    if scaling is None:
        return ToTarget(slower=slower)
    return ToTarget(
        scaling.target.words,
        _seconds(scaling),
        slower,
        tuple(compress(scaling.batch_sizes, scaling.differ("seconds"))),
        tuple(compress(scaling.batch_sizes, scaling.at_first.any(axis=1))),
        scaling.fit,
        scaling.fastest,
    )


def _converged(
    runs: pandas.DataFrame, evaluations: pandas.DataFrame
) -> dict[str, equal_budgets.Reading]:
    """Returns the trainings of a series, each at its lowest validation loss; empty without any.

    Without validation losses the single row of a training made elsewhere is all that there is to
    read, and no rate can be chosen.
    """
    trained = equal_budgets.trained(runs, evaluations)
    single = updates_to_target.at_own_targets(evaluations) and len(trained.rates) == 1
    if not trained.finished or not (trained.chosen_by_loss or single):
        return {}
    return equal_budgets.read(trained, equal_budgets.Budget(CONVERGENCE, math.nan))


def _rates(
    runs: pandas.DataFrame,
    scaling: Scaling | None,
    converged: dict[str, equal_budgets.Reading],
    seconds: float,
) -> TriedRates:
    """Returns what was tried, of trainings that take so many seconds for one more seed."""
    edges: list[Edge] = []
    for outcome in [*converged.values()][:1]:  # outcomes at a budget share their rates
        edges += _edges(advice.OUTCOME, runs, outcome.rates, outcome.on_edge)
    if scaling and (rates := scaling.rates_by("seconds")):
        limit = advice.SECONDS if "seconds" in scaling.rates else advice.UPDATES
        edges += _edges(limit, runs, rates.chosen, rates.on_edge)
    # Of trainings made elsewhere the rate may not be known.
    tried = max(1, *runs.groupby("batch_size")[chosen_rates.RATE].nunique())
    known = bool(runs[chosen_rates.RATE].notna().all())
    of_one = seconds * runs["seed"].nunique() / tried
    return TriedRates(tried if tried > 1 else 0, known, tuple(edges), of_one)


def _edges(
    limit: str, runs: pandas.DataFrame, rates: np.ndarray, on_edge: np.ndarray
) -> Iterator[Edge]:
    """Yields the batch sizes of which a chosen rate is on the edge of those tried there.

    Where some training failed at every rate none is chosen, and the size is excluded as failed.
    """
    tried = runs[chosen_rates.RATE].where(runs["status"].isin([FINISHED, *UNSUCCESSFUL]))
    highest_tried = tried.groupby(runs["batch_size"]).max()
    for (size, highest), rate, edge in zip(highest_tried.items(), rates, on_edge, strict=True):
        if edge and not np.isnan(rate):
            yield Edge(int(size), float(rate), bool(rate >= highest), limit)


def _seconds(scaling: Scaling) -> np.ndarray | None:
    """Returns the seconds to the target; None where a batch size was not timed."""
    seconds, there = scaling.measured.get("seconds"), ~np.isnan(scaling.measured["updates"])
    return None if seconds is None or np.isnan(seconds[there]).any() else seconds


def _outcomes(
    converged: dict[str, equal_budgets.Reading], margins: dict[str, float]
) -> Iterator[Outcome]:
    """Yields the outcomes whose margins are stated, as they are, or else the accuracy."""
    found = {name: each for name, each in converged.items() if np.isfinite(each.values).any()}
    known = [name for name in margins if name in found] or [*found][:1]
    for name in known:
        margin = margins.get(name, verdict_matrix.MARGINS[name.rpartition("_")[2]])
        yield Outcome(name, margin, found[name].values, name in margins, found[name].differing)


def _matching(limits: pandas.DataFrame, runs: pandas.DataFrame) -> pandas.DataFrame:
    """Returns the limits of the machine that are of a series' own data, model and device."""
    if limits.empty or runs.empty:
        return limits.iloc[:0]
    own = runs.iloc[0]
    # Of several configurations of this model those that are trained like these runs.
    for name in {*_OF_MACHINE, *TIMING_FACTORS} & {*limits} & {*runs} - {"batch_size"}:
        limits = limits[limits[name].eq(own[name]) | (limits[name].isna() & pandas.isna(own[name]))]
    return limits


def _memory(limits: pandas.DataFrame) -> tuple[int | None, bool]:
    """Returns the largest batch that fits, and whether a larger one was never tried."""
    known = limits.dropna(subset="max_batch_size") if len(limits) else limits
    if known.empty:
        return None, False
    least = known.loc[known["max_batch_size"].astype(float).idxmin()]
    return int(least["max_batch_size"]), least["max_batch_size_bound"] == "most_fits"


def _knee(limits: pandas.DataFrame, scaling: Scaling | None) -> float:
    """Returns the knee as it was timed, else that of the line through the trainings' steps."""
    for row in limits.to_dict("records"):
        for name in ("knee_fitted", "knee_batch_size"):
            if pandas.notna(row[name]) and not step_cost.too_noisy(row["noise_floor"]):
                return float(row[name])
    return (
        _KNEE * scaling.step.fixed / scaling.step.per_image
        if scaling and scaling.step
        else math.nan
    )


def _trends(
    matrix: pandas.DataFrame, values: dict[str, Any], outcomes: Sequence[Outcome]
) -> dict[str, str]:
    """Returns what looks better at equal epochs and updates, by the matrix's first outcome."""
    if matrix.empty or not outcomes:
        return {}
    rows = matrix[matrix["outcome"] == outcomes[0].name]
    for name, value in values.items():
        if name in rows:
            rows = rows[rows[name] == value]
    first = rows.drop_duplicates("budget").set_index("budget")["trend"]
    return {kind: first[kind] for kind in (EPOCHS, UPDATES) if kind in first}


def _scope(runs: pandas.DataFrame, along: dict[str, list[Any]], tuned: int) -> str:
    """Returns what the runs of a series are: `small_cnn on digits, SGD ..., this CPU`."""
    # Of trainings made elsewhere less is known.
    own = runs[run_series.factor_columns(runs)].astype(object).iloc[0].dropna().to_dict()
    parts = [f"{own['model']} on {own['dataset']}"] if {"model", "dataset"} <= own.keys() else []
    optimizer = {name: own[name] for name in ("optimizer",) if name in own}
    parts.append(f"{run_series.describe(optimizer)} {_rate_words(own, along, tuned)}".strip())
    machine = runs["machine"].iloc[0] if "machine" in runs else "local"
    if machine == own_columns.ELSEWHERE:
        parts.append("trainings made elsewhere")
    elif "device" in own:
        device = str(own["device"]).upper()
        parts.append(f"this {device}" if machine == "local" else f"the {device} of {machine}")
    return ", ".join(filter(None, parts))


def _rate_words(own: dict[str, Any], along: dict[str, list[Any]], tuned: int) -> str:
    if tuned:
        return f"at the best of {tuned} learning rates"
    if chosen_rates.RATE in along:
        return "at learning rates that go with the batch size"
    if chosen_rates.RATE not in own:
        return ""
    scaling = own.get("learning_rate_scaling", "none")
    rule = f" with {scaling} scaling" if scaling != "none" else ""
    return f"at learning rate {wording.shortest(float(own[chosen_rates.RATE]))}{rule}"
