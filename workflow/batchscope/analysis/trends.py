"""Trends of outcomes along the batch size: a slope per series, budget and outcome.

The tested direction at the end of each run is the one that `outcomes` or the study states. At an
equal budget, the test is whether larger batch sizes are better.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

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
from batchscope.study import outcomes
from batchscope.study.decision_columns import TRENDS
from batchscope.study.outcomes import FALLS, RISES, Outcome, Reason, Verdict

# A run that ran all its epochs without being stopped gives a lower bound of these.
UNTIL_STOPPED = ("epochs_run", "train_seconds")


def table(
    runs: pandas.DataFrame,
    at_budgets: Iterable[BudgetComparison],
    claims: Mapping[str, Outcome],
    planned: Sequence[int] = (),
) -> pandas.DataFrame:
    """Return one row per series, budget and outcome of an experiment, as one family.

    Args:
        at_budgets: Every outcome of every series at an equal budget.
        claims: Column -> outcome with the direction that the study states.
        planned: Numbers of seeds at the interim analyses.
    """
    larger = (
        _row(comparison, RISES if comparison.higher_is_better else FALLS)
        for comparison in at_budgets
    )
    rows = filter(None, (*_at_end(runs, claims, planned), *larger))
    return verdicts.table(rows, TRENDS, run_series.factor_columns(runs))


def _at_end(
    runs: pandas.DataFrame, claims: Mapping[str, Outcome], planned: Sequence[int]
) -> Iterator[Row | None]:
    if trainings.at_own_ends(runs):  # compared at an equal budget alone
        return
    measured = [name for name in runs if runs[name].notna().any()]
    directed = filter(None, (claims.get(name) or outcomes.outcome(name) for name in measured))
    for outcome, group in itertools.product(directed, run_series.series(runs)):
        rows, column = group.frame, outcome.column
        ended = run_series.finished(rows)
        ran_out = column in UNTIL_STOPPED and len(ended) > 0
        ran_out = ran_out and bool((ended["epochs_run"] == ended["epochs"]).all())
        horizon = ran_out and not run_series.unstopped(rows).any()
        if column == "epochs_run" and horizon:
            continue  # chosen by the study
        comparison = budget_comparisons.from_column(rows, column, planned)
        yield _row(comparison, outcome.direction, ran_out and not horizon)


def _row(comparison: BudgetComparison, direction: str, lower_bounds: bool = False) -> Row | None:
    """Return the row of the trend of a comparison; None without any value.

    Args:
        lower_bounds: Whether all values are lower bounds, as nothing stopped any run.
    """
    values = _scaled(comparison)
    failed = np.isinf(values).any(axis=1)
    kept = np.flatnonzero(np.isfinite(values).any(axis=1) & ~failed)
    if not len(kept):
        return None
    reasons = comparisons.reasons(comparison)
    ends = (reasons[at] for at in (0, len(values) - 1) if at not in kept)
    left_out = next(ends, Reason.NONE)
    untestable = Reason.NONE if len(kept) > 1 else left_out or Reason.ALONE
    untestable = Reason.LOWER_BOUND if lower_bounds else untestable
    paired = np.isfinite(values[kept]).all(axis=0)
    means = comparison.means(paired if paired.any() else slice(None))
    row = {
        **run_series.constants(comparison.trainings.runs),
        **comparison.budget_columns,
        "direction": direction,
        "seeds": int(comparison.ran.any(axis=0).sum()),
        "n": int(paired.sum()),
        "smallest": comparison.batch_sizes[kept[0]],
        "largest": comparison.batch_sizes[kept[-1]],
        **intervals.columns("smallest_mean", means[kept[0]]),
        **intervals.columns("largest_mean", means[kept[-1]]),
        "verdict": Verdict.NOT_TESTABLE,
        "reason": untestable or left_out,
    }
    if untestable:
        return row
    positions = np.log2(np.array(comparison.batch_sizes, float)[kept])
    centred = positions - positions.mean()
    smaller = _unknown(comparison, kept[0], kept[centred < 0])
    larger = _unknown(comparison, kept[-1], kept[centred > 0])
    open_low, open_high = (smaller, larger) if comparison.higher_is_better else (larger, smaller)
    analyses = (*comparison.earlier, comparison)
    trends = [
        verdicts.trend(
            _scaled(analysis)[kept].T,
            positions,
            direction == RISES,
            tuned=bool(analysis.chosen.tuned[kept].any()),
            open_low=open_low,
            open_high=open_high,
        )
        for analysis in analyses
    ]
    statement = verdicts.staged(trends, [analysis.share for analysis in analyses])
    return {**row, "statement": replace(statement, ratio=comparison.is_cost)}


def _scaled(comparison: BudgetComparison) -> np.ndarray:
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.log(comparison.values) if comparison.is_cost else comparison.values


def _unknown(comparison: BudgetComparison, end: int, sizes: np.ndarray) -> Reason:
    """Return the reason why batch sizes towards one end may be better than they look."""
    if comparison.chosen.on_edge[end]:
        return Reason.RATE_ON_EDGE
    return Reason.AT_FIRST_EVALUATION if comparison.at_first[sizes].any() else Reason.NONE
