"""What an advice rests on, gathered from an experiment's tables: one piece of evidence per series.

The seconds to the target are read at the rates that the other seeds choose; the outcome is that of
each training at its lowest validation loss, at the rate with the lowest mean of it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from itertools import compress
from typing import Any

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
from batchscope.analysis.advice import Edge, Evidence, Outcome
from batchscope.analysis.advice_tables import SeriesAdvice
from batchscope.analysis.critical_batch_size import LEAST_SIZES
from batchscope.analysis.updates_to_target import Scaling, Target
from batchscope.catalogue import own_columns
from batchscope.catalogue.budget_kinds import CONVERGENCE, EPOCHS, SLOWER, TARGET, UPDATES
from batchscope.catalogue.run_factors import TIMING_FACTORS

# Runs of a series -> seconds that one more seed of them takes: of one core for trainings and
# measures, NaN where unknown, and of the machine for timings.
Price = Callable[[list[str]], tuple[float, float]]
_KNEE = step_cost.PLATEAU_SHARE / (1 - step_cost.PLATEAU_SHARE)  # in units of B_half
_OF_MACHINE = ("machine", "dataset", "dataset_digest", "model", "model_digest", "device")


def series_advice(
    runs: pandas.DataFrame,
    trajectories: pandas.DataFrame,
    limits: pandas.DataFrame,
    matrix: pandas.DataFrame,
    budgets: dict[str, Any],
    margins: dict[str, float],
    price: Price,
    slower: float = SLOWER,
    planned: int | None = None,
) -> list[SeriesAdvice]:
    """Returns the advice of every series that trains at three batch sizes or more.

    Args:
        runs: Rows of runs.csv; those of the first machine count.
        matrix: Rows of budgets.csv.
        budgets: What the experiment states of budgets; its target is the one to reach.
        margins: Outcome -> margin, as it states them.
        price: What one more seed takes.
        slower: Share of the least time by which a size may take longer, as it states it.
        planned: Seeds that it planned; None where it does not say.
    """
    runs = run_series.own(runs)
    if "machine" in trajectories and len(runs):
        trajectories = trajectories[trajectories["machine"] == runs["machine"].iloc[0]]
    if trajectories.empty:
        return []
    frame = to_target_tables.evaluations(trajectories, runs)
    stated = [Target(*each) for each in (budgets.get(TARGET) or {}).items()]
    own_targets = updates_to_target.at_own_targets(trajectories)
    constant = to_target_tables.constants(runs)
    found = []
    for values, along, rows in updates_to_target.series(frame, run_series.factor_columns(frame)):
        own = runs[runs["run"].isin(rows["run"])]
        finished = own[own["status"] == "finished"]
        if finished["batch_size"].nunique() < LEAST_SIZES:
            continue
        targets = stated or updates_to_target.default_targets(rows)[-1:]
        scalings = updates_to_target.scalings(rows, (), targets)
        scaling = next((each for each in scalings if own_targets or each.target.column), None)
        reading = _converged(own, trajectories)
        evidence = _evidence(own, scaling, reading, margins, _matching(limits, own))
        trainings, timings = price(own["run"].tolist())
        # Of trainings made elsewhere the rate may not be known.
        rates = max(1, *own.groupby("batch_size")[chosen_rates.RATE].nunique())
        tuned = rates if rates > 1 else 0
        evidence = replace(
            evidence,
            scope=_scope(own, along, tuned),
            tuned=tuned,
            rates_known=bool(own[chosen_rates.RATE].notna().all()),
            seed_seconds=trainings + timings,
            rate_seconds=trainings * own["seed"].nunique() / rates,
            trends=_trends(matrix, values, evidence.outcomes),
            slower=slower,
            planned=planned,
            elsewhere=own["machine"].iloc[0] == own_columns.ELSEWHERE,
        )
        found.append(SeriesAdvice({**constant, **values}, advice.advise(evidence)))
    return found


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


def _evidence(
    runs: pandas.DataFrame,
    scaling: Scaling | None,
    converged: dict[str, equal_budgets.Reading],
    margins: dict[str, float],
    limits: pandas.DataFrame,
) -> Evidence:
    """Returns what is measured of one series."""
    sizes, seeds = (sorted(runs[name].unique().tolist()) for name in ("batch_size", "seed"))
    edges: list[Edge] = []
    outcomes, falling = (), ()
    differing = compress(scaling.batch_sizes, scaling.differ("seconds")) if scaling else ()
    bounded = compress(scaling.batch_sizes, scaling.at_first.any(axis=1)) if scaling else ()
    if converged:
        outcomes = _outcomes(converged, sizes, margins)
        first = next(iter(converged.values()))  # outcomes at a budget share their rates
        edges += _edges(advice.OUTCOME, runs, first.rates, first.on_edge)
        falling = first.falling
    if scaling and (rates := scaling.rates_by("seconds")):
        limit = advice.SECONDS if "seconds" in scaling.rates else advice.UPDATES
        edges += _edges(limit, runs, rates.chosen, rates.on_edge)
    memory, memory_open = _memory(limits)
    return Evidence(
        batch_sizes=sizes,
        seeds=seeds,
        target=scaling.target.words if scaling else "",
        seconds=_seconds(scaling) if scaling else None,
        differing=tuple(differing),
        bounded=tuple(bounded),
        outcomes=tuple(outcomes),
        memory=memory,
        memory_open=memory_open,
        edges=tuple(edges),
        falling=falling,
        critical=scaling.fit if scaling else None,
        fastest=scaling.fastest if scaling else None,
        knee=_knee(limits, scaling),
    )


def _edges(
    limit: str, runs: pandas.DataFrame, rates: np.ndarray, on_edge: np.ndarray
) -> Iterator[Edge]:
    """Yields the batch sizes of which a chosen rate is on the edge of those tried there.

    Where some training failed at every rate none is chosen, and the size is excluded as failed.
    """
    tried = runs[chosen_rates.RATE].where(runs["status"] != "missing")
    highest_tried = tried.groupby(runs["batch_size"]).max()
    for (size, highest), rate, edge in zip(highest_tried.items(), rates, on_edge, strict=True):
        if edge and not np.isnan(rate):
            yield Edge(int(size), float(rate), bool(rate >= highest), limit)


def _seconds(scaling: Scaling) -> np.ndarray | None:
    """Returns the seconds to the target; None where a batch size was not timed."""
    seconds, there = scaling.measured.get("seconds"), ~np.isnan(scaling.measured["updates"])
    return None if seconds is None or np.isnan(seconds[there]).any() else seconds


def _outcomes(
    converged: dict[str, equal_budgets.Reading], sizes: list[int], margins: dict[str, float]
) -> list[Outcome]:
    """Returns the outcomes whose margins are stated, as they are, or else the accuracy."""
    found = {name: each for name, each in converged.items() if np.isfinite(each.values).any()}
    known = [name for name in margins if name in found] or [*found][:1]
    default = verdict_matrix.MARGINS
    return [
        Outcome(
            name,
            margins.get(name, default[name.rpartition("_")[2]]),
            found[name].values,
            name in margins,
            tuple(compress(sizes, found[name].differ)),
        )
        for name in known
    ]


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
