"""Rows of other tables in, advice.csv out: which batch size to use, with the reasons.

Every series has one recommendation. Essential checks decide its headline: was anything learned,
was the learning rate found, are the batch sizes distinguished? Other checks lower its grade. A
suggestion changes the study so that a check passes. A new check is a function that `_checks` calls;
a new fact about a series belongs in `advice_series`.
"""

import enum
import math
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np
import pandas

from batchscope.analysis import advice_series, comparisons, expectations, run_series, step_cost
from batchscope.analysis.advice_series import (
    CRITICAL,
    MAX_DISTURBED_SHARE,
    RATE,
    AdviceRequest,
    AdviceSeries,
    AdviceTables,
    Row,
)
from batchscope.study import stages, suggestions, tasks
from batchscope.study.decision_columns import ADVICE
from batchscope.study.outcomes import (
    CONVERGENCE,
    EPOCHS,
    LEVEL,
    MIN_SEEDS,
    MIN_SEEDS_FOR_INTERVAL,
    SECONDS,
    TARGET,
    Reason,
    Verdict,
)
from batchscope.study.suggestions import RATE_STEP, SEEDS, Need, rounded

MEMORY, KNEE = "memory", "knee"
BASELINE, RATE_ON_EDGE = "baseline", "rate_on_edge"  # the essential checks
REPEATED_BLOCKS = 21  # suggested number of blocks of a noisy timing
# Suggested numbers of further rates: beyond an edge, or on both sides of the grid.
_RATES_BEYOND_EDGE, _RATES_ON_BOTH_SIDES = 2, 3
_LIMIT_COLUMNS = ["batch_size", "estimate", "low", "high", "bound", "n", "verdict", "reason"]


class Item(enum.StrEnum):
    """Kind of a row of the advice."""

    RECOMMENDATION = "recommendation"  # one row of every series
    SIZE = "size"  # a batch size, with the limit that decides about it
    LIMIT = "limit"
    RATE = "rate"  # a learning rate that was tried at the recommended size
    EXPECTATION = "expectation"  # a result at the learning rate of a batch size
    CHECK = "check"
    SUGGESTION = "suggestion"


class Headline(enum.StrEnum):
    """Statement of the recommendation: the first one that holds."""

    NO_OUTCOME = "no_outcome"
    NOTHING_LEARNED = "nothing_learned"
    RATE_NOT_FOUND = "rate_not_found"
    NOT_DISTINGUISHED = "not_distinguished"
    RECOMMENDED = "recommended"


class Grade(enum.StrEnum):
    """Confidence in a recommendation."""

    SOLID = "solid"
    PROVISIONAL = "provisional"
    OPEN = "open"  # one or two seeds


_ESSENTIAL = {Headline.NOTHING_LEARNED: BASELINE, Headline.RATE_NOT_FOUND: RATE_ON_EDGE}
_WITH_SIZES = (Headline.NOT_DISTINGUISHED, Headline.RECOMMENDED)


def table(tables: AdviceTables, request: AdviceRequest) -> pandas.DataFrame:
    """Return the rows of every series with three batch sizes or more (see `ADVICE`)."""
    rows, factors = [], run_series.factor_columns(tables.comparisons.drop(columns=RATE))
    for series in advice_series.from_tables(tables, request):
        effective_rates = run_series.rates_after_scaling(series.tables.runs)
        for row in _series_rows(series):
            size, rate = row.get("batch_size"), row.get(RATE)
            effective_rate = effective_rates.get((size, rate), rate)
            rows.append({**series.factors, **row, "effective_learning_rate": effective_rate})
    return run_series.table(rows, ADVICE, factors)


def listed_sizes(sizes: Any) -> list[int]:
    """Return the batch sizes in a cell of `sizes`; a single one may be read as a number: 16.0."""
    return [int(float(size)) for size in str(sizes or "").split()]


def _series_rows(series: AdviceSeries) -> Iterator[Row]:
    """Yield all rows of a series, the recommendation first."""
    needs = [*_needs(series)]
    checks = [*_checks(series), *(need.row() for need in needs)]
    if not any(need.name == SEEDS for need in needs):
        checks.append(_check(SEEDS, series.replicates >= MIN_SEEDS, n=series.replicates))
    headline = _headline(series, checks)
    if headline in _WITH_SIZES:
        checks += _size_on_edge_checks(series)
    yield {"item": Item.RECOMMENDATION, **_recommendation(series, checks, headline)}
    for size in series.sizes:
        rate = series.rate_of_size(size)
        yield {"item": Item.SIZE, "batch_size": size, RATE: rate, **_deciding_limit(series, size)}
    yield from ({"item": Item.LIMIT, **row} for row in _limits(series))
    if series.recommended_size is not None:
        yield from ({"item": Item.RATE, **row} for row in expectations.rate_rows(series))
        rows = expectations.expectation_rows(series)
        yield from ({"item": Item.EXPECTATION, **row} for row in rows)
    for check in checks:
        yield {"item": Item.CHECK, **check, "key": None, "value": None, "minutes_to_resolve": None}
    yield from _suggestions(checks, headline)


def _headline(series: AdviceSeries, checks: Iterable[Row]) -> Headline:
    """Return the first headline that holds."""
    failed = {check["name"] for check in checks if check["passed"] == 0}
    if series.recommended_size is None:
        return Headline.NO_OUTCOME
    for headline, check in _ESSENTIAL.items():
        if check in failed:
            return headline
    return _WITH_SIZES[len(series.candidates) < 2]


def _recommendation(series: AdviceSeries, checks: Sequence[Row], headline: Headline) -> Row:
    """Return the headline with its batch sizes, and one of them with its learning rate."""
    row: Row = {"headline": headline, "n": series.replicates}
    if headline == Headline.RATE_NOT_FOUND:
        at_edge = [check["batch_size"] for check in checks if check["name"] == RATE_ON_EDGE]
        return {**row, "sizes": " ".join(map(str, at_edge))}
    if headline not in _WITH_SIZES:
        return row
    size, sizes = series.recommended_size, series.candidates or [series.recommended_size]
    is_solid = all(check["passed"] == 1 for check in checks) and series.unresolved_limits.empty
    grade = Grade.SOLID if is_solid else Grade.PROVISIONAL
    return {
        **row,
        "name": series.limits["outcome"].iloc[0],
        "batch_size": size,
        "sizes": " ".join(map(str, sizes)),
        RATE: series.rate_of_size(size),
        "verdict": Verdict.WITHIN if size in series.sizes_within else Verdict.NOT_RESOLVED,
        "grade": grade if series.replicates >= MIN_SEEDS_FOR_INTERVAL else Grade.OPEN,
    }


def _suggestions(checks: Iterable[Row], headline: Headline) -> Iterator[Row]:
    """Yield one change of the study per check that did not pass, failed checks first.

    More seeds are suggested only if nothing else is wrong. If an essential check failed, its
    suggestion is the only one.
    """
    changes = [check for check in checks if check["passed"] != 1 and check.get("key")]
    if essential := _ESSENTIAL.get(headline):
        changes = [check for check in changes if check["name"] == essential]
    copied = ("name", "batch_size", "key", "value", "seeds_to_resolve", "minutes_to_resolve")
    changes = [check for check in changes if check["key"] != SEEDS] or changes
    # More test data are suggested last.
    changes.sort(key=lambda check: (check["passed"] != 0, check["key"] == "test_examples"))
    for check in changes:
        yield {"item": Item.SUGGESTION, **{name: check.get(name) for name in copied}}


def _deciding_limit(series: AdviceSeries, size: int) -> Row:
    """Return the limit that decides about a size: one that excludes it, or else is undecided."""
    if size > series.memory_limit:
        return {"name": MEMORY, "verdict": Verdict.BEYOND}
    rows = series.limits[series.limits["batch_size"] == size]
    if rows.empty:
        return {"verdict": Verdict.NOT_TESTABLE, "reason": Reason.NO_VALUE}
    row = rows.loc[(rows["excluded"] - rows["within"].astype(int)).idxmax()]
    return {"name": row["outcome"], **row[_LIMIT_COLUMNS].to_dict()}


def _limits(series: AdviceSeries) -> Iterator[Row]:
    """Yield one row per outcome and size that limits the sizes, then memory, knee and B_crit."""
    rows = series.limits.assign(name=series.limits["outcome"])
    seeds = rows["seeds_to_resolve"].astype(float) - rows["n"].astype(float)
    rows["minutes_to_resolve"] = seeds * sum(series.seed_seconds) / 60
    columns = ["name", *_LIMIT_COLUMNS, "seeds_to_resolve", "minutes_to_resolve"]
    yield from rows[columns].to_dict("records")
    if series.memory_limit_row:
        reason = Reason.NONE if math.isfinite(series.memory_limit) else Reason.LOWER_BOUND
        largest = int(series.memory_limit_row["max_batch_size"])
        yield {"name": MEMORY, "estimate": largest, "reason": reason}
    columns = ["noise_floor", "knee_fitted", "knee_batch_size"]
    knees = series.tables.limits.reindex(columns=columns).astype(float)
    knees = knees[~(knees.pop("noise_floor") > step_cost.MAX_NOISE)]
    for knee in knees.stack().dropna()[:1]:
        yield {"name": KNEE, "estimate": float(knee)}
    ends: Row = {end: series.critical_fit.get(f"{CRITICAL}_{end}") for end in ("low", "high")}
    if any(map(pandas.notna, ends.values())):
        yield {"name": CRITICAL, "estimate": series.critical_fit[CRITICAL], **ends}


def _checks(series: AdviceSeries) -> Iterator[Row]:
    """Yield the checks: one row if a check passes, or one row for each size that fails it."""
    yield from _baseline_checks(series)
    yield from edge_checks(series)
    yield from _timing_checks(series)
    yield from _seconds_checks(series)
    if len(series.rows_at_budgets(CONVERGENCE)):
        yield from _still_falling_checks(series)
    lack = pandas.to_numeric(series.critical_fit.get("lack_of_fit"), errors="coerce")
    if pandas.notna(lack):
        yield _check("lack_of_fit", lack >= LEVEL, estimate=float(lack), bound=LEVEL)
    planned, analyses = series.request.planned, series.request.analyses
    if planned is not None and "seed" in series.tables.runs:
        seeds = series.tables.runs["seed"].nunique()
        change = (SEEDS, planned) if seeds < planned else ()
        yield _check("seeds_planned", seeds == planned, *change, estimate=seeds, bound=planned)
    if analyses:
        unresolved = series.unresolved_limits
        seeds = max([series.replicates, *unresolved["n"].dropna().astype(int)])
        # More seeds help unless every open limit has a reason.
        reason = min(unresolved["reason"].fillna(""), default="")
        numbers = {"estimate": seeds, "bound": analyses[-1], "reason": reason}
        yield _check("interim", unresolved.empty, **numbers)


def _check(name: str, passed: Any, key: str = "", value: Any = "", **numbers: Any) -> Row:
    change = {"key": key, "value": str(value)} if key and not passed else {}
    return {"name": name, "passed": int(passed), **numbers, **change}


def _baseline_checks(series: AdviceSeries) -> Iterator[Row]:
    """Check that a size beats the baseline, and that the test set resolves a deciding metric."""
    rows = series.metric_rows.set_index("batch_size")
    if rows.empty:
        return
    outcome, means = rows["outcome"].iloc[0], rows["mean"].astype(float)
    metric, size = tasks.metric(outcome, series.request.metrics), series.recommended_size
    if series.has_learned:
        best = means.idxmax() if metric.higher_is_better else means.idxmin()
        row = rows.loc[size if series.has_learned.get(size) else best]
        numbers = {"estimate": row["mean"], "low": row["mean_low"], "high": row["mean_high"]}
        numbers |= {"bound": series.baseline, "n": row["seeds"]}
        change = _more_rates(series, series.tried_rates(), *[_RATES_ON_BOTH_SIDES] * 2)
        yield _check(BASELINE, any(series.has_learned.values()), **change, **numbers)
    examples = series.run_columns(f"{outcome.partition('_')[0]}_examples").max().item()
    single_label = str(series.factors.get("dataset")) not in series.request.by_position
    has_error = single_label and metric.error and outcome in series.outcomes
    if pandas.notna(examples) and has_error and size in rows.index:
        variance, margin = max(means[size] * (1 - means[size]), 0), rows.loc[size, "margin"]
        error, needed = math.sqrt(variance / examples), int(variance / margin**2) + 1
        change = ("test_examples", needed)
        yield _check("test_set", error < margin, *change, estimate=error, bound=margin)


def _more_rates(series: AdviceSeries, tried: np.ndarray, below: int, above: int) -> Row:
    """Return the suggestion of rates beyond those tried, by grid steps up to `RATE_STEP`."""
    if not len(tried):
        return {}
    first_step, last_step = RATE_STEP, RATE_STEP
    if len(tried) > 1:
        first_step, last_step = np.minimum(tried[[1, -1]] / tried[[0, -2]], RATE_STEP)
    lower = [tried[0] / first_step**power for power in range(below, 0, -1)]
    higher = [tried[-1] * last_step**power for power in range(1, above + 1)]
    minutes = (below + above) * series.training_minutes / max(series.training_summary.rates, 1)
    rates = [rounded(rate) for rate in (*lower, *tried, *higher)]
    return {"key": RATE, "value": rates, "minutes_to_resolve": minutes}


def edge_checks(series: AdviceSeries) -> Iterator[Row]:
    """Check that the best rates are inside their grids, at every size that may be the best.

    An excluded size is checked only if it is next to the range and the edge alone excludes it.
    """
    if not any(len(series.tried_rates(size)) > 1 for size in series.sizes):
        return
    rows = series.limits.dropna(subset=RATE)
    at_edge = rows[~rows.duplicated("batch_size") & (rows["on_edge"] == 1)]
    inner = rows.drop(at_edge.index)
    ruled_out = {*inner.loc[inner["excluded"], "batch_size"]}
    ruled_out |= {size for size in series.sizes if size > series.memory_limit}
    ruled_out |= series.excluded_sizes() - {*series.size_range, *series.neighbours}
    at_edge = at_edge[~at_edge["batch_size"].isin(ruled_out)].sort_values("batch_size")
    for size, rate in zip(at_edge["batch_size"].astype(int), at_edge[RATE], strict=True):
        tried = series.tried_rates(size)
        is_highest = rate >= tried[-1]
        counts = (0, _RATES_BEYOND_EDGE) if is_highest else (_RATES_BEYOND_EDGE, 0)
        change = _more_rates(series, tried, *counts)
        numbers = {"batch_size": size, RATE: rate, "low" if is_highest else "high": rate}
        yield _check(RATE_ON_EDGE, False, **change, **numbers)
    if len(rows) and at_edge.empty:
        checked = sorted({*rows["batch_size"].astype(int)} - ruled_out)
        yield _check(RATE_ON_EDGE, True, sizes=" ".join(map(str, checked)))


def _still_falling_checks(series: AdviceSeries) -> Iterator[Row]:
    """Check that the trainings do not end at their lowest validation loss."""
    sizes = {*series.limits.loc[series.limits["still_falling"] == 1, "batch_size"]}
    for size in sorted(map(int, sizes)):
        cost = {"batch_size": size, "minutes_to_resolve": 2 * series.training_minutes}
        yield _check("still_falling", False, *_more_epochs(series, [size]), **cost)
    if len(series.limits) and not sizes:
        yield _check("still_falling", True)


def _more_epochs(series: AdviceSeries, sizes: Iterable[int]) -> tuple[str, Any]:
    runs = series.run_columns("batch_size", EPOCHS)
    epochs = runs.loc[runs["batch_size"].isin(sizes), EPOCHS].max()
    return EPOCHS, "" if pandas.isna(epochs) else 2 * int(epochs)


def _size_on_edge_checks(series: AdviceSeries) -> Iterator[Row]:
    """Yield a failed check if the recommended size is the smallest or the largest one."""
    size, sizes = series.recommended_size, series.sizes
    beyond = {sizes[0]: size // 2, sizes[-1]: 2 * size}.get(size)
    if beyond and beyond <= series.memory_limit:
        numbers = {"low" if beyond > size else "high": size}
        numbers["minutes_to_resolve"] = series.training_minutes / len(sizes)
        yield _check("size_on_edge", False, "batch_size", sorted([*sizes, beyond]), **numbers)


def _timing_checks(series: AdviceSeries) -> Iterator[Row]:
    """Check that other processes disturbed few timed blocks, and that blocks scatter little."""
    measured: list[tuple[int | None, float, float, tuple[str, Any]]] = []  # size, value, bound, fix
    rerun = (suggestions.RERUN, suggestions.SECONDS_TIMING)
    if series.run_columns("disturbed_share").notna().any(axis=None):
        measured.append((None, series.disturbed_share, MAX_DISTURBED_SHARE, rerun))
    more_blocks = (f"measure.{suggestions.SECONDS_TIMING}.blocks", REPEATED_BLOCKS)
    names = ["batch_size", "seconds_per_epoch_q1", "seconds_per_epoch_q3"]
    sizes, low, high = series.run_columns(*names).astype(float).to_numpy().T
    for size, ratio in pandas.Series(high / low).groupby(sizes).median().items():
        measured.append((int(size), ratio, step_cost.MAX_NOISE, more_blocks))
    names = ["disturbed_blocks", "blocks", "noise_floor"]
    rerun = (suggestions.RERUN, suggestions.SWEEP_TIMING)
    for disturbed, blocks, noise in series.tables.limits.reindex(columns=names).to_numpy(float):
        measured.append((None, disturbed / blocks, MAX_DISTURBED_SHARE, rerun))
        measured.append((None, noise, step_cost.MAX_NOISE, rerun))
    measured = [row for row in measured if not math.isnan(row[1])]
    failed = [row for row in measured if row[1] > row[2]]
    failed.sort(key=lambda row: row[0] is not None)  # rows without a size come first
    for size, value, bound, change in failed or measured[:1]:
        numbers = {"batch_size": size if failed else None, "estimate": value, "bound": bound}
        yield _check("timings_disturbed", not failed, *change, **numbers)


def _seconds_checks(series: AdviceSeries) -> Iterator[Row]:
    """Yield failed checks if known seconds are not compared, or the fastest size is excluded."""
    rows = series.limits[series.limits["outcome"] == SECONDS]
    compared = len(rows) or not series.are_times_usable
    if series.request.timed and not compared and not series.has_schedule:
        yield _check("times_compared", False)
    if (fastest := comparisons.best_batch_size(rows)) in series.excluded_sizes(series.outcomes):
        sizes = [size for size in series.sizes if size != fastest]
        change = ("batch_size", sizes) if len(sizes) >= suggestions.MIN_SIZES else ()
        yield _check("fastest", False, *change, sizes=str(fastest))


def _needs(series: AdviceSeries) -> Iterator[Need]:
    """Yield all missing requirements."""
    trained, minutes = series.training_summary, series.training_minutes
    minutes_per_seed = sum(series.seed_seconds) / 60
    minutes_per_rate = minutes / max(trained.rates, 1)
    yield from suggestions.missing_needs(trained, minutes_per_seed, minutes_per_rate)
    costs, unresolved = series.rows_at_budgets(TARGET), series.unresolved_limits
    is_bound = (unresolved["reason"] == Reason.AT_FIRST_EVALUATION).any()
    can_evaluate_more = trained.keys_to_add == suggestions.TRAINING_KEYS
    if can_evaluate_more and (is_bound or (costs.empty and not series.has_schedule)):
        # The suggestion is half the examples between two evaluations, or a quarter of an epoch.
        columns = {"evaluate_every": "min", "train_examples": "max"}
        interval, epoch = series.run_columns(*columns).agg(columns).fillna(0)
        examples = int(interval // 2 if interval else epoch // 4)
        yield Need("target", "evaluate_every", examples or "", minutes)
    elif len(costs) and costs["mean"].isna().all():
        yield Need("longer_training", *_more_epochs(series, series.sizes), 2 * minutes)
    seeds, used_seeds = unresolved["seeds_to_resolve"].max(), series.tables.runs.get("seed")
    is_open = unresolved["verdict"] == Verdict.NOT_RESOLVED
    unresolvable = unresolved.loc[is_open, "seeds_to_resolve"].isna().any()
    in_next_stage = stages.next_seeds(series.replicates, series.request.analyses)
    if series.replicates < MIN_SEEDS or pandas.isna(seeds) or in_next_stage or unresolvable:
        return
    seeds = int(seeds)
    if trained.keys_to_add == suggestions.EXTERNAL_KEYS:
        yield Need(SEEDS, SEEDS, seeds, (seeds - series.replicates) * minutes_per_seed, seeds)
    elif used_seeds is not None and len(used_seeds):
        # The test is repeated with new seeds only: the used ones decided nothing.
        value = stages.new_seeds(int(used_seeds.max()), seeds)
        yield Need(SEEDS, SEEDS, value, seeds * minutes_per_seed, seeds)
