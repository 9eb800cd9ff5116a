"""Comparisons at budgets in, comparisons.csv out: each batch size against the best of the others.

Signs: `estimate` is the outcome minus the best of the others (the ratio of a cost), so a negative
one is a lower accuracy or a lower loss. `bound` is the margin, negative if higher is better. Values
are NaN without a run, and infinite if a run failed. `reason_not_compared` says which batch sizes
are then left out. A new column goes into `_rows` and `decision_columns.COMPARISONS`.

Source of the interval: Hsu 1984 (Ann. Statist. 12, 1136), here with a separate variance for every
pair of batch sizes.
"""

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pandas
from scipy import optimize, special

from batchscope.analysis import chosen_rates, contrasts, intervals, run_series, verdicts
from batchscope.analysis.budget_comparisons import BudgetComparison
from batchscope.analysis.contrasts import Contrast
from batchscope.analysis.verdicts import Row, Statement
from batchscope.study.decision_columns import COMPARISONS
from batchscope.study.outcomes import LEVEL, MIN_SEEDS, MIN_SEEDS_FOR_INTERVAL, Reason, Verdict
from batchscope.study.table_entries import clipped_to_range


@dataclass(frozen=True, eq=False)
class ComparisonWithBest(Statement):
    """The statement that a batch size is within a margin of the best of the others.

    Each contrast states by how much it is better than another batch size: by more than -margin.
    """

    pairs: int = 1  # number of pairs of batch sizes that share the level
    negative: bool = False  # whether printed numbers have the opposite sign: lower is better
    shares_family_level: ClassVar[bool] = False

    def verdict_columns(self, family_level: float) -> Row:
        """Return the columns of the verdict; no family shares the level."""
        margin = -self.contrasts[0].low
        for analysis in zip(*(contrast.analyses for contrast in self.contrasts), strict=True):
            compared = [contrast for contrast in analysis if contrast.n]
            if not compared or min(pair.n for pair in analysis) < min(self.n, MIN_SEEDS):
                continue  # too few replicates for a verdict
            ends = [pair.interval(LEVEL, self._level_beyond(pair)) for pair in analysis]
            low, high = map(min, zip(*ends, strict=True))
            best = min(compared, key=lambda contrast: contrast.mean)
            if low > -margin or high < -margin:
                break
        verdict, reason, needed, n = Verdict.NOT_RESOLVED, Reason.NONE, None, best.n
        if self.n < MIN_SEEDS:
            verdict = Verdict.PROVISIONAL if best.n > 1 else Verdict.ONE_SEED
            needed, n = MIN_SEEDS, min(contrast.n for contrast in compared)
        elif low > -margin:
            verdict = Verdict.WITHIN
        elif high < -margin:
            verdict = Verdict.BEYOND
        else:
            reasons = {contrast.unbounded_low or contrast.unbounded_high for contrast in compared}
            reason = next(filter(None, reasons), reason)
            needed = None if reason else self._seeds_to_resolve()
        if n < MIN_SEEDS_FOR_INTERVAL:
            low, high = -math.inf, math.inf
        numbers = (-best.mean, -high, -low) if self.negative else (best.mean, low, high)
        return {
            "verdict": verdict,
            "reason": reason,
            **verdicts.interval_columns(numbers, self.ratio),
            "n": n,
            "seeds_to_resolve": needed,
            "against": best.cells["against"],
        }

    def _level_beyond(self, contrast: Contrast) -> float:
        """Return the level a_ij of "beyond the margin" (docs/measures.md), before the share."""
        max_level = contrast.share * LEVEL / self.pairs
        if contrast.n < 2:
            return max_level
        width = 2 * -contrast.low / contrast.error if contrast.error else math.inf

        def excess(level: float) -> float:
            critical = special.stdtrit(contrast.n - 1, 1 - level)
            return level + special.stdtr(contrast.n - 1, -(critical + width)) - max_level

        # If the margin is very wide or very narrow, the root is an end of the searched range.
        min_level = max_level / 2
        if excess(max_level) <= 0 or excess(min_level) >= 0:
            return (max_level if excess(max_level) <= 0 else min_level) / contrast.share
        level = optimize.brentq(excess, min_level, max_level, xtol=1e-16, rtol=1e-14)
        return level / contrast.share

    def _seeds_to_resolve(self) -> int | None:
        """Return the number of seeds needed to decide whether the size is within the margin.

        A single pair can show that it is beyond; all pairs must show that it is within.
        """
        undecided = [pair for pair in self.contrasts if pair.interval(LEVEL, LEVEL)[0] <= pair.low]
        worse = [pair for pair in undecided if pair.mean < pair.low]
        seeds = [self._seeds_of_pair(pair) for pair in worse or undecided]
        if worse:
            return min((count for count in seeds if count is not None), default=None)
        return None if None in seeds else max(seeds, default=None)

    def _seeds_of_pair(self, pair: Contrast) -> int | None:
        """Return the number of seeds that decide a pair of batch sizes.

        They show equivalence if the pair's 90 % interval contains 0, else the measured difference.
        """
        half = special.stdtrit(pair.n - 1, 1 - LEVEL) * pair.error
        if not half or pair.mean == pair.low or abs(pair.mean) > half:
            return pair.replicates_to_resolve(LEVEL, self._level_beyond(pair))
        margin = -pair.low / pair.deviation
        level = pair.share * LEVEL
        needed = contrasts.fewest_seeds(contrasts.equivalence_power, margin, level)
        return needed and max(needed, pair.n + 1)


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
    means = comparison.means()
    reasons = [reason_not_compared(comparison, index) for index in range(len(means))]
    compared = [index for index, reason in enumerate(reasons) if not reason]
    for index, size in enumerate(comparison.batch_sizes):
        mean, *ends = means[index][:3]
        has_interval = means[index].n >= MIN_SEEDS_FOR_INTERVAL
        ends = clipped_to_range(comparison.outcome, ends) if has_interval else [math.nan] * 2
        statement = _statement(comparison, index, compared) if index in compared else None
        reason = reasons[index] or (Reason.NONE if statement else Reason.ALONE)
        seeds = int(comparison.has_run[index].sum())
        reached = int(np.isfinite(comparison.values[index]).sum())
        yield {
            **first_runs.loc[size].to_dict(),
            **comparison.budget_columns,
            "margin": comparison.margin,
            "bound": bound,
            "batch_size": size,
            "learning_rate": comparison.chosen.rates[index],
            "on_edge": int(comparison.chosen.on_edge[index]),
            "still_falling": int(index in comparison.still_falling),
            "seeds": seeds,
            "epochs_run": comparison.trainings.epochs_run.get(size),
            "reached": None if reason == Reason.NO_VALUE or not seeds else reached,
            **intervals.columns("mean", (mean, *ends)),
            "verdict": Verdict.NOT_TESTABLE,
            "reason": reason,
            "n": 0,
            "statement": statement,
        }


def reason_not_compared(comparison: BudgetComparison, index: int) -> Reason:
    """Return the reason why a batch size is not compared; `Reason.NONE` if it is."""
    values = comparison.values[index]
    if comparison.is_cost and (values <= 0).any():
        return Reason.NOT_POSITIVE  # a cost of 0 has no ratio
    if np.isinf(values).any():
        return Reason.NOT_REACHED if comparison.not_reached[index] else Reason.FAILED
    if np.isnan(values).all():
        return Reason.NO_BUDGET if index in comparison.ended_early else Reason.NO_VALUE
    return Reason.RATE_LEFT if index in comparison.rate_left else Reason.NONE


def _statement(
    comparison: BudgetComparison, index: int, compared: Sequence[int]
) -> ComparisonWithBest | None:
    """Return the statement that a size is within the margin of the best of the others.

    It is None if the size shares no seed with another one. `compared` has the indices of all
    compared sizes.
    """
    others = [other for other in compared if other != index]
    if not others:
        return None
    margin = math.log1p(comparison.margin) if comparison.is_cost else comparison.margin
    lower_is_better = comparison.is_cost or not comparison.higher_is_better
    at_first = {size: Reason.AT_FIRST_EVALUATION for size in comparison.at_first}

    def contrast(analysis: BudgetComparison, other: int) -> Contrast:
        values = np.where(np.isinf(analysis.scaled), math.nan, analysis.scaled)
        values = -values if lower_is_better else values
        return Contrast(
            values[index] - values[other],
            low=-margin,
            tuned=bool(analysis.chosen.tuned[[index, other]].any()),
            # A size that reached the target at first may be better than measured.
            unbounded_low=at_first.get(other, Reason.NONE),
            unbounded_high=at_first.get(index, Reason.NONE),
            cells={"against": comparison.batch_sizes[other]},
            share=analysis.share,
        )

    analyses = (*comparison.earlier, comparison)
    pairs = [
        contrasts.over_analyses(contrast(analysis, other) for analysis in analyses)
        for other in others
    ]
    if not any(pair.n for pair in pairs):
        return None
    return ComparisonWithBest.all_hold(
        pairs, ratio=comparison.is_cost, pairs=math.comb(len(compared), 2), negative=lower_is_better
    )
