"""Which batch sizes to use: rows of other tables in, a recommendation with what limits it out.

The recommendation is the range of neighbouring sizes around the best measured one that are within
every limit (see `advice_series`); where that one is not shown to be, it stands alone. What may be
wrong with it, and what it lacks, stands beside the line to add to the study.
"""

from __future__ import annotations

import enum
import math
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pandas

from batchscope.analysis import advice_series, intervals, run_series, step_cost
from batchscope.analysis.advice_series import (
    CRITICAL,
    MOST_DISTURBED,
    RATE,
    Asked,
    Row,
    Series,
    Tables,
    excludes,
)
from batchscope.catalogue import run_factors, stages, tasks
from batchscope.catalogue.budget_kinds import CONVERGENCE, ENDS, EPOCHS, TARGET, UPDATES
from batchscope.catalogue.decision_columns import ADVICE
from batchscope.catalogue.outcomes import LEAST_SEEDS, LEVEL, Reason, Verdict
from batchscope.study import advice_needs
from batchscope.study.advice_needs import Need, rounded

MEMORY, KNEE = "memory", "knee"
BLOCKS = 21  # of a timing that is repeated
_COPIED = ["batch_size", "estimate", "low", "high", "bound", "n", "verdict", "reason"]


class Item(enum.StrEnum):
    """What a row of the advice is."""

    RECOMMENDATION = "recommendation"
    SIZE = "size"  # a batch size, with the limit that decides about it
    LIMIT = "limit"
    CHECK = "check"
    NEED = "need"
    TREND = "trend"  # what is better where other things are held equal


class Grade(enum.StrEnum):
    """How sure a recommendation is."""

    SOLID = "solid"
    PROVISIONAL = "provisional"
    OPEN = "open"


def table(tables: Tables, asked: Asked) -> pandas.DataFrame:
    """Returns the rows of every series that trains at three batch sizes or more; see `ADVICE`."""
    every = advice_series.of_tables(tables, asked)
    rows = [{**series.factors, **row} for series in every for row in _rows(series)]
    factors = run_series.factor_columns(tables.comparisons.drop(columns=RATE))
    return run_series.table(rows, ADVICE, factors)


def _rows(series: Series) -> Iterator[Row]:
    """Yields all rows: the recommendation first, and what is missing in order of cost."""
    checks, needs = [*_checks(series)], [*_needs(series)]
    if series.best is not None:
        failed = any(each["passed"] == 0 for each in checks)
        lacking = failed or needs or len(series.unresolved) or series.replicates < LEAST_SEEDS
        grade = Grade.PROVISIONAL if lacking else Grade.SOLID
        yield {
            "item": Item.RECOMMENDATION,
            "batch_size": series.best,
            "smallest": series.range[0],
            "largest": series.range[-1],
            RATE: series.rate(series.best),
            "n": series.replicates,
            "grade": grade if series.replicates > 1 else Grade.OPEN,
        }
    for size in series.sizes:
        rate = series.rate(size)
        yield {"item": Item.SIZE, "batch_size": size, RATE: rate, **_deciding(series, size)}
    yield from ({"item": Item.LIMIT, **each} for each in _limits(series))
    yield from ({"item": Item.CHECK, **each} for each in checks)
    for need in sorted(needs, key=lambda each: np.nan_to_num(each.minutes)):
        yield {"item": Item.NEED, **need.row()}
    yield from ({"item": Item.TREND, **each} for each in _trends(series))


def _deciding(series: Series, size: int) -> Row:
    """Returns the limit that decides about a size: one that excludes it, else one not shown."""
    if size > series.memory:
        return {"name": MEMORY, "verdict": Verdict.BEYOND}
    found = series.limits[series.limits["batch_size"] == size]
    if found.empty:
        return {"verdict": Verdict.NOT_TESTABLE, "reason": Reason.NO_VALUE}
    doubtful = found["verdict"] != Verdict.WITHIN
    first = (doubtful.astype(int) + excludes(found)).idxmax()
    return {"name": found.loc[first, "outcome"], **found.loc[first, _COPIED].to_dict()}


def _limits(series: Series) -> Iterator[Row]:
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


def _trends(series: Series) -> Iterator[Row]:
    """Yields what is better at equal epochs and at equal updates, by the first outcome."""
    rows = series.tables.trends
    if len(rows) and series.outcomes:
        first = rows["outcome"] == series.outcomes[0]
        for row in rows[first & rows["budget"].isin([EPOCHS, UPDATES])].to_dict("records"):
            found = {name: row[name] for name in _COPIED if name in row}
            yield {"name": row["outcome"], "key": row["budget"], **found, "bound": 0.0}


def _checks(series: Series) -> Iterator[Row]:
    """Yields what else may be wrong: a row for all that passes, or for each size that fails."""
    yield from _beside_baseline(series)
    if series.trained.rates > 1:
        yield from _flagged(series, "rate_on_edge", "on_edge", _beyond)
    yield from _timings(series)
    yield from _seconds(series)
    yield from _at_one_rate(series)
    if len(series.at(CONVERGENCE)):
        yield from _flagged(series, "still_falling", "still_falling", _longer)
    lack = pandas.to_numeric(series.critical.get("lack_of_fit"), errors="coerce")
    if pandas.notna(lack):
        yield _check("lack_of_fit", lack >= LEVEL, estimate=float(lack), bound=LEVEL)
    planned, seeds = series.asked.planned, series.tables.runs.get("seed")
    if planned is not None and seeds is not None:
        there = seeds.nunique()
        line = ("seeds", planned) if there < planned else ()
        yield _check("seeds_planned", there == planned, *line, estimate=there, bound=planned)
    if looks := series.asked.looks:
        decided = series.unresolved.empty
        yield _check("looks", decided, estimate=series.replicates, bound=looks[-1])


def _check(name: str, passed: Any, key: str = "", value: Any = "", **numbers: Any) -> Row:
    line = {"key": key, "value": str(value)} if key and not passed else {}
    return {"name": name, "passed": int(passed), **numbers, **line}


def _beside_baseline(series: Series) -> Iterator[Row]:
    """Yields whether the best size beats the baseline in the first metric of its task.

    Of an accuracy also whether the test set is large enough.
    """
    rows = series.at(*ENDS)
    metrics = {name: found for name in rows["outcome"].unique() if (found := tasks.metric(name))}
    rows = rows[rows["outcome"].isin(metrics) & rows["mean"].notna()]
    for row in rows[rows["batch_size"] == series.best].to_dict("records")[:1]:
        outcome, mean = row["outcome"], float(row["mean"])
        given = series.asked.baselines.get(str(series.factors.get("dataset")), {})
        if (bound := given.get(outcome)) is not None:
            low, high = row["mean_low"], row["mean_high"]
            worst = low if metrics[outcome].higher_is_better else high
            worst = mean if pandas.isna(worst) else worst
            passed = worst > bound if metrics[outcome].higher_is_better else worst < bound
            numbers = {"estimate": mean, "low": low, "high": high, "bound": bound, "n": row["n"]}
            yield _check("baseline", passed, *_longer(series, series.best), **numbers)
        examples = series.runs(f"{outcome.partition('_')[0]}_examples").max().item()
        single = str(series.factors.get("dataset")) not in series.asked.by_position
        if pandas.notna(examples) and single and metrics[outcome].error:
            error, margin = math.sqrt(max(mean * (1 - mean), 0) / examples), float(row["margin"])
            line = (f"margins.{row['outcome']}", math.ceil(100 * error) / 100)
            yield _check("test_set", error < margin, *line, estimate=error, bound=margin)


def _flagged(
    series: Series, name: str, column: str, line: Callable[[Series, int], tuple[str, Any]]
) -> Iterator[Row]:
    """Yields the sizes that a column of comparisons.csv flags, each with the line to add.

    One that is beyond changes nothing, unless the range ends beside it.
    """
    flagged = {*series.limits.loc[series.limits[column] == 1, "batch_size"]}
    flagged -= series.excluded() - {*series.range, *series.beside}
    for size in sorted(map(int, flagged)):
        yield _check(name, False, *line(series, size), batch_size=size)
    if len(series.limits) and not flagged:
        yield _check(name, True)


def _beyond(series: Series, size: int) -> tuple[str, Any]:
    """Returns the line with a rate beyond the edge on which a size's best one lies."""
    runs, rows = series.runs("batch_size", RATE), series.limits
    tried = sorted(runs.loc[runs["batch_size"] == size, RATE].dropna().unique().tolist())
    if len(tried) < 2:
        return "vary.learning_rate", ""
    low, high = tried[0] ** 2 / tried[1], tried[-1] ** 2 / tried[-2]
    on_edge = rows.loc[(rows["batch_size"] == size) & (rows["on_edge"] == 1), RATE].iloc[-1]
    rates = [*tried, high] if on_edge >= tried[-1] else [low, *tried]
    return "vary.learning_rate", [*map(rounded, rates)]


def _longer(series: Series, size: int | None) -> tuple[str, Any]:
    runs = series.runs("batch_size", EPOCHS)
    epochs = runs.loc[runs["batch_size"] == size, EPOCHS].max()
    return EPOCHS, "" if pandas.isna(epochs) else 2 * int(epochs)


def _timings(series: Series) -> Iterator[Row]:
    """Yield whether timings are clean.

    Other processes disturbed few of the blocks, and the blocks of a batch size differ by less than
    the distance of a plateau from its knee. Disturbed timings are to be repeated.
    """
    names = ["batch_size", "seconds_per_epoch_q1", "seconds_per_epoch_q3"]
    sizes, low, high = series.runs(*names).astype(float).to_numpy().T
    ratios = pandas.Series(high / low).groupby(sizes).median()
    more_blocks = ("measure.time_epoch.blocks", BLOCKS)
    found: list[tuple[int | None, float, float, tuple[str, Any]]] = []
    if series.runs("disturbed_share").notna().any(axis=None):
        again = (advice_needs.RERUN, "time_epoch")
        found.append((None, series.disturbed_share, MOST_DISTURBED, again))
    for size, ratio in ratios.items():
        found.append((int(size), ratio, step_cost.MOST_NOISE, more_blocks))
    names = ["disturbed_blocks", "blocks", "noise_floor"]
    for disturbed, blocks, noise in series.tables.limits.reindex(columns=names).to_numpy(float):
        again = (advice_needs.RERUN, "throughput")
        found.append((None, disturbed / blocks, MOST_DISTURBED, again))
        found.append((None, noise, step_cost.MOST_NOISE, more_blocks))
    found = [each for each in found if not math.isnan(each[1])]
    failed = [each for each in found if each[1] > each[2]]
    for size, value, bound, line in failed or found[:1]:
        numbers = {"batch_size": size if failed else None, "estimate": value, "bound": bound}
        yield _check("timings_disturbed", not failed, *line, **numbers)


def _seconds(series: Series) -> Iterator[Row]:
    """Yields whether seconds that are known are compared, and with sizes that may be used."""
    compared = series.compares_seconds or not series.times_usable
    if series.asked.timed and not compared and not _falls(series):
        yield _check("times_compared", False)
    if (fastest := series.fastest) in series.excluded(series.outcomes):
        others = [size for size in series.sizes if size != fastest]
        yield _check("fastest", False, "vary.batch_size", others, batch_size=fastest)


def _at_one_rate(series: Series) -> Iterator[Row]:
    """Yields whether outcomes hold at the rates that are recommended, where those are others.

    A size is recommended at the best rate of its seconds: there, an outcome may be worse by less
    than the margin than at the rate at which it was compared.
    """
    runs, failed, compared = series.tables.runs, [], False
    for outcome in (name for name in series.outcomes if name in runs):
        rows = series.limits[series.limits["outcome"] == outcome]
        for row in rows[rows["batch_size"].isin(series.range)].to_dict("records"):
            size, read, margin = row["batch_size"], row[RATE], float(row["margin"])
            recommended = series.rate(size)
            if pandas.isna(read) or read == recommended:
                continue
            own = runs[runs["batch_size"] == size].pivot_table(outcome, "seed", RATE)
            own = tasks.falling(own.reindex(columns=[recommended, read]).astype(float), outcome)
            lost = (own[recommended] - own[read]).dropna()
            found, compared = intervals.t_interval(lost, differ=True), True
            if not found.high < margin:
                numbers = {"estimate": found.mean, "low": found.low, "high": found.high}
                failed.append({"batch_size": size, **numbers, "bound": margin})
    yield from (_check("one_rate", False, **each) for each in failed)
    if compared and not failed:
        yield _check("one_rate", True)


def _falls(series: Series) -> bool:
    """Whether the rate falls to the end of the training, so that nothing is read before."""
    return bool(series.factors.get("schedule", run_factors.CONSTANT) != run_factors.CONSTANT)


def _needs(series: Series) -> Iterator[Need]:
    """Yields what is missing, all at once."""
    found, of_seed = series.trained, sum(series.price) / 60
    minutes = series.price[0] / 60 * series.replicates
    yield from advice_needs.missing(found, of_seed, minutes / max(found.rates, 1))
    taken, unresolved = series.at(TARGET), series.unresolved
    falls = _falls(series)
    first = (unresolved["reason"] == Reason.AT_FIRST_EVALUATION).any()
    here = found.given_by == advice_needs.HERE  # where evaluations are asked for by a factor
    if here and (first or (taken.empty and not falls)):
        # Half the examples between two evaluations, or a quarter of an epoch.
        every, used = series.runs("evaluate_every", "train_examples").max().fillna(0)
        yield Need("target", "evaluate_every", int(every // 2 or used // 4) or "", minutes)
    elif len(taken) and taken["mean"].isna().all():
        size = int(taken["batch_size"].iloc[0])
        yield Need("longer_training", *_longer(series, size), minutes)
    wanted, used = unresolved["seeds_to_resolve"].max(), series.tables.runs.get("seed")
    never = unresolved.loc[unresolved["verdict"] == Verdict.NOT_RESOLVED, "seeds_to_resolve"].isna()
    come = stages.following(series.replicates, series.asked.looks)  # by themselves
    if series.replicates >= LEAST_SEEDS and pandas.notna(wanted) and not come and not never.any():
        seeds = int(wanted)
        if found.given_by == advice_needs.IN_A_FILE:
            yield Need("seeds", "seeds", seeds, (seeds - series.replicates) * of_seed, seeds)
        elif used is not None and len(used):  # those that decided nothing test nothing again
            value = str(stages.Staged.after(int(used.max()), seeds))
            yield Need("seeds", "seeds", value, seeds * of_seed, seeds)
