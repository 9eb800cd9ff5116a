"""Runs and their evaluations in, race.csv out: which learning rates get no more seeds.

The rates of a batch size race over seeds as blocks (F-Race: Birattari et al. 2002, GECCO, 11;
irace: López-Ibáñez et al. 2016, Operations Research Perspectives 3, 43). docs/measures.md ("Races")
has the test and its levels. An interim analysis removes a rate if every criterion shows that
another rate in the race is better. The recommendation gives one criterion: the cost to the target,
or else the lowest validation loss. Each budget that the experiment states gives another one: the
validation loss there. A new criterion belongs in `_criteria`. All criteria must agree
(intersection-union test, Berger 1982), so they need no adjustment. A rate with a failed run leaves
if all runs of another rate succeed, since it would never be chosen (see `chosen_rates`).
"""

import itertools
import operator
from collections.abc import Collection, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
import pandas

from batchscope.analysis import budget_comparisons, run_series, trainings
from batchscope.analysis.budget_comparisons import LOSS, Budget
from batchscope.analysis.contrasts import Contrast
from batchscope.analysis.targets import ComparisonRequest
from batchscope.analysis.trainings import RATE, Trainings
from batchscope.study import tasks
from batchscope.study.decision_columns import RACE
from batchscope.study.outcomes import CONVERGENCE, END, LEVEL, TARGET, UPDATES

SPENT_SHARE = 0.5  # share of the remaining level that an analysis spends
IN_RACE, LEFT = "in_race", "left"
Row = dict[str, Any]
_p = operator.itemgetter("p")  # one-sided p-value of "the rate is worse"


class Criterion(NamedTuple):
    """Numbers that compare learning rates at one budget; lower is better."""

    budget: str  # a kind in `study.outcomes`
    outcome: str  # column of the numbers
    values: np.ndarray  # shape (sizes, rates, seeds); NaN without a run, infinite if it failed
    # The lowest losses, if the numbers are costs: a rate with a lower mean loss may be chosen
    # although it costs more.
    losses: np.ndarray | None = None


def levels_of_analyses(analyses: int) -> list[float]:
    """Return the level that each analysis spends; their sum is below `LEVEL`."""
    return [LEVEL * SPENT_SHARE * (1 - SPENT_SHARE) ** index for index in range(analyses)]


def rates_that_leave(
    criteria: Sequence[Criterion], size: int, analyses: Sequence[int]
) -> dict[int, Row]:
    """Return the rates of one batch size that leave the race: rate index -> columns of `RACE`.

    They have the difference from a better rate; `against` is its index.

    Args:
        size: Index of the batch size.
        analyses: Numbers of seeds at the interim analyses, ascending. A rate with fewer seeds is
            compared when it has them.
    """
    left: dict[int, Row] = {}
    for seeds, level in zip(analyses, levels_of_analyses(len(analyses)), strict=True):
        # A rate has a seed if any criterion has a number for it.
        numbers = np.array([criterion.values[size, :, :seeds] for criterion in criteria])
        has_seeds = ~np.isnan(numbers).all(axis=0)
        complete = has_seeds.all(axis=1) & (has_seeds.shape[1] == seeds)
        racing = [rate for rate in np.flatnonzero(complete).tolist() if rate not in left]
        succeeded = ~np.isinf(numbers).any(axis=(0, 2))
        pair_level = level / max(succeeded[racing].sum() - 1, 1)
        # Without values no run reached the budget of a criterion.
        has_values = ~np.isnan(numbers[:, racing]).all(axis=(1, 2))
        tested = [*itertools.compress(criteria, has_values)] if len(racing) > 1 else []
        for rate in racing:
            by_criterion = []
            for criterion in tested:
                differences = (
                    _difference(criterion, size, rate, other, seeds, pair_level)
                    for other in racing
                    if other != rate
                )
                # The other rate that is better most clearly decides.
                by_criterion.append(min(differences, key=_p))
            weakest = max(by_criterion, key=_p, default=None)
            if weakest and weakest["p"] < pair_level:
                left[rate] = weakest
    return left


def _difference(
    criterion: Criterion, size: int, rate: int, other: int, seeds: int, level: float
) -> Row:
    """Return the difference of a rate from another one; p is 1 if they cannot be compared."""
    values, other_values = (criterion.values[size, index, :seeds] for index in (rate, other))
    result = {"budget": criterion.budget, "outcome": criterion.outcome, "level": level}
    result |= {"left_after": seeds, "against": other, "p": 1.0}
    if not np.isfinite(other_values).all():
        return result
    if np.isinf(values).any():
        return {**result, "p": 0.0}
    if np.isnan(values).any():
        return result
    if criterion.losses is not None:
        losses, other_losses = (criterion.losses[size, index, :seeds] for index in (rate, other))
        if losses.mean() < other_losses.mean():
            return result
    is_ratio = bool((values > 0).all() and (other_values > 0).all())
    contrast = Contrast(np.log(values / other_values) if is_ratio else values - other_values, low=0)
    ends = np.array([contrast.mean, *contrast.interval(level, level)])
    estimate, low, high = (np.exp(ends) if is_ratio else ends).tolist()
    return {**result, "p": contrast.p, "estimate": estimate, "low": low, "high": high}


def table(
    runs: pandas.DataFrame,
    evaluations: pandas.DataFrame,
    request: ComparisonRequest,
    protected: Collection[str] = (),
) -> pandas.DataFrame:
    """Return one row per series, batch size and learning rate of a race (see `RACE`).

    Args:
        request: Its analyses are those of the race; empty without a race.
        protected: Names of the runs, with the first seed, of rates that never leave.
    """
    rows: list[Row] = []
    runs = run_series.of_this_machine(runs)
    if request.analyses and len(runs):
        budgets = budget_comparisons.shared_budgets(evaluations, request.budgets)
        budgets = [budget for budget in budgets if budget.kind in request.budgets]
        for series in trainings.for_experiment(runs, evaluations, request.metrics):
            criteria = _criteria(series, budgets, request)
            rows += _series_rows(series, criteria, request.analyses, protected)
    factors = [name for name in run_series.factor_columns(runs) if name != RATE]
    return run_series.table(rows, RACE, factors)


def without_rates_that_left(runs: pandas.DataFrame, race: pandas.DataFrame) -> pandas.DataFrame:
    """Return the rows of runs.csv without the rates that left according to race.csv."""
    keys = [name for name in (*run_series.factor_columns(runs), "batch_size") if name in race]
    left = race.loc[race["status"] == LEFT, keys].drop_duplicates()
    merged = runs[keys].merge(left, on=keys, how="left", indicator=True)
    return runs[merged["_merge"].eq("left_only").to_numpy()]


def _criteria(
    series: Trainings, budgets: Sequence[Budget], request: ComparisonRequest
) -> list[Criterion]:
    """Return the criteria of a series: its validation losses and costs, or else its outcomes."""
    if LOSS in series.evaluations and series.evaluations[LOSS].notna().any():
        *stated, lowest = (
            Criterion(budget.kind, LOSS, budget_comparisons.cube_at_budget(series, budget, LOSS))
            for budget in (*budgets, Budget(CONVERGENCE))
        )
        if target := request.target(series):
            costs = target.cost_cube(series, UPDATES)
            return [*stated, Criterion(TARGET, UPDATES, costs, lowest.values)]
        return [*stated, lowest]
    criteria = []
    for name in request.margins:
        values = series.column_cube(name)
        if np.isfinite(values).any():
            higher = tasks.higher_is_better(name, series.metrics)
            criteria.append(Criterion(END, name, -values if higher else values))
    return criteria


def _series_rows(
    series: Trainings,
    criteria: Sequence[Criterion],
    analyses: Sequence[int],
    protected: Collection[str],
) -> Iterator[Row]:
    sizes, rates, _ = series.axes
    runs = series.runs.sort_values("seed", kind="stable")
    for size_index, size in enumerate(sizes):
        left = rates_that_leave(criteria, size_index, analyses) if criteria else {}
        for rate, rate_runs in runs[runs["batch_size"] == size].groupby(RATE):
            run = rate_runs["run"].iloc[0]
            row = {
                **rate_runs[run_series.factor_columns(rate_runs)].iloc[0],
                "batch_size": size,
                "learning_rate": rate,
                "run": run,
                "status": IN_RACE,
                "seeds": rate_runs["seed"].nunique(),
            }
            difference = left.get(rates.index(rate))
            if difference and run not in protected:
                better = rates[difference["against"]]
                row |= {**difference, "status": LEFT, "against": better}
            yield row
