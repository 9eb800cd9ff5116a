"""Which batch size to use: rows of other tables in, a recommendation with its reasons out.

Every series has one recommendation. Essential checks decide its headline: was anything learned,
was the learning rate found, are the batch sizes distinguished? Other checks lower its grade. A
suggestion changes the study so that a check passes.
"""

from __future__ import annotations

import enum
import math
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np
import pandas

from batchscope.analysis import advice_series, expectations, run_series, step_cost, verdicts
from batchscope.analysis.advice_series import (
    CRITICAL,
    MOST_DISTURBED,
    RATE,
    AdviceRequest,
    AdviceSeries,
    AdviceTables,
    Row,
    excludes,
)
from batchscope.study import advice_needs, run_factors, stages, tasks
from batchscope.study.advice_needs import RATE_STEP, SEEDS, Need, rounded
from batchscope.study.budget_kinds import CONVERGENCE, EPOCHS, TARGET
from batchscope.study.decision_columns import ADVICE
from batchscope.study.outcomes import (
    LEAST_SEEDS,
    LEAST_WITH_INTERVAL,
    LEVEL,
    Reason,
    Verdict,
)

MEMORY, KNEE = "memory", "knee"
BASELINE, RATE_ON_EDGE = "baseline", "rate_on_edge"  # the essential checks
BLOCKS = 21  # of a timing that is repeated
_RATES_BEYOND, _RATES_AWAY = 2, 3  # more rates beyond the edge of a grid, or if nothing learned
_COPIED = ["batch_size", "estimate", "low", "high", "bound", "n", "verdict", "reason"]


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
    """Statement of the recommendation; the first that holds."""

    NO_OUTCOME = "no_outcome"
    NOTHING_LEARNED = "nothing_learned"
    RATE_NOT_FOUND = "rate_not_found"
    NOT_DISTINGUISHED = "not_distinguished"
    RECOMMENDED = "recommended"


class Grade(enum.StrEnum):
    """How sure a recommendation is."""

    SOLID = "solid"
    PROVISIONAL = "provisional"
    OPEN = "open"  # one or two seeds


_ESSENTIAL = {Headline.NOTHING_LEARNED: BASELINE, Headline.RATE_NOT_FOUND: RATE_ON_EDGE}


def table(tables: AdviceTables, asked: AdviceRequest) -> pandas.DataFrame:
    """Returns the rows of every series that trains at three batch sizes or more; see `ADVICE`."""
    every = advice_series.of_tables(tables, asked)
    rows = [{**series.factors, **row} for series in every for row in _rows(series)]
    factors = run_series.factor_columns(tables.comparisons.drop(columns=RATE))
    return run_series.table(rows, ADVICE, factors)


def _rows(series: AdviceSeries) -> Iterator[Row]:
    """Yield all rows, the recommendation first."""
    needs = [*_needs(series)]
    checks = [*_checks(series), *(need.row() for need in needs)]
    if not any(need.name == SEEDS for need in needs):
        checks.append(_check(SEEDS, series.replicates >= LEAST_SEEDS, n=series.replicates))
    headline = _headline(series, checks)
    if headline in (Headline.NOT_DISTINGUISHED, Headline.RECOMMENDED):
        checks += _sizes_beyond(series)
    yield {"item": Item.RECOMMENDATION, **_recommendation(series, checks, headline)}
    for size in series.sizes:
        rate = series.rate(size)
        yield {"item": Item.SIZE, "batch_size": size, RATE: rate, **_deciding(series, size)}
    yield from ({"item": Item.LIMIT, **row} for row in _limits(series))
    if series.recommended is not None:
        yield from ({"item": Item.RATE, **row} for row in expectations.rates(series))
        yield from ({"item": Item.EXPECTATION, **row} for row in expectations.expected(series))
    for check in checks:
        of_suggestion = dict.fromkeys(("key", "value", "minutes_to_resolve"))
        yield {"item": Item.CHECK, **check, **of_suggestion}
    yield from _suggestions(checks, headline)


def _headline(series: AdviceSeries, checks: Iterable[Row]) -> Headline:
    """Return the first of the headlines that holds."""
    failed = {check["name"] for check in checks if check["passed"] == 0}
    if series.recommended is None:
        return Headline.NO_OUTCOME
    for headline, check in _ESSENTIAL.items():
        if check in failed:
            return headline
    several = len(series.candidates) > 1
    return Headline.NOT_DISTINGUISHED if several else Headline.RECOMMENDED


def _recommendation(series: AdviceSeries, checks: Sequence[Row], headline: Headline) -> Row:
    """Return the headline with its batch sizes, and one of them with its learning rate."""
    row: Row = {"headline": headline, "n": series.replicates}
    if headline == Headline.RATE_NOT_FOUND:
        at_edge = [check["batch_size"] for check in checks if check["name"] == RATE_ON_EDGE]
        return {**row, "sizes": " ".join(map(str, at_edge))}
    if headline not in (Headline.NOT_DISTINGUISHED, Headline.RECOMMENDED):
        return row
    size, sizes = series.recommended, series.candidates or [series.recommended]
    sure = all(check["passed"] == 1 for check in checks) and series.unresolved.empty
    grade = Grade.SOLID if sure else Grade.PROVISIONAL
    return {
        **row,
        "name": series.limits["outcome"].iloc[0],
        "batch_size": size,
        "smallest": sizes[0],
        "largest": sizes[-1],
        "sizes": " ".join(map(str, sizes)),
        RATE: series.rate(size),
        "verdict": Verdict.WITHIN if size in series.within else Verdict.NOT_RESOLVED,
        "grade": grade if series.replicates >= LEAST_WITH_INTERVAL else Grade.OPEN,
    }


def _suggestions(checks: Iterable[Row], headline: Headline) -> Iterator[Row]:
    """Yield changes of the study in order of the checks that did not pass, failed ones first.

    More seeds are suggested only if nothing else is wrong. Only an essential check that failed has
    a suggestion: nothing else is worth its time.
    """
    changes = [check for check in checks if check["passed"] != 1 and check.get("key")]
    if essential := _ESSENTIAL.get(headline):
        changes = [check for check in changes if check["name"] == essential]
    others = [check for check in changes if check["key"] != SEEDS]
    copied = ("name", "batch_size", "key", "value", "seeds_to_resolve", "minutes_to_resolve")
    for check in sorted(others or changes, key=_order):
        yield {"item": Item.SUGGESTION, **{name: check.get(name) for name in copied}}


def _order(check: Row) -> tuple[bool, bool]:
    """Put failed checks first, and more data last among them: a command does not wait for data."""
    return check["passed"] != 0, check["key"] == "test_examples"


def _deciding(series: AdviceSeries, size: int) -> Row:
    """Returns the limit that decides about a size: one that excludes it, else one not shown."""
    if size > series.memory:
        return {"name": MEMORY, "verdict": Verdict.BEYOND}
    found = series.limits[series.limits["batch_size"] == size]
    if found.empty:
        return {"verdict": Verdict.NOT_TESTABLE, "reason": Reason.NO_VALUE}
    doubtful = verdicts.read_off(found) != Verdict.WITHIN
    first = (doubtful.astype(int) + excludes(found)).idxmax()
    return {"name": found.loc[first, "outcome"], **found.loc[first, _COPIED].to_dict()}


def _limits(series: AdviceSeries) -> Iterator[Row]:
    """Yields every limit with every size, and what else is known of machine and target."""
    rows = series.limits.assign(name=series.limits["outcome"])
    more = rows["seeds_to_resolve"].astype(float) - rows["n"].astype(float)
    rows["minutes_to_resolve"] = more * sum(series.price) / 60
    shown = ["name", *_COPIED, "seeds_to_resolve", "minutes_to_resolve"]
    yield from rows[shown].to_dict("records")
    if series.fits:
        reason = Reason.NONE if math.isfinite(series.memory) else Reason.LOWER_BOUND
        yield {"name": MEMORY, "largest": int(series.fits["max_batch_size"]), "reason": reason}
    timed = series.tables.limits.reindex(columns=["knee_fitted", "knee_batch_size", "noise_floor"])
    quiet = timed[~(timed.pop("noise_floor").astype(float) > step_cost.MOST_NOISE)]
    for knee in quiet.astype(float).stack().dropna()[:1]:
        yield {"name": KNEE, "estimate": float(knee)}
    fit: Row = {end: series.critical.get(f"{CRITICAL}_{end}") for end in ("low", "high")}
    if any(map(pandas.notna, fit.values())):
        yield {"name": CRITICAL, "estimate": series.critical[CRITICAL], **fit}


def _checks(series: AdviceSeries) -> Iterator[Row]:
    """Yield the checks: one row for one that passes, or a row for each size that fails."""
    yield from _beside_baseline(series)
    yield from edges(series)
    yield from _timings(series)
    yield from _seconds(series)
    if len(series.at(CONVERGENCE)):
        yield from _still_falling(series)
    lack = pandas.to_numeric(series.critical.get("lack_of_fit"), errors="coerce")
    if pandas.notna(lack):
        yield _check("lack_of_fit", lack >= LEVEL, estimate=float(lack), bound=LEVEL)
    planned, seeds = series.asked.planned, series.tables.runs.get("seed")
    if planned is not None and seeds is not None:
        there = seeds.nunique()
        line = (SEEDS, planned) if there < planned else ()
        yield _check("seeds_planned", there == planned, *line, estimate=there, bound=planned)
    if looks := series.asked.looks:
        decided = series.unresolved.empty
        yield _check("interim", decided, estimate=series.replicates, bound=looks[-1])


def _check(name: str, passed: Any, key: str = "", value: Any = "", **numbers: Any) -> Row:
    line = {"key": key, "value": str(value)} if key and not passed else {}
    return {"name": name, "passed": int(passed), **numbers, **line}


def _beside_baseline(series: AdviceSeries) -> Iterator[Row]:
    """Yield whether any size beats the baseline in the first metric of its task.

    Of an accuracy also whether the test set is large enough.
    """
    rows = series.metric_rows.set_index("batch_size")
    if rows.empty:
        return
    outcome, means = rows["outcome"].iloc[0], rows["mean"].astype(float)
    metric, size = tasks.metric(outcome, series.asked.metrics), series.recommended
    if series.learned:
        best = means.idxmax() if metric.higher_is_better else means.idxmin()
        row = rows.loc[size if series.learned.get(size) else best]
        numbers = {"estimate": row["mean"], "low": row["mean_low"], "high": row["mean_high"]}
        numbers |= {"bound": series.baseline, "n": row["seeds"]}
        line = _rates(series, series.tried(), *_rates_away(series))
        yield _check(BASELINE, any(series.learned.values()), **line, **numbers)
    examples = series.runs(f"{outcome.partition('_')[0]}_examples").max().item()
    single = str(series.factors.get("dataset")) not in series.asked.by_position
    if pandas.notna(examples) and single and metric.error and size in rows.index:
        variance, margin = max(means[size] * (1 - means[size]), 0), rows.loc[size, "margin"]
        error, enough = math.sqrt(variance / examples), int(variance / margin**2) + 1
        line = ("test_examples", enough)
        yield _check("test_set", error < margin, *line, estimate=error, bound=margin)


def _rates_away(series: AdviceSeries) -> tuple[int, int]:
    where = expectations.direction(series)
    below = 0 if where == expectations.HIGHER else _RATES_AWAY
    return below, 0 if where == expectations.LOWER else _RATES_AWAY


def _rates(series: AdviceSeries, tried: np.ndarray, below: int, above: int) -> Row:
    """Return the suggestion of rates beyond those tried, in steps of the grid or `RATE_STEP`."""
    if not len(tried):
        return {}
    first, last = RATE_STEP, RATE_STEP
    if len(tried) > 1:
        first, last = np.minimum(tried[[1, -1]] / tried[[0, -2]], RATE_STEP)
    lower = [tried[0] / first**step for step in range(below, 0, -1)]
    higher = [tried[-1] * last**step for step in range(1, above + 1)]
    minutes = (below + above) * series.minutes / max(series.trained.rates, 1)
    rates = [rounded(rate) for rate in (*lower, *tried, *higher)]
    return {"key": RATE, "value": rates, "minutes_to_resolve": minutes}


def edges(series: AdviceSeries) -> Iterator[Row]:
    """Yield whether the rates are inside their grids, at every size that may be the best.

    A size that is excluded counts if it is next to the range, and excluded by the edge alone.
    """
    if not any(len(series.tried(size)) > 1 for size in series.sizes):
        return
    rows = series.limits.dropna(subset=RATE)
    at_edge = rows[~rows.duplicated("batch_size") & (rows["on_edge"] == 1)]
    others = rows.drop(at_edge.index)
    otherwise = {*others.loc[excludes(others), "batch_size"]}
    otherwise |= {size for size in series.sizes if size > series.memory}
    otherwise |= series.excluded() - {*series.range, *series.beside}
    at_edge = at_edge[~at_edge["batch_size"].isin(otherwise)].sort_values("batch_size")
    for size, rate in zip(at_edge["batch_size"].astype(int), at_edge[RATE], strict=True):
        tried = series.tried(size)
        above = rate >= tried[-1]
        line = _rates(series, tried, *((0, _RATES_BEYOND) if above else (_RATES_BEYOND, 0)))
        numbers = {"batch_size": size, RATE: rate, "low" if above else "high": rate}
        yield _check(RATE_ON_EDGE, False, **line, **numbers)
    if len(rows) and at_edge.empty:
        yield _check(RATE_ON_EDGE, True)


def _still_falling(series: AdviceSeries) -> Iterator[Row]:
    """Yield the sizes at which trainings end at their lowest validation loss."""
    flagged = {*series.limits.loc[series.limits["still_falling"] == 1, "batch_size"]}
    for size in sorted(map(int, flagged)):
        cost = {"batch_size": size, "minutes_to_resolve": 2 * series.minutes}
        yield _check("still_falling", False, *_longer(series, size), **cost)
    if len(series.limits) and not flagged:
        yield _check("still_falling", True)


def _longer(series: AdviceSeries, size: int) -> tuple[str, Any]:
    runs = series.runs("batch_size", EPOCHS)
    epochs = runs.loc[runs["batch_size"] == size, EPOCHS].max()
    return EPOCHS, "" if pandas.isna(epochs) else 2 * int(epochs)


def _sizes_beyond(series: AdviceSeries) -> Iterator[Row]:
    """Yield that the recommended size is the smallest or the largest that was tried, if it is."""
    size, sizes = series.recommended, series.sizes
    beyond = {sizes[0]: size // 2, sizes[-1]: 2 * size}.get(size)
    if beyond and beyond <= series.memory:
        numbers = {"low" if beyond > size else "high": size}
        numbers["minutes_to_resolve"] = series.minutes / len(sizes)
        yield _check("size_on_edge", False, "batch_size", sorted([*sizes, beyond]), **numbers)


def _timings(series: AdviceSeries) -> Iterator[Row]:
    """Yield whether timings are clean.

    Other processes disturbed few of the blocks, and the blocks of a batch size differ by less than
    the distance of a plateau from its knee. Disturbed timings are to be repeated.
    """
    names = ["batch_size", "seconds_per_epoch_q1", "seconds_per_epoch_q3"]
    sizes, low, high = series.runs(*names).astype(float).to_numpy().T
    ratios = pandas.Series(high / low).groupby(sizes).median()
    more_blocks = (f"measure.{advice_needs.TIMED}.blocks", BLOCKS)
    found: list[tuple[int | None, float, float, tuple[str, Any]]] = []
    if series.runs("disturbed_share").notna().any(axis=None):
        again = (advice_needs.RERUN, advice_needs.TIMED)
        found.append((None, series.disturbed_share, MOST_DISTURBED, again))
    for size, ratio in ratios.items():
        found.append((int(size), ratio, step_cost.MOST_NOISE, more_blocks))
    names = ["disturbed_blocks", "blocks", "noise_floor"]
    for disturbed, blocks, noise in series.tables.limits.reindex(columns=names).to_numpy(float):
        again = (advice_needs.RERUN, advice_needs.SWEEP)
        found.append((None, disturbed / blocks, MOST_DISTURBED, again))
        found.append((None, noise, step_cost.MOST_NOISE, more_blocks))
    found = [each for each in found if not math.isnan(each[1])]
    failed = [each for each in found if each[1] > each[2]]
    failed.sort(key=lambda row: row[0] is not None)  # those of all sizes first
    for size, value, bound, line in failed or found[:1]:
        numbers = {"batch_size": size if failed else None, "estimate": value, "bound": bound}
        yield _check("timings_disturbed", not failed, *line, **numbers)


def _seconds(series: AdviceSeries) -> Iterator[Row]:
    """Yields whether seconds that are known are compared, and with sizes that may be used."""
    compared = series.compares_seconds or not series.times_usable
    if series.asked.timed and not compared and not _falls(series):
        yield _check("times_compared", False)
    if (fastest := series.fastest) in series.excluded(series.outcomes):
        others = [size for size in series.sizes if size != fastest]
        yield _check("fastest", False, "vary.batch_size", others, batch_size=fastest)


def _falls(series: AdviceSeries) -> bool:
    return bool(series.factors.get("schedule", run_factors.CONSTANT) != run_factors.CONSTANT)


def _needs(series: AdviceSeries) -> Iterator[Need]:
    """Yield all missing requirements."""
    trained, of_seed = series.trained, sum(series.price) / 60
    minutes = series.minutes
    yield from advice_needs.missing(trained, of_seed, minutes / max(trained.rates, 1))
    taken, unresolved = series.at(TARGET), series.unresolved
    first = (unresolved["reason"] == Reason.AT_FIRST_EVALUATION).any()
    here = trained.given_by == advice_needs.HERE  # where evaluations are asked for by a factor
    if here and (first or (taken.empty and not _falls(series))):
        # Half the examples between two evaluations, or a quarter of an epoch.
        every, used = series.runs("evaluate_every", "train_examples").max().fillna(0)
        yield Need(
            "target", "evaluate_every", int(every // 2 if every else used // 4) or "", minutes
        )
    elif len(taken) and taken["mean"].isna().all():
        key, value = _longer(series, int(taken["batch_size"].iloc[0]))
        yield Need("longer_training", key, value, 2 * minutes)
    wanted, used = unresolved["seeds_to_resolve"].max(), series.tables.runs.get("seed")
    never = unresolved.loc[unresolved["verdict"] == Verdict.NOT_RESOLVED, "seeds_to_resolve"].isna()
    come = stages.following(series.replicates, series.asked.looks)  # by themselves
    if series.replicates >= LEAST_SEEDS and pandas.notna(wanted) and not come and not never.any():
        seeds = int(wanted)
        if trained.given_by == advice_needs.EXTERNAL:
            yield Need(SEEDS, SEEDS, seeds, (seeds - series.replicates) * of_seed, seeds)
        elif used is not None and len(used):  # those that decided nothing test nothing again
            value = stages.new_seeds(int(used.max()), seeds)
            yield Need(SEEDS, SEEDS, value, seeds * of_seed, seeds)
