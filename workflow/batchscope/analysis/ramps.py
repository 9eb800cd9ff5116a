"""Rows of runs.csv in, ramps.csv out: rising batch sizes against constant ones at equal examples.

An arm is a rising or a constant batch size, read at its best learning rate. A statement says that
no constant batch size is better by more than the margin. It has one contrast for each of them,
paired by seed. For a cost (updates or seconds) the statement is that its ratio to the best constant
batch size is below 1. All statements are one family. A new cost is an entry of `COSTS`.
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
from batchscope.analysis.contrasts import Contrast
from batchscope.analysis.trainings import RUN_LOSS, Choice, Trainings
from batchscope.analysis.verdicts import Row, Statement
from batchscope.study import batch_phases, factor_words, run_factors, tasks
from batchscope.study.decision_columns import RAMPS
from batchscope.study.outcomes import Reason, Verdict
from batchscope.study.run_factors import Affects, factors_affecting, factors_used_with

COSTS = {"steps_run": "updates", "train_seconds": "seconds"}  # column of runs.csv -> outcome
_OUTCOMES = ("test_loss", RUN_LOSS)  # without stated margins the first with values is compared
_SCHEDULE_FACTORS = (*factors_affecting(Affects.HORIZON), *factors_used_with("batch_schedule"))
# Factors, besides the seed, that may differ between compared arms.
_MAY_DIFFER = {*_SCHEDULE_FACTORS, RATE, "batch_size", "base_batch_size", "evaluate_every"}
_DISTINGUISHING = (*_SCHEDULE_FACTORS, "base_batch_size")  # factors that distinguish arms


def table(
    runs: pandas.DataFrame, margins: Mapping[str, float], analyses: Sequence[int] = ()
) -> pandas.DataFrame:
    """Return one row per arm with a rising batch size, and outcome or cost.

    Args:
        margins: Outcome -> largest negligible deterioration, as the study states them.
        analyses: Numbers of seeds at the interim analyses.
    """
    rows: list[Row] = []
    for arms in _comparable_groups(run_series.of_this_machine(runs)) if _has_ramp(runs) else ():
        constant = [arm for arm in arms if not _is_ramp(arm)]
        for arm in filter(_is_ramp, arms):
            rows += _rows_of_ramp(arm, constant, margins, analyses)
    factors = [name for name in run_series.factor_columns(runs) if name != RATE]
    return verdicts.table(rows, RAMPS, factors)


def _has_ramp(runs: pandas.DataFrame) -> bool:
    if not {*run_factors.FACTORS} <= {*runs} or runs[[*run_factors.FACTORS]].isna().any(axis=None):
        return False
    return bool((runs["batch_schedule"] != run_factors.CONSTANT).any())


def _is_ramp(arm: Trainings) -> bool:
    return len(batch_phases.batch_sizes(arm.factors)) > 1


def _comparable_groups(runs: pandas.DataFrame) -> Iterator[list[Trainings]]:
    """Yield lists of arms that differ only in their batch sizes and rates over time.

    All train for the same number of epochs: runs that a criterion may stop are left out.
    """
    runs = runs[(runs[[*run_series.STOP_FACTORS]] == 0).all(axis=1)]
    varying = run_series.varying_factors(runs)
    equal = [name for name in varying if name not in _MAY_DIFFER]
    distinct = ["batch_size", *(name for name in varying if name in _DISTINGUISHING)]
    for _, group in runs.groupby(equal, sort=False, dropna=False) if equal else [((), runs)]:
        arms = []
        for _, rows in group.groupby(distinct, sort=False, dropna=False):
            factors = {
                name: factor_words.plain_value(rows[name].iloc[0]) for name in run_factors.FACTORS
            }
            arms.append(Trainings(factors, rows, rows.iloc[:0]))
        yield arms


def _rows_of_ramp(
    arm: Trainings,
    constant: Sequence[Trainings],
    margins: Mapping[str, float],
    analyses: Sequence[int],
) -> Iterator[Row]:
    """Yield the rows of one arm with a rising batch size: outcomes, then costs."""
    arms = (arm, *constant)
    runs = pandas.concat([trainings.runs for trainings in arms])
    names = dict.fromkeys((*margins, *_OUTCOMES))
    measured = [name for name in names if name in runs and runs[name].notna().any()]
    compared = [name for name in measured if name in margins] or measured[:1]
    for outcome in compared:
        margin = margins.get(outcome, tasks.loss_margin(tasks.from_columns(runs.columns)))
        margin = -margin if tasks.higher_is_better(outcome, arm.metrics) else margin
        chosen = _values_at_best_rate(arm, outcome)
        row = {
            **run_series.constant_factors(arm.runs),
            "batch_size": arm.factors["batch_size"],
            RATE: chosen.rates[0],
            "outcome": outcome,
            "bound": margin,
        }
        if not _usable_values(constant, outcome):
            yield {**row, "verdict": Verdict.NOT_TESTABLE, "reason": Reason.ALONE}
            continue
        if np.isinf(chosen.values).any():
            yield {**row, "verdict": Verdict.BEYOND, "reason": Reason.FAILED}
        else:
            differences = _statement(arms, analyses, _differences, outcome, margin)
            yield {**row, "statement": replace(differences, is_about_margin=True)}
        for column, cost in COSTS.items() if outcome == compared[0] else ():
            if _cost_contrasts(arms, outcome, column):
                ratio = _statement(arms, analyses, _cost_contrasts, outcome, column)
                columns = {"outcome": cost, "bound": 1.0, "statement": replace(ratio, ratio=True)}
                yield {**row, **columns}


def _values_at_best_rate(arm: Trainings, column: str) -> Choice:
    losses, cube = arm.column_cube(RUN_LOSS), arm.column_cube(column)
    return arm.choose_by_losses(losses, cube, not column.startswith("test"))


def _usable_values(constant: Sequence[Trainings], outcome: str) -> dict[int, Choice]:
    """Return index -> values of the constant arms without a failed run: others are no better."""
    chosen = {index: _values_at_best_rate(arm, outcome) for index, arm in enumerate(constant)}
    return {
        index: choice
        for index, choice in chosen.items()
        if np.isfinite(choice.values).any() and not np.isinf(choice.values).any()
    }


def _by_seed(arm: Trainings, values: np.ndarray) -> pandas.Series:
    return pandas.Series(values[0], arm.axes[2])


def _differences(arms: Sequence[Trainings], outcome: str, margin: float) -> list[Contrast]:
    """Return the differences by seed of the outcome from each constant arm."""
    arm, *constant = arms
    chosen = _values_at_best_rate(arm, outcome)
    values = _by_seed(arm, chosen.values)
    return [
        Contrast(
            (values - _by_seed(constant[index], other.values)).to_numpy(),
            tuned=bool(chosen.tuned[0] or other.tuned[0]),
            cells={"at": index, "against": constant[index].factors["batch_size"]},
            **{"low" if margin < 0 else "high": margin},
        )
        for index, other in _usable_values(constant, outcome).items()
    ]


def _cost_contrasts(arms: Sequence[Trainings], outcome: str, column: str) -> list[Contrast]:
    """Return the log ratio by seed of a cost to the constant batch size with the best mean."""
    arm, *constant = arms
    chosen = _usable_values(constant, outcome)
    sign = -1.0 if tasks.higher_is_better(outcome, arm.metrics) else 1.0
    if not chosen:
        return []
    best = min(chosen, key=lambda index: np.nanmean(sign * chosen[index].values))

    def cost(trainings: Trainings, chosen: Choice) -> pandas.Series:
        values = chosen_rates.values_at_rates(trainings.column_cube(column), chosen.rate_index)
        return _by_seed(trainings, np.where(chosen.rate_index < 0, math.nan, values))

    ratios = cost(arm, _values_at_best_rate(arm, outcome)) / cost(constant[best], chosen[best])
    logs = np.log(ratios).to_numpy()
    cells = {"at": best, "against": constant[best].factors["batch_size"]}
    return [Contrast(logs, high=0.0, cells=cells)] if np.isfinite(logs).any() else []


def _statement(
    arms: Sequence[Trainings],
    analyses: Sequence[int],
    contrasts: Callable[..., Sequence[Contrast]],
    *arguments: Any,
) -> Statement:
    """Return a statement that is tested with the seeds of every interim analysis."""
    seeds = sorted({seed for arm in arms for seed in arm.axes[2]})

    def statement(count: int) -> Statement:
        first = [replace(arm, runs=arm.runs[arm.runs["seed"].isin(seeds[:count])]) for arm in arms]
        complete = all(arm.axes[2] for arm in first)
        return Statement.all_hold(contrasts(first, *arguments) if complete else ())

    return verdicts.at_analyses(len(seeds), analyses, statement)
