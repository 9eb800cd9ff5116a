"""Runs and comparisons at budgets in, trends.csv out: slopes of outcomes along the batch size.

There is one row per series, budget and outcome. At the end of the runs, the tested direction is the
one that the column or the study states. At an equal budget, the test is whether larger batch sizes
are better. A new column goes into `_row`.
"""

import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence

import numpy as np
import pandas

from batchscope.analysis import (
    budget_comparisons,
    comparisons,
    intervals,
    run_series,
    trainings,
    verdicts,
)
from batchscope.analysis.budget_comparisons import BudgetComparison
from batchscope.analysis.verdicts import Row
from batchscope.study.decision_columns import TRENDS
from batchscope.study.outcomes import FALLS, RISES, Reason, Verdict
from batchscope.study.table_entries import tested_direction

# Columns with a lower bound only if a run reached all its epochs without being stopped.
UNTIL_STOPPED = ("epochs_run", "train_seconds")


def table(
    runs: pandas.DataFrame,
    at_budgets: Iterable[BudgetComparison],
    claims: Mapping[str, str],
    analyses: Sequence[int] = (),
) -> pandas.DataFrame:
    """Return one row per series, budget and outcome of an experiment, as one family.

    Args:
        at_budgets: Every outcome of every series at an equal budget.
        claims: Outcome -> direction that the study states.
        analyses: Numbers of seeds at the interim analyses.
    """
    budget_rows = (
        _row(comparison, RISES if comparison.higher_is_better else FALLS)
        for comparison in at_budgets
    )
    rows = filter(None, (*_end_rows(runs, claims, analyses), *budget_rows))
    return verdicts.table(rows, TRENDS, run_series.factor_columns(runs))


def _end_rows(
    runs: pandas.DataFrame, claims: Mapping[str, str], analyses: Sequence[int]
) -> Iterator[Row | None]:
    """Yield the trend of every column of runs.csv with a direction, in every series."""
    if trainings.end_at_equal_budget(runs):  # such runs are compared at their budget only
        return
    measured = [name for name in runs if runs[name].notna().any()]
    directions = {name: claims.get(name) or tested_direction(name) for name in measured}
    directed = [name for name, direction in directions.items() if direction]
    for column, group in itertools.product(directed, run_series.split_series(runs)):
        rows = group.frame
        ended = run_series.finished_runs(rows)
        not_stopped = column in UNTIL_STOPPED and len(ended) > 0
        not_stopped = not_stopped and bool((ended["epochs_run"] == ended["epochs"]).all())
        has_fixed_epochs = not_stopped and not run_series.reached_all_epochs(rows).any()
        if column == "epochs_run" and has_fixed_epochs:
            continue  # the study states the number of epochs
        comparison = budget_comparisons.from_column(rows, column, analyses)
        yield _row(comparison, directions[column], not_stopped and not has_fixed_epochs)


def _row(comparison: BudgetComparison, direction: str, lower_bounds: bool = False) -> Row | None:
    """Return the row of the trend of a comparison; None without any value.

    Args:
        lower_bounds: Whether all values are lower bounds, because nothing stopped any run.
    """
    values = comparison.scaled
    failed = np.isinf(values).any(axis=1)
    kept = np.flatnonzero(np.isfinite(values).any(axis=1) & ~failed)
    if not len(kept):
        return None
    # A smallest or largest batch size that is left out restricts the trend.
    left_out = (index for index in (0, len(values) - 1) if index not in kept)
    reasons = (comparisons.reason_not_compared(comparison, index) for index in left_out)
    reason_left_out = next(reasons, Reason.NONE)
    untestable = Reason.NONE if len(kept) > 1 else reason_left_out or Reason.ALONE
    untestable = Reason.LOWER_BOUND if lower_bounds else untestable
    paired = np.isfinite(values[kept]).all(axis=0)
    means = comparison.means(paired if paired.any() else slice(None))
    row = {
        **run_series.constant_factors(comparison.trainings.runs),
        **comparison.budget_columns,
        "direction": direction,
        "seeds": int(comparison.has_run.any(axis=0).sum()),
        "n": int(paired.sum()),
        "smallest": comparison.batch_sizes[kept[0]],
        "largest": comparison.batch_sizes[kept[-1]],
        **intervals.columns("smallest_mean", means[kept[0]]),
        **intervals.columns("largest_mean", means[kept[-1]]),
        "verdict": Verdict.NOT_TESTABLE,
        "reason": untestable or reason_left_out,
    }
    if untestable:
        return row
    positions = np.log2(np.array(comparison.batch_sizes, float)[kept])
    centred = positions - positions.mean()
    smaller = _reason_maybe_better(comparison, kept[0], kept[centred < 0])
    larger = _reason_maybe_better(comparison, kept[-1], kept[centred > 0])
    higher_is_better = comparison.higher_is_better
    unbounded_low, unbounded_high = (smaller, larger) if higher_is_better else (larger, smaller)
    by_analysis = [
        verdicts.trend_contrasts(
            analysis.scaled[kept].T,
            positions,
            direction == RISES,
            analysis.share,
            tuned=bool(analysis.chosen.tuned[kept].any()),
            unbounded_low=unbounded_low,
            unbounded_high=unbounded_high,
        )
        for analysis in (*comparison.earlier, comparison)
    ]
    return {**row, "statement": verdicts.trend(by_analysis, ratio=comparison.is_cost)}


def _reason_maybe_better(comparison: BudgetComparison, end: int, sizes: np.ndarray) -> Reason:
    """Return the reason why the batch sizes at one end may be better than measured."""
    if comparison.chosen.on_edge[end]:
        return Reason.RATE_ON_EDGE
    if {*sizes} & {*comparison.at_first}:
        return Reason.AT_FIRST_EVALUATION
    return Reason.RATE_LEFT if {*sizes} & {*comparison.rate_left} else Reason.NONE
