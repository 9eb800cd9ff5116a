"""Which batch sizes win at which budget: every cell against its row, and every row as a trend.

A row is judged by Page's trend test in both directions and by Friedman's test that there is any
difference; a training that failed or never reached its target has the worst rank. Where rates are
chosen, their p-values hold the choice (`relabelled_trends`). All of them are adjusted together by
Holm's method. A cell is judged as `largest_within_margin` judges a batch size, but is beyond the
margin only in a row that shows a trend or a difference: so relabelled batch sizes get a verdict of
either kind, anywhere, in 5 % of studies at most.

Times, updates and examples to a target are compared as ratios: tests and intervals are of their
logarithms.

Sources: E. B. Page, J. Am. Stat. Assoc. 58 (1963), 216; M. Friedman, J. Am. Stat. Assoc. 32 (1937),
675; tests of groups before those within them: N. Meinshausen, Biometrika 95 (2008), 265.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import pandas

from batchscope.analysis import (
    best_learning_rates,
    budgets,
    chosen_rates,
    equal_budgets,
    intervals,
    largest_within_margin,
    paired_tests,
    relabelled_trends,
    run_series,
    updates_to_target,
)
from batchscope.analysis.intervals import Interval
from batchscope.analysis.largest_within_margin import Size
from batchscope.catalogue import outcomes
from batchscope.catalogue.budget_kinds import TAKEN, TARGET
from batchscope.catalogue.decision_columns import BUDGETS

LARGER, SMALLER, NONE = "larger", "smaller", "none"
# Why a row has no verdict.
NOT_RESOLVED, MIXED, FEW_SEEDS, EDGE = "not_resolved", "mixed", "few_seeds", "edge"
BOUNDED, FEW_SIZES = "bounded", "few_sizes"
LEAST_SIZES = 3  # of Page's test
# What counts as negligible where the experiment states nothing of it.
MARGINS = {"accuracy": 0.01, "loss": 0.05, "taken": 0.1}


class Trend(NamedTuple):
    """A row: p that larger is better, that smaller is, and that any is; what was compared.

    Attributes:
        slope: Of the outcome per doubling, above 0 where it gets better: the mean over seeds whose
            values are all finite, NaN without any; of what was taken to a target, of its
            logarithm. (Page's test sees the order alone.)
    """

    p_larger: float
    p_smaller: float
    p_any: float
    batch_sizes: list[int]
    slope: float = math.nan


@dataclass(frozen=True)
class _Row:
    """One outcome of one budget of one series, before any adjustment."""

    series: run_series.Series
    trained: equal_budgets.Trained
    reading: equal_budgets.Reading
    outcome: str
    margin: float
    cells: list[Size]
    trend: Trend


def compare(
    values: np.ndarray,
    batch_sizes: list[int],
    outcome: str,
    margin: float,
    differing: Collection[int] = (),
    bounded: Collection[int] = (),
) -> list[Size]:
    """Compares the batch sizes of a row as `largest_within_margin.compare` does.

    Differences are those from the batch size with the best mean.

    Args:
        values: Shape (sizes, seeds): NaN where there is no run, infinite where it failed.
        batch_sizes: Ascending.
        outcome: Of an accuracy higher is better, of anything else lower; what was taken to a
            target is compared as a ratio.
        margin: Largest loss that counts as negligible; of a ratio 0.1 is a tenth.
    """
    ratio = outcome in TAKEN
    # What holds before the first update has taken nothing, and no logarithm.
    usable = np.where(np.isfinite(values) & ((values > 0) | (not ratio)), values, np.nan)
    shown = np.log(usable) if ratio else usable
    failed = np.isnan(shown) & ~np.isnan(values)
    whole = largest_within_margin.whole(np.where(failed, math.inf, values), batch_sizes)
    rising = outcome.endswith("accuracy")
    pairs = pandas.DataFrame(shown.T, columns=batch_sizes)[whole].dropna()
    means = pairs.mean()
    best = (means.idxmax() if rising else means.idxmin()) if pairs.size else None
    margin = math.log1p(margin) if ratio else margin
    found = []
    judged = np.where(failed, math.inf, shown), batch_sizes, margin, rising, differing, bounded
    for cell in largest_within_margin.compare(*judged):
        difference = Interval()
        if cell.batch_size == best:
            difference = Interval(0.0)
        elif cell.batch_size in whole and best is not None:
            differences = pairs[cell.batch_size] - pairs[best]
            either = cell.batch_size in differing or best in differing
            confidence = 1 - 2 * outcomes.LEVEL
            difference = intervals.t_interval(differences, confidence, differ=either)
        level = cell.mean if cell.batch_size in whole else math.nan
        if ratio:
            difference = Interval(*map(math.expm1, difference[:3]), difference.n)
            level = math.exp(level)
        found.append(cell._replace(mean=level, difference=difference))
    return found


def trend(values: np.ndarray, batch_sizes: list[int], outcome: str) -> Trend:
    """Tests a row, as `compare` takes it, for a trend in both directions, unadjusted.

    NaN below three batch sizes, or six seeds with a run at each of them.
    """
    there = ~np.isnan(values)
    kept = there.any(axis=1)
    blocks = values[kept][:, there[kept].all(axis=0)].T
    sizes = [size for size, keep in zip(batch_sizes, kept, strict=True) if keep]
    if len(sizes) < LEAST_SIZES or len(blocks) < outcomes.LEAST_SEEDS:
        return Trend(math.nan, math.nan, math.nan, sizes)
    rises, falls = (paired_tests.page_trend(blocks, direction) for direction in outcomes.DIRECTIONS)
    p_any = paired_tests.friedman(blocks)
    if outcome in TAKEN:
        with np.errstate(divide="ignore"):
            blocks = np.log(blocks)
    whole = blocks[np.isfinite(blocks).all(axis=1)]
    slope = paired_tests.slopes_per_doubling(whole, sizes).mean() if len(whole) else math.nan
    if outcome.endswith("accuracy"):
        return Trend(rises, falls, p_any, sizes, slope)
    return Trend(falls, rises, p_any, sizes, -slope)


def _with_choice(found: Trend, reading: equal_budgets.Reading, outcome: str) -> Trend:
    """Returns a row's tests, with the choice of its rates in their p-values where there is one."""
    if not math.isfinite(found.p_any) or not relabelled_trends.chosen_at_all(reading.losses):
        return found
    by_others = outcome not in equal_budgets.ON_TEST
    rises, falls, any_ = relabelled_trends.p_values(reading.losses, reading.cube, by_others)
    larger, smaller = (rises, falls) if outcome.endswith("accuracy") else (falls, rises)
    return found._replace(p_larger=larger, p_smaller=smaller, p_any=any_)


def table(
    runs: pandas.DataFrame,
    evaluations: pandas.DataFrame,
    stated: dict[str, Any],
    margins: dict[str, float],
) -> pandas.DataFrame:
    """Returns one row per series, budget, outcome and batch size; see `BUDGETS`.

    There is none of a series that trains at fewer than three batch sizes.

    Args:
        stated: Budgets of the experiment: kind -> value, of a target column -> value.
        margins: Outcome -> largest loss.
    """
    found = list(_rows(runs, evaluations, stated, margins))
    trends = paired_tests.holm([p for row in found for p in row.trend[:3]]).reshape(-1, 3)
    factors = [name for name in run_series.factor_columns(runs) if name != chosen_rates.RATE]
    lines: list[dict[str, Any]] = []
    for row, (larger, smaller, any_) in zip(found, trends.tolist(), strict=True):
        better, why = _verdict(row, larger, smaller, any_)
        tested = math.isfinite(any_) and why != BOUNDED
        least = min(larger, smaller, any_) if tested else 1.0
        judged = largest_within_margin.judge(row.cells, least)
        last = {"trend": better, "no_trend": why}
        last |= {"p_larger": larger, "p_smaller": smaller, "p_any": any_}
        lines += [{**line, **last} for line in _cells(row, judged, factors)]
    return run_series.table(lines, BUDGETS, factors)


def _rows(
    runs: pandas.DataFrame,
    evaluations: pandas.DataFrame,
    stated: dict[str, Any],
    margins: dict[str, float],
) -> Iterator[_Row]:
    shared = equal_budgets.equal(evaluations, stated)
    own_targets = updates_to_target.at_own_targets(evaluations)
    for series in best_learning_rates.series(runs) if len(runs) else ():
        trained = equal_budgets.trained(series.frame, evaluations)
        known = own_targets or trained.chosen_by_loss
        if len(trained.batch_sizes) < LEAST_SIZES or not trained.finished or not known:
            continue
        if own_targets:  # what a training had used by then is no budget of others
            held_equal = [equal_budgets.Budget(TARGET, math.nan)]
        else:
            target = equal_budgets.target(trained, stated)
            *equal, last = shared
            held_equal = [*equal, *([target] if target else []), last]
        for budget in held_equal:
            for outcome, reading in equal_budgets.read(trained, budget).items():
                values, margin = reading.values, _margin(outcome, margins)
                of = (outcome, margin, reading.differing, reading.bounded)
                cells = compare(values, trained.batch_sizes, *of)
                found = _with_choice(trend(values, trained.batch_sizes, outcome), reading, outcome)
                yield _Row(series, trained, reading, outcome, margin, cells, found)


def _margin(outcome: str, stated: dict[str, float]) -> float:
    if outcome in TAKEN:
        return MARGINS["taken"]
    kind = outcome.rpartition("_")[2]
    return stated.get(outcome, stated.get(f"test_{kind}", MARGINS[kind]))


def _verdict(row: _Row, larger: float, smaller: float, any_: float) -> tuple[str, str]:
    """Returns the trend of a row, and why there is none.

    A better rate beyond the edge would lift the losing end, and with it overturn the trend; at the
    winning end it would only confirm it. So would what was taken to a target, where all that is
    known of it is an upper bound.
    """
    if not math.isfinite(larger):
        return NONE, FEW_SIZES if len(row.trend.batch_sizes) < LEAST_SIZES else FEW_SEEDS
    better = LARGER if larger < outcomes.LEVEL else SMALLER if smaller < outcomes.LEVEL else NONE
    winning = {LARGER: row.trend.batch_sizes[-1], SMALLER: row.trend.batch_sizes[0]}
    if {*row.reading.bounded} - {winning.get(better)}:
        return NONE, BOUNDED
    if {LARGER: row.trend.slope <= 0, SMALLER: row.trend.slope >= 0}.get(better):
        return NONE, MIXED
    if better == NONE:
        return NONE, MIXED if any_ < outcomes.LEVEL else NOT_RESOLVED
    losing = row.trend.batch_sizes[0 if better == LARGER else -1]
    if row.reading.on_edge[row.trained.batch_sizes.index(losing)]:
        return NONE, EDGE
    return better, ""


def _cells(row: _Row, judged: list[Size], factors: list[str]) -> Iterator[dict[str, Any]]:
    """Yields the lines of a row, one per batch size, without its trend."""
    reading, budget = row.reading, row.reading.budget
    for index, cell in enumerate(judged):
        values = reading.values[index]
        there = row.trained.there[index]
        times = np.where(np.isfinite(values), np.abs(values), math.inf)[there]
        values = values[~np.isnan(values)]
        own = row.series.frame[row.series.frame["batch_size"] == cell.batch_size].iloc[0]
        line = {
            **{name: own[name] for name in factors},
            "budget": budget.kind,
            "budget_value": budget.value,
            "budget_column": budget.column,
            "stated": int(budget.stated),
            "outcome": row.outcome,
            "margin": row.margin,
            "learning_rate": np.nan if np.isnan(own[chosen_rates.RATE]) else reading.rates[index],
            "on_edge": int(reading.on_edge[index]),
            "still_falling": int(cell.batch_size in reading.falling),
            **cell.columns(),
            "seeds": int(there.sum()),
        }
        if not len(values) and equal_budgets.ended_before(row.trained, index, budget):
            line["verdict"] = largest_within_margin.FAILED
        if line["verdict"] != largest_within_margin.NO_VALUE and len(times):
            line["reached"], _, line["reached_low"], line["reached_high"] = budgets.reached(times)
        if len(values) and budget.kind == TARGET:
            line["median"] = budgets.median(values)
            line["restricted_mean"] = budgets.restricted_mean(values, reading.end)
        yield line
