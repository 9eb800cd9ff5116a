"""Rising batch sizes: each one compared with every constant one, after as many examples.

Each configuration is read at its best learning rate. A statement says that no constant batch size
is better by more than the margin: one contrast for each of them, paired by seed. The cost, updates
or seconds, is a ratio to the constant batch size with the best mean, stated to be below 1. All
statements are one family.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pandas

from batchscope.analysis import chosen_rates, run_series, verdicts
from batchscope.analysis.chosen_rates import RATE
from batchscope.analysis.trainings import CHOSEN_ON, Chosen, Trainings
from batchscope.analysis.verdicts import Contrast, Row, Statement
from batchscope.study import batch_phases, factor_words, run_factors, tasks
from batchscope.study.decision_columns import RAMPS
from batchscope.study.outcomes import Reason, Verdict
from batchscope.study.run_factors import Affects, affecting, used_with

COSTS = {"steps_run": "updates", "train_seconds": "seconds"}  # column of runs.csv -> outcome
_OUTCOMES = ("test_loss", CHOSEN_ON)  # without stated margins, the first that has values
_SCHEDULE_FACTORS = (*affecting(Affects.HORIZON), *used_with("batch_schedule"))
# Factors that may differ between compared configurations, besides the seed.
_FREE = {*_SCHEDULE_FACTORS, RATE, "batch_size", "base_batch_size", "evaluate_every"}
_DISTINCT = (*_SCHEDULE_FACTORS, "base_batch_size")  # free factors that distinguish configurations


def table(
    runs: pandas.DataFrame, margins: Mapping[str, float], planned: Sequence[int] = ()
) -> pandas.DataFrame:
    """Return one row per configuration with a rising batch size, and outcome or cost.

    The table is empty without such runs, or if external runs lack a factor.

    Args:
        margins: Outcome -> largest negligible deterioration, as the study states them.
        planned: Numbers of seeds at the interim analyses.
    """
    rows: list[Row] = []
    for arms in _groups(run_series.local(runs)) if _has_ramp(runs) else ():
        constant = [arm for arm in arms if not _is_ramp(arm)]
        for arm in filter(_is_ramp, arms):
            rows += _compared(arm, constant, margins, planned)
    named = [name for name in run_series.factor_columns(runs) if name != RATE]
    return verdicts.table(rows, RAMPS, named)


def _has_ramp(runs: pandas.DataFrame) -> bool:
    if not {*run_factors.FACTORS} <= {*runs} or runs[[*run_factors.FACTORS]].isna().any(axis=None):
        return False
    return bool((runs["batch_schedule"] != run_factors.CONSTANT).any())


def _is_ramp(arm: Trainings) -> bool:
    return len(batch_phases.batch_sizes(arm.factors)) > 1


def _groups(runs: pandas.DataFrame) -> Iterator[list[Trainings]]:
    """Yield configurations that differ in their batch sizes and rates over time alone.

    All train for the same number of epochs; runs that something may stop before are left out.
    """
    runs = runs[(runs[[*run_series.STOPS]] == 0).all(axis=1)]
    varying = run_series.varying(runs)
    equal = [name for name in varying if name not in _FREE]
    distinct = ["batch_size", *(name for name in varying if name in _DISTINCT)]
    for _, group in runs.groupby(equal, sort=False, dropna=False) if equal else [((), runs)]:
        arms = []
        for _, rows in group.groupby(distinct, sort=False, dropna=False):
            factors = {name: factor_words.plain(rows[name].iloc[0]) for name in run_factors.FACTORS}
            arms.append(Trainings(factors, rows, rows.iloc[:0]))
        yield arms


def _compared(
    arm: Trainings,
    constant: Sequence[Trainings],
    margins: Mapping[str, float],
    planned: Sequence[int],
) -> Iterator[Row]:
    """Yield the rows of a configuration with a rising batch size."""
    arms = (arm, *constant)
    runs = pandas.concat([trainings.runs for trainings in arms])
    names = dict.fromkeys((*margins, *_OUTCOMES))
    measured = [name for name in names if name in runs and runs[name].notna().any()]
    compared = [name for name in measured if name in margins] or measured[:1]
    for outcome in compared:
        margin = margins.get(outcome, tasks.loss_margin(tasks.from_columns(runs.columns)))
        margin = -margin if tasks.higher_is_better(outcome, arm.metrics) else margin
        chosen = _chosen(arm, outcome)
        row = {
            **run_series.constants(arm.runs),
            "batch_size": arm.factors["batch_size"],
            RATE: chosen.rates[0],
            "outcome": outcome,
            "bound": margin,
        }
        if not _usable(constant, outcome):
            yield {**row, "verdict": Verdict.NOT_TESTABLE, "reason": Reason.ALONE}
            continue
        if np.isinf(chosen.values).any():
            yield {**row, "verdict": Verdict.BEYOND, "reason": Reason.FAILED}
        else:
            differences = _staged(arms, planned, _differences, outcome, margin)
            yield {**row, "statement": replace(differences, of_margin=True)}
        for column, cost in COSTS.items() if outcome == compared[0] else ():
            if _costs(arms, outcome, column):
                statement = replace(_staged(arms, planned, _costs, outcome, column), ratio=True)
                yield {**row, "outcome": cost, "bound": 1.0, "statement": statement}


def _chosen(arm: Trainings, column: str) -> Chosen:
    losses, cube = arm.column(CHOSEN_ON), arm.column(column)
    return arm.chosen_by(losses, cube, not column.startswith("test"))


def _usable(constant: Sequence[Trainings], outcome: str) -> dict[int, Chosen]:
    """Return the constant configurations by index, without one that failed: it is no better."""
    chosen = {index: _chosen(arm, outcome) for index, arm in enumerate(constant)}
    return {
        index: choice
        for index, choice in chosen.items()
        if np.isfinite(choice.values).any() and not np.isinf(choice.values).any()
    }


def _by_seed(arm: Trainings, values: np.ndarray) -> pandas.Series:
    return pandas.Series(values[0], arm.axes[2])


def _differences(arms: Sequence[Trainings], outcome: str, margin: float) -> list[Contrast]:
    """Return the difference of the outcome from each constant configuration, by seed."""
    arm, *constant = arms
    chosen = _chosen(arm, outcome)
    values = _by_seed(arm, chosen.values)
    return [
        Contrast(
            (values - _by_seed(constant[index], other.values)).to_numpy(),
            tuned=bool(chosen.tuned[0] or other.tuned[0]),
            cells={"at": index, "against": constant[index].factors["batch_size"]},
            **{"low" if margin < 0 else "high": margin},
        )
        for index, other in _usable(constant, outcome).items()
    ]


def _costs(arms: Sequence[Trainings], outcome: str, column: str) -> list[Contrast]:
    """Return the logarithm of the ratio of a cost to the constant size with the best mean."""
    arm, *constant = arms
    chosen = _usable(constant, outcome)
    sign = -1.0 if tasks.higher_is_better(outcome, arm.metrics) else 1.0
    if not chosen:
        return []
    best = min(chosen, key=lambda index: np.nanmean(sign * chosen[index].values))

    def cost(trainings: Trainings, chosen: Chosen) -> pandas.Series:
        values = chosen_rates.at(trainings.column(column), chosen.read)
        return _by_seed(trainings, np.where(chosen.read < 0, math.nan, values))

    ratios = cost(arm, _chosen(arm, outcome)) / cost(constant[best], chosen[best])
    logs = np.log(ratios).to_numpy()
    cells = {"at": best, "against": constant[best].factors["batch_size"]}
    return [Contrast(logs, high=0.0, cells=cells)] if np.isfinite(logs).any() else []


def _staged(
    arms: Sequence[Trainings],
    planned: Sequence[int],
    contrasts: Callable[..., Sequence[Contrast]],
    *arguments: Any,
) -> Statement:
    """Return a statement that is tested by the first seeds of every analysis."""
    seeds = sorted({seed for arm in arms for seed in arm.axes[2]})

    def statement(count: int) -> Statement:
        first = [replace(arm, runs=arm.runs[arm.runs["seed"].isin(seeds[:count])]) for arm in arms]
        complete = all(arm.axes[2] for arm in first)
        return Statement.of_all(contrasts(first, *arguments) if complete else ())

    return verdicts.at_analyses(len(seeds), planned, statement)
