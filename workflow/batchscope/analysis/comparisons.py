"""Comparisons at budgets in, comparisons.csv out: each batch size against the best of the others.

Signs: `estimate` is the outcome minus the best of the others (the ratio of a cost), so a negative
one is a lower accuracy or a lower loss. `bound` is the margin, negative if higher is better. Values
are NaN without a run, and infinite if a run failed. `reasons_not_compared` says which batch sizes
are then left out. A new column goes into `_rows`.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator

import numpy as np
import pandas

from batchscope.analysis import chosen_rates, intervals, run_series, verdicts
from batchscope.analysis.budget_comparisons import BudgetComparison
from batchscope.analysis.contrasts import ROUNDING, Contrast
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
    """Return the batch size with the best paired difference to the best of the others.

    Means are not ranked, because sizes with extra seeds or timing jobs average over values that the
    others lack. If only one batch size has a value, it is the best.

    Args:
        rows: Rows of comparisons.csv of one series, budget and outcome.
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
    margin = math.log1p(comparison.margin) if comparison.is_cost else comparison.margin
    analyses = (*comparison.earlier, comparison)
    shares = [analysis.share for analysis in analyses]
    reasons_unbounded = [
        Reason.AT_FIRST_EVALUATION if first else Reason.NONE for first in comparison.at_first
    ]
    statements = {}
    for size_index in sizes if len(sizes) > 1 else ():
        at_analyses = [
            ComparisonWithBest.all_hold(
                (
                    Contrast(
                        _differences(analysis, size_index, other_index, margin),
                        low=-margin,
                        tuned=bool(analysis.chosen.tuned[[size_index, other_index]].any()),
                        unbounded_low=reasons_unbounded[other_index],
                        unbounded_high=reasons_unbounded[size_index],
                        cells={"against": comparison.batch_sizes[other_index]},
                    )
                    for other_index in sizes
                    if other_index != size_index
                ),
                ratio=comparison.is_cost,
                pairs=math.comb(len(sizes), 2),
                negative=comparison.is_cost or not comparison.higher_is_better,
            )
            for analysis in analyses
        ]
        statement = verdicts.over_analyses(at_analyses, shares)
        if any(contrast.n for contrast in statement.contrasts):
            statements[size_index] = statement
    return statements


def _differences(comparison: BudgetComparison, size: int, other: int, margin: float) -> np.ndarray:
    """Return by how much one batch size is better than another, by seed; sizes are indices."""
    values = comparison.values[[size, other]]
    if comparison.is_cost:
        with np.errstate(divide="ignore", invalid="ignore"):
            values = -np.log(values)
    elif not comparison.higher_is_better:
        values = -values
    with np.errstate(invalid="ignore"):
        differences = values[0] - values[1]
    # A difference that equals the margin up to rounding is set to it.
    close = np.abs(differences + margin) <= ROUNDING * (np.abs(values).sum(axis=0) + margin)
    return np.where(close, -margin, differences)
