"""Comparison of each batch size with the best of the others; see `verdicts`.

Costs to a target are compared by their logarithms, so that differences are ratios. Rows have the
outcome's own direction: a negative estimate is a lower accuracy, or a lower loss.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator

import numpy as np
import pandas

from batchscope.analysis import chosen_rates, intervals, run_series, verdicts
from batchscope.analysis.budget_comparisons import BudgetComparison
from batchscope.analysis.verdicts import ROUNDING, ComparisonWithBest, Contrast, Row
from batchscope.study.decision_columns import COMPARISONS
from batchscope.study.outcomes import MIN_SEEDS_FOR_INTERVAL, Reason, Verdict
from batchscope.study.tables import clipped


def table(runs: pandas.DataFrame, at_budgets: Iterable[BudgetComparison]) -> pandas.DataFrame:
    """Return one row per comparison and batch size; see `COMPARISONS`."""
    factors = [name for name in run_series.factor_columns(runs) if name != chosen_rates.RATE]
    rows = [row for comparison in at_budgets for row in _rows(comparison, factors)]
    return verdicts.table(rows, COMPARISONS, factors)


def higher_is_better(rows: pandas.DataFrame) -> pandas.Series:
    """Return whether higher values of each row's outcome are better, by the sign of its bound."""
    return rows["bound"].astype(float) < 0


def best(rows: pandas.DataFrame) -> int | None:
    """Return the batch size with the best paired difference to the best of the others.

    Means of batch sizes are not ranked: those with more seeds or timing jobs hold values that the
    others have no counterpart of. The only batch size with a value is the best one.

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
    firsts = comparison.trainings.runs.drop_duplicates("batch_size").set_index("batch_size")[
        factors
    ]
    means, not_compared = comparison.means(), reasons(comparison)
    compared = [at for at, reason in enumerate(not_compared) if not reason]
    statements = _statements(comparison, compared)
    for at, size in enumerate(comparison.batch_sizes):
        value, *ends = means[at][:3]
        interval = means[at].n >= MIN_SEEDS_FOR_INTERVAL
        ends = clipped(comparison.outcome, ends) if interval else [math.nan] * 2
        seeds, statement = int(comparison.ran[at].sum()), statements.get(at)
        reason = not_compared[at] or (Reason.NONE if statement else Reason.ALONE)
        reached = int(np.isfinite(comparison.values[at]).sum())
        yield {
            **firsts.loc[size].to_dict(),
            **comparison.budget_columns,
            "margin": comparison.margin,
            "bound": bound,
            "batch_size": size,
            "learning_rate": comparison.chosen.rates[at],
            "on_edge": int(comparison.chosen.on_edge[at]),
            "still_falling": int(comparison.falling[at]),
            "seeds": seeds,
            "epochs_run": comparison.trainings.epochs_run.get(size),
            "reached": None if reason == Reason.NO_VALUE or not seeds else reached,
            **intervals.columns("mean", (value, *ends)),
            "verdict": Verdict.NOT_TESTABLE,
            "reason": reason,
            "n": 0,
            "statement": statement,
        }


def reasons(comparison: BudgetComparison) -> list[Reason]:
    """Return the reason why each batch size is compared with none; empty if it is compared."""
    result = []
    for at, values in enumerate(comparison.values):
        if comparison.is_cost and (values <= 0).any():
            result.append(Reason.NOT_POSITIVE)  # a cost of 0 has no ratio
        elif np.isinf(values).any():
            result.append(Reason.NOT_REACHED if comparison.not_reached[at] else Reason.FAILED)
        elif np.isnan(values).all():
            result.append(Reason.NO_BUDGET if comparison.ended[at] else Reason.NO_VALUE)
        elif comparison.rate_left[at]:
            result.append(Reason.RATE_LEFT)
        else:
            result.append(Reason.NONE)
    return result


def _statements(comparison: BudgetComparison, kept: list[int]) -> dict[int, ComparisonWithBest]:
    """Return the statement of each batch size that shares a seed with another one."""
    margin = math.log1p(comparison.margin) if comparison.is_cost else comparison.margin
    analyses = (*comparison.earlier, comparison)
    shares = [analysis.share for analysis in analyses]
    bounded = [
        Reason.AT_FIRST_EVALUATION if first else Reason.NONE for first in comparison.at_first
    ]
    statements = {}
    for at in kept if len(kept) > 1 else ():
        compared = [
            ComparisonWithBest.of_all(
                (
                    Contrast(
                        _differences(analysis, at, other, margin),
                        low=-margin,
                        tuned=bool(analysis.chosen.tuned[[at, other]].any()),
                        open_low=bounded[other],
                        open_high=bounded[at],
                        cells={"against": comparison.batch_sizes[other]},
                    )
                    for other in kept
                    if other != at
                ),
                ratio=comparison.is_cost,
                pairs=len(kept) * (len(kept) - 1) // 2,
                negative=comparison.is_cost or not comparison.higher_is_better,
            )
            for analysis in analyses
        ]
        statement = verdicts.staged(compared, shares)
        if any(contrast.n for contrast in statement.contrasts):
            statements[at] = statement
    return statements


def _differences(comparison: BudgetComparison, at: int, other: int, margin: float) -> np.ndarray:
    """Return by how much one batch size is better than another one, by seed."""
    values = comparison.values[[at, other]]
    if comparison.is_cost:
        with np.errstate(divide="ignore", invalid="ignore"):
            values = -np.log(values)
    elif not comparison.higher_is_better:
        values = -values
    with np.errstate(invalid="ignore"):
        differences = values[0] - values[1]
    # Rounding must not move a difference across the margin.
    close = np.abs(differences + margin) <= ROUNDING * (np.abs(values).sum(axis=0) + margin)
    return np.where(close, -margin, differences)
