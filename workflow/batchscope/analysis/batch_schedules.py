"""Rows of runs.csv and branches.csv in; ramps.csv and local_critical_batch_size.csv out.

Both tables answer whether the batch size may grow during a training. A new column goes into the
function that yields the rows of its table, and into `decision_columns`.

ramps.csv compares rising batch sizes with constant ones at equal examples. An arm is a rising or a
constant batch size, read at its best learning rate. A statement says that no constant batch size is
better by more than the margin. For a cost (updates or seconds) it says that the ratio to the best
constant batch size is below 1.

local_critical_batch_size.csv has, for each multiple of a batch size, whether it raises the loss of
branches, and the mean over seeds of the largest that does not. Branches begin after a share of the
training's examples. The loss of a multiple must exceed that of no smaller multiple by more than the
tolerance. All statements have a contrast per other batch size, paired by seed. The statements of a
table are one family.
"""

import functools
import itertools
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Self

import numpy as np
import pandas

from batchscope.analysis import intervals, noise_scales, run_series, verdicts
from batchscope.analysis.chosen_rates import RATE
from batchscope.analysis.contrasts import Contrast, over_analyses
from batchscope.analysis.trainings import RUN_LOSS, Choice, Trainings
from batchscope.analysis.verdicts import Row, Statement
from batchscope.study import batch_phases, factor_maps, run_factors, stages, tasks
from batchscope.study.decision_columns import LOCAL_CRITICAL, RAMPS
from batchscope.study.outcomes import Reason, Verdict
from batchscope.study.run_factors import Affects, factors_affecting, factors_used_with

COSTS = {"steps_run": "updates", "train_seconds": "seconds"}  # column of runs.csv -> outcome
_OUTCOMES = ("test_loss", RUN_LOSS)  # without stated margins the first with values is compared
# Factors that distinguish arms; compared arms may also differ in the factors below, and the seed.
_SCHEDULE_FACTORS = (*factors_affecting(Affects.HORIZON), *factors_used_with("batch_schedule"))
_DISTINGUISHING = (*_SCHEDULE_FACTORS, "base_batch_size")
_MAY_DIFFER = {*_DISTINGUISHING, RATE, "batch_size", "evaluate_every"}


def ramps_table(
    runs: pandas.DataFrame, margins: Mapping[str, float], analyses: Sequence[int] = ()
) -> pandas.DataFrame:
    """Return one row per arm with a rising batch size, and outcome or cost.

    Args:
        margins: Outcome -> largest negligible deterioration, as the study states them.
        analyses: Numbers of seeds at the interim analyses.
    """
    rows: list[Row] = []
    for arms in _comparable_arms(run_series.of_this_machine(runs)) if _has_ramp(runs) else ():
        constant = [arm for arm in arms if not _is_ramp(arm)]
        for ramp in filter(_is_ramp, arms):
            rows += _ramp_rows(ramp, constant, margins, analyses)
    factors = [name for name in run_series.factor_columns(runs) if name != RATE]
    return verdicts.table(rows, RAMPS, factors)


def _has_ramp(runs: pandas.DataFrame) -> bool:
    if not {*run_factors.FACTORS} <= {*runs} or runs[[*run_factors.FACTORS]].isna().any(axis=None):
        return False
    return bool((runs["batch_schedule"] != run_factors.CONSTANT).any())


def _is_ramp(arm: Trainings) -> bool:
    return len(batch_phases.batch_sizes(arm.factors)) > 1


def _comparable_arms(runs: pandas.DataFrame) -> Iterator[list[Trainings]]:
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
                name: factor_maps.plain_value(rows[name].iloc[0]) for name in run_factors.FACTORS
            }
            arms.append(Trainings(factors, rows, rows.iloc[:0]))
        yield arms


def _ramp_rows(
    ramp: Trainings,
    constant: Sequence[Trainings],
    margins: Mapping[str, float],
    analyses: Sequence[int],
) -> Iterator[Row]:
    """Yield the rows of one arm with a rising batch size: outcomes, then costs."""
    runs = pandas.concat([arm.runs for arm in (ramp, *constant)])
    names = dict.fromkeys((*margins, *_OUTCOMES))
    measured = [name for name in names if name in runs and runs[name].notna().any()]
    compared = [name for name in measured if name in margins] or measured[:1]
    for outcome in compared:
        margin = margins.get(outcome, tasks.loss_margin(tasks.from_columns(runs.columns)))
        arms = _Arms(ramp, constant, outcome, margin)
        row = {
            **run_series.constant_factors(ramp.runs),
            "batch_size": ramp.factors["batch_size"],
            RATE: arms.chosen.rates[0],
            "outcome": outcome,
            "bound": arms.bound,
        }
        if not arms.usable:
            yield {**row, "verdict": Verdict.NOT_TESTABLE, "reason": Reason.ALONE}
            continue
        if np.isinf(arms.chosen.values).any():
            yield {**row, "verdict": Verdict.BEYOND, "reason": Reason.FAILED}
        else:
            differences = arms.statement(_Arms.differences, analyses)
            yield {**row, "statement": replace(differences, is_about_margin=True)}
        for column, cost in COSTS.items() if outcome == compared[0] else ():
            if arms.cost_ratios(column):
                ratios = functools.partial(_Arms.cost_ratios, column=column)
                statement = replace(arms.statement(ratios, analyses), ratio=True)
                yield {**row, "outcome": cost, "bound": 1.0, "statement": statement}


@dataclass(frozen=True)
class _Arms:
    """An arm with a rising batch size and constant ones, each at its best rate for an outcome."""

    ramp: Trainings
    constant: Sequence[Trainings]
    outcome: str
    margin: float

    @property
    def sign(self) -> float:
        """-1 if higher values of the outcome are better, else 1."""
        return -1.0 if tasks.higher_is_better(self.outcome, self.ramp.metrics) else 1.0

    @property
    def bound(self) -> float:
        return self.sign * self.margin

    def _at_best_rate(self, arm: Trainings) -> Choice:
        losses, cube = arm.column_cube(RUN_LOSS), arm.column_cube(self.outcome)
        return arm.choose_by_losses(losses, cube, not self.outcome.startswith("test"))

    @functools.cached_property
    def chosen(self) -> Choice:
        return self._at_best_rate(self.ramp)

    @functools.cached_property
    def usable(self) -> dict[int, Choice]:
        """Index -> choice of the constant arms without a failed run: others are no better."""
        choices = enumerate(map(self._at_best_rate, self.constant))
        return {
            index: choice
            for index, choice in choices
            if np.isfinite(choice.values).any() and not np.isinf(choice.values).any()
        }

    def differences(self) -> list[Contrast]:
        """Return the differences by seed of the outcome from each constant arm."""
        values = pandas.Series(self.chosen.values[0], self.ramp.axes[2])
        return [
            Contrast(
                (values - pandas.Series(other.values[0], self.constant[index].axes[2])).to_numpy(),
                tuned=bool(self.chosen.tuned[0] or other.tuned[0]),
                cells=self._cells(index),
                **{"low" if self.bound < 0 else "high": self.bound},
            )
            for index, other in self.usable.items()
        ]

    def cost_ratios(self, column: str) -> list[Contrast]:
        """Return the log ratio by seed of a cost to the constant batch size with the best mean."""
        if not self.usable:
            return []
        best = min(self.usable, key=lambda index: np.nanmean(self.sign * self.usable[index].values))

        def costs(arm: Trainings, choice: Choice) -> pandas.Series:
            return pandas.Series(choice.apply(arm.column_cube(column)).values[0], arm.axes[2])

        ratios = costs(self.ramp, self.chosen) / costs(self.constant[best], self.usable[best])
        logs = np.log(ratios).to_numpy()
        return (
            [Contrast(logs, high=0.0, cells=self._cells(best))] if np.isfinite(logs).any() else []
        )

    def _cells(self, index: int) -> dict[str, int]:
        return {"at": index, "against": self.constant[index].factors["batch_size"]}

    def statement(
        self, contrasts: Callable[[Self], Sequence[Contrast]], analyses: Sequence[int]
    ) -> Statement:
        """Return a statement that is tested with the seeds of every interim analysis."""
        all_arms = (self.ramp, *self.constant)
        seeds = sorted({seed for arm in all_arms for seed in arm.axes[2]})
        by_analysis = []
        for count, share in stages.analyses_so_far(len(seeds), analyses):
            ramp, *constant = (arm.with_seeds(seeds[:count]) for arm in all_arms)
            if all(arm.axes[2] for arm in (ramp, *constant)):
                arms = replace(self, ramp=ramp, constant=constant)
                by_analysis.append([replace(each, share=share) for each in contrasts(arms)])
        # An earlier analysis that compares other arms is left out.
        cells = [[contrast.cells for contrast in analysis] for analysis in by_analysis]
        same = itertools.compress(by_analysis, (analysis == cells[-1] for analysis in cells))
        return Statement.all_hold(map(over_analyses, zip(*same, strict=True)))


def local_critical_table(
    branches: pandas.DataFrame,
    points: pandas.DataFrame,
    tolerance: float,
    analyses: Sequence[int] = (),
) -> pandas.DataFrame:
    """Return one row per series, batch size, point and multiple of it above 1.

    Args:
        branches: branches.csv; `points` is branch_points.csv.
        tolerance: Negligible difference, in the unit of the loss.
        analyses: Numbers of seeds at the interim analyses.
    """
    rows = _branch_rows(branches, points, tolerance, analyses) if len(branches) else ()
    return verdicts.table(rows, LOCAL_CRITICAL, run_series.factor_columns(branches))


def _branch_rows(
    branches: pandas.DataFrame, points: pandas.DataFrame, tolerance: float, analyses: Sequence[int]
) -> Iterator[Row]:
    for series in run_series.split_series(branches):
        series_points = points[points["run"].isin(series.frame["run"])]
        for (size, share), rows in series.frame.groupby(["batch_size", "share"]):
            selected = (series_points["batch_size"] == size) & (series_points["share"] == share)
            size_points = series_points[selected]
            losses = rows.pivot_table(
                "branch_loss", "factor", "seed", aggfunc="first", dropna=False
            ).astype(float)
            row = {
                **run_series.constant_factors(series.frame),
                "batch_size": size,
                "share": share,
                "examples_used": float(size_points["examples_used"].mean()),
                **_critical_size_columns(size_points, size * losses.index.to_numpy()),
                **_noise_scale_columns(size_points),
            }
            # The multiple 1 is always first (`measures.branches`), with nothing to compare with.
            for multiple in losses.index[1:]:
                smaller = losses[losses.index < multiple].dropna(how="all")
                columns = _statement_of_multiple(losses.loc[multiple], smaller, tolerance, analyses)
                yield {**row, "factor": multiple, **columns}


def _statement_of_multiple(
    losses: pandas.Series, smaller: pandas.DataFrame, tolerance: float, analyses: Sequence[int]
) -> Row:
    """Return the statement about a multiple, or its verdict if one of its branches diverged.

    A smaller multiple that diverged for some seeds is compared over the other seeds.
    """
    if losses.isna().any() or smaller.empty:
        verdict = Verdict.NOT_TESTABLE if smaller.empty else Verdict.BEYOND
        return {"verdict": verdict, "reason": Reason.FAILED, "n": int(losses.notna().sum())}
    so_far = stages.analyses_so_far(len(losses), analyses)
    contrasts = (
        Contrast(losses - smaller_losses, high=tolerance, cells={"against": multiple})
        for multiple, smaller_losses in smaller.iterrows()
    )
    contrasts = (contrast.at_analyses(so_far) for contrast in contrasts)
    statement = Statement.all_hold(contrasts, is_about_margin=True)
    return {"bound": tolerance, "statement": statement}


def _critical_size_columns(points: pandas.DataFrame, sizes: np.ndarray) -> dict[str, float]:
    """Return the geometric mean over seeds with its interval.

    A seed's value (`measures.branches`) is the largest tried size that passes. The true one is
    below the next size, so the upper end is raised by that step. An end at the edge of the sizes is
    unbounded (NaN).
    """
    by_seed = points["local_critical_batch_size"].to_numpy(float)
    mean, low, high = map(verdicts.exponential, intervals.t_interval(np.log(by_seed))[:3])
    next_size = dict(itertools.pairwise(sizes.tolist()))
    if (by_seed == sizes[0]).any():
        low = math.nan
    if (by_seed == sizes[-1]).any():
        high = math.nan
    else:
        high *= max(next_size[size] / size for size in by_seed)
    return intervals.columns("critical_batch_size", (mean, low, high))


def _noise_scale_columns(points: pandas.DataFrame) -> dict[str, float]:
    scale = noise_scales.from_runs(points)
    if not scale.is_resolved:
        return {}
    ratio, high = (math.nan, math.nan) if scale.is_lower_bound else (scale.ratio, scale.high)
    return intervals.columns("noise_scale", (ratio, scale.low, high))
