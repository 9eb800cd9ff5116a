"""Which batch sizes to use: rows of other tables in, a recommendation with what limits it out.

The recommendation is the range of neighbouring sizes around the best measured one that are within
every limit (see `advice_series`); where that one is not shown to be, it stands alone.
"""

from __future__ import annotations

import enum
import math
from collections.abc import Iterator

import numpy as np
import pandas

from batchscope.analysis import advice_checks, advice_series, run_series, step_cost
from batchscope.analysis.advice_series import CRITICAL, RATE, Asked, Row, Series, Tables
from batchscope.catalogue.budget_kinds import EPOCHS, UPDATES
from batchscope.catalogue.decision_columns import ADVICE
from batchscope.catalogue.outcomes import LEAST_SEEDS, Reason, Verdict
from batchscope.catalogue.run_factors import TIMING_FACTORS
from batchscope.study.advice_needs import LEAST_SIZES

MEMORY, KNEE = "memory", "knee"
_OF_MACHINE = {"machine", "dataset", "dataset_digest", "model", "model_digest", "device"}
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
    frame = tables.comparisons
    factors = [name for name in run_series.factor_columns(frame) if name != RATE]
    rows: list[Row] = []
    for series in run_series.series(frame.drop(columns=RATE)) if len(frame) else ():
        own = frame.loc[series.frame.index]
        if own["batch_size"].nunique() < LEAST_SIZES:
            continue
        single = {
            name: own[name].iloc[0] for name in factors if own[name].nunique(dropna=False) < 2
        }
        runs = _of(run_series.own(tables.runs), single)
        configured = runs.reindex(columns=[*{*_OF_MACHINE, *TIMING_FACTORS} - {"batch_size"}])
        of_machine = configured.iloc[0].to_dict() if len(runs) else {}
        others = (_of(each, single) for each in (tables.trends, tables.critical))
        given = Tables(own, runs, _of(tables.limits, of_machine), *others)
        price = asked.price(runs["run"]) if "run" in runs else (math.nan, math.nan)
        rows += [{**single, **row} for row in _rows(Series(given, asked, single, price))]
    return run_series.table(rows, ADVICE, factors)


def _of(frame: pandas.DataFrame, factors: Row) -> pandas.DataFrame:
    """Returns the rows that have these factors; one that a row says nothing of differs in none."""
    for name in factors.keys() & {*frame}:
        if pandas.notna(value := factors[name]):
            frame = frame[frame[name].eq(value) | frame[name].isna()]
    return frame


def _rows(series: Series) -> Iterator[Row]:
    """Yields all rows: the recommendation first, and what is missing in order of cost."""
    checks, needs = [*advice_checks.checks(series)], [*advice_checks.needs(series)]
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
        deciding = _deciding(series, size)
        yield {"item": Item.SIZE, "batch_size": size, RATE: series.rate(size), **deciding}
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
    first = (doubtful.astype(int) + advice_series.excludes(found)).idxmax()
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
