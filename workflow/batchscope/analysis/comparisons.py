"""Comparisons at budgets in, comparisons.csv out: each batch size against the best of the others.

Signs: `estimate` is the outcome minus the best of the others (the ratio of a cost), so a negative
one is a lower accuracy or a lower loss. `bound` is the margin, negative if higher is better. Values
are NaN without a run, and infinite if a run failed. `reasons_not_compared` says which batch sizes
are then left out. A new column goes into `_rows` and `decision_columns.COMPARISONS`.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator

import numpy as np
import pandas

from batchscope.analysis import chosen_rates, intervals, run_series, verdicts
from batchscope.analysis.budget_comparisons import BudgetComparison
from batchscope.analysis.contrasts import Contrast
from batchscope.analysis.verdicts import ComparisonWithBest, Row
from batchscope.study.decision_columns import COMPARISONS
from batchscope.study.outcomes import MIN_SEEDS_FOR_INTERVAL, Reason, Verdict
from batchscope.study.tables import clipped_to_range


def table(runs: pandas.DataFrame, at_budgets: Iterable[BudgetComparison]) -> pandas.DataFrame:
    """Return one row per comparison and batch size (see `COMPARISONS`)."""
    factors = [name for name in run_series.factor_columns(runs) if name != chosen_rates.RATE]
    rows = [row for comparison in at_budgets for row in _rows(comparison, factors)]
    return verdicts.table(rows, COMPARISONS, factors)


def higher_is_better(rows: pandas.DataFrame) -> pandas.Series:
    """Return whether higher values of each row's outcome are better, by the sign of its bound."""
    return rows["bound"].astype(float) < 0


def best_batch_size(rows: pandas.DataFrame) -> int | None:
    """Return the batch size with the best paired difference, in rows of one comparison.

    Means are ranked only if there is no difference, since they may be over other seeds.
    """
    values = rows.set_index("batch_size")[["estimate", "mean"]].astype(float)
    for column in ("estimate", "mean"):
        ranked = values[column].dropna()
        if len(ranked):
            higher = higher_is_better(rows).iloc[0]
            return int(ranked.idxmax() if higher else ranked.idxmin())
    return None


def _rows(comparison: BudgetComparison, factors: list[str]) -> Iterator[Row]:
    """Yield the rows of a comparison, one per batch size."""
    bound = -comparison.margin if comparison.higher_is_better else comparison.margin
    if comparison.is_cost:
        bound = verdicts.exponential(math.log1p(comparison.margin))
    first_runs = comparison.trainings.runs.drop_duplicates("batch_size")
    first_runs = first_runs.set_index("batch_size")[factors]
    means, reasons = comparison.means(), reasons_not_compared(comparison)
    statements = _statements(comparison, [i for i, reason in enumerate(reasons) if not reason])
    for size_index, size in enumerate(comparison.batch_sizes):
        mean, *ends = means[size_index][:3]
        has_interval = means[size_index].n >= MIN_SEEDS_FOR_INTERVAL
        ends = clipped_to_range(comparison.outcome, ends) if has_interval else [math.nan] * 2
        seeds, statement = int(comparison.has_run[size_index].sum()), statements.get(size_index)
        reason = reasons[size_index] or (Reason.NONE if statement else Reason.ALONE)
        reached = int(np.isfinite(comparison.values[size_index]).sum())
        yield {
            **first_runs.loc[size].to_dict(),
            **comparison.budget_columns,
            "margin": comparison.margin,
            "bound": bound,
            "batch_size": size,
            "learning_rate": comparison.chosen.rates[size_index],
            "on_edge": int(comparison.chosen.on_edge[size_index]),
            "still_falling": int(comparison.still_falling[size_index]),
            "seeds": seeds,
            "epochs_run": comparison.trainings.epochs_run.get(size),
            "reached": None if reason == Reason.NO_VALUE or not seeds else reached,
            **intervals.columns("mean", (mean, *ends)),
            "verdict": Verdict.NOT_TESTABLE,
            "reason": reason,
            "n": 0,
            "statement": statement,
        }


def reasons_not_compared(comparison: BudgetComparison) -> list[Reason]:
    """Return the reason why each batch size is not compared; `Reason.NONE` if it is."""
    result = []
    for size_index, values in enumerate(comparison.values):
        if comparison.is_cost and (values <= 0).any():
            result.append(Reason.NOT_POSITIVE)  # a cost of 0 has no ratio
        elif np.isinf(values).any():
            reached = not comparison.not_reached[size_index]
            result.append(Reason.FAILED if reached else Reason.NOT_REACHED)
        elif np.isnan(values).all():
            ended_early = comparison.ended_early[size_index]
            result.append(Reason.NO_BUDGET if ended_early else Reason.NO_VALUE)
        elif comparison.rate_left[size_index]:
            result.append(Reason.RATE_LEFT)
        else:
            result.append(Reason.NONE)
    return result


def _statements(comparison: BudgetComparison, sizes: list[int]) -> dict[int, ComparisonWithBest]:
    """Return size index -> statement, for every size of `sizes` that shares a seed with another."""
    analyses = (*comparison.earlier, comparison)
    shares = [analysis.share for analysis in analyses]
    reasons_unbounded = [
        Reason.AT_FIRST_EVALUATION if first else Reason.NONE for first in comparison.at_first
    ]
    statements = {}
    for size_index in sizes if len(sizes) > 1 else ():
        others = [other_index for other_index in sizes if other_index != size_index]
        at_analyses = [
            _statement(analysis, size_index, others, reasons_unbounded) for analysis in analyses
        ]
        statement = verdicts.over_analyses(at_analyses, shares)
        if any(contrast.n for contrast in statement.contrasts):
            statements[size_index] = statement
    return statements


def _statement(
    comparison: BudgetComparison, size_index: int, others: list[int], reasons: list[Reason]
) -> ComparisonWithBest:
    """Return the statement that a size is within the margin of the best of the others.

    `reasons` says of each size why it may be better than measured.
    """
    margin = math.log1p(comparison.margin) if comparison.is_cost else comparison.margin
    contrasts = (
        Contrast(
            _differences(comparison, size_index, other_index),
            low=-margin,
            tuned=bool(comparison.chosen.tuned[[size_index, other_index]].any()),
            unbounded_low=reasons[other_index],
            unbounded_high=reasons[size_index],
            cells={"against": comparison.batch_sizes[other_index]},
        )
        for other_index in others
    )
    lower_is_better = comparison.is_cost or not comparison.higher_is_better
    pairs = math.comb(len(others) + 1, 2)
    return ComparisonWithBest.all_hold(
        contrasts, ratio=comparison.is_cost, pairs=pairs, negative=lower_is_better
    )


def _differences(comparison: BudgetComparison, size_index: int, other_index: int) -> np.ndarray:
    """Return by how much one batch size is better than another, by seed."""
    values = comparison.values[[size_index, other_index]]
    with np.errstate(divide="ignore", invalid="ignore"):
        if comparison.is_cost:
            values = -np.log(values)
        elif not comparison.higher_is_better:
            values = -values
        return values[0] - values[1]
