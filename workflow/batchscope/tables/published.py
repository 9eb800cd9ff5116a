"""published.csv: a document's numbers, each with ours of the same cell, or why there is none."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import pandas

from batchscope.analysis import intervals, run_series
from batchscope.study import factor_words, own_columns, run_factors
from batchscope.study.outcomes import Reason
from batchscope.study.tables import clipped
from batchscope.tables import long_tables

if TYPE_CHECKING:
    from batchscope.study.plan import PlannedExperiment

# Column of a document -> columns of runs.csv. The first one that has values is compared.
OF_MACHINE = {
    "utilisation_percent": ("gpu_percent", "process_percent"),
    "memory_mb": ("gpu_memory_peak_mb", "memory_peak_mb"),
}
# What may name a document's series.
_SERIES_FACTORS = [name for name in run_factors.EVERY_FACTOR if name not in ("batch_size", "seed")]
COLUMNS = [
    *("figure", "document", "series", *_SERIES_FACTORS, "batch_size", "column", "value"),
    *("here", "here_low", "here_high", "here_n", "here_reason"),
]


def table(
    experiment: PlannedExperiment, tables: Mapping[str, pandas.DataFrame]
) -> pandas.DataFrame:
    """Returns one row per number of a document, with ours of the tables of the experiment."""
    rows, user_columns = [], []
    for figure, found in experiment.numbers.items():
        document = " ".join(experiment.keys.published[figure].figure.split())
        for series in found:
            named = long_tables.named(series.factors)
            known = {name: named[name] for name in _SERIES_FACTORS if named.get(name) is not None}
            if experiment.commands:
                known = {own_columns.named(name): value for name, value in series.factors.items()}
            user_columns += filter(own_columns.is_own, known)
            first = {"figure": figure, "document": document, "series": factor_words.describe(known)}
            for column, numbers in series.columns.items():
                for size, value in zip(series.batch_sizes, numbers, strict=True):
                    row = {**first, **known, "batch_size": size, "column": column, "value": value}
                    rows.append({**row, **beside(column, size, known, tables)})
    # Values as they are: a column with gaps would turn whole numbers into fractions.
    columns = [*COLUMNS, *dict.fromkeys(user_columns)]
    return pandas.DataFrame(rows, columns=columns, dtype=object)


def beside(
    column: str, size: int, factors: Mapping[str, Any], tables: Mapping[str, pandas.DataFrame]
) -> dict[str, Any]:
    """Returns our number of the same cell of a series, or why there is none."""
    frame = tables.get("runs", pandas.DataFrame())
    for factor in factors.keys() & {*frame}:  # what a table does not have is the same in all
        frame = frame[frame[factor] == factors[factor]]
    frame = run_series.own(frame)
    if frame.empty:
        return {"here_reason": Reason.NO_VALUE}
    frame = frame[frame["batch_size"] == size]
    if frame.empty:
        return {"here_reason": Reason.NOT_IN_GRID}
    finished = run_series.finished(frame)
    for name in OF_MACHINE.get(column, (column,)):
        if name in finished and finished[name].notna().any():
            return _here(finished[finished[name].notna()], name)
    return {"here_reason": Reason.NO_VALUE}


def factors_of(row: Mapping[str, Any]) -> dict[str, Any]:
    names = [*_SERIES_FACTORS, *filter(own_columns.is_own, row.keys())]
    return {name: row[name] for name in names if pandas.notna(row.get(name))}


def _here(rows: pandas.DataFrame, column: str) -> dict[str, Any]:
    """Returns a mean over seeds with its interval; of a time the median with its quartiles."""
    quartiles = [f"{column}_q1", f"{column}_q3"]
    if quartiles[0] in rows or "seed" not in rows:
        ends = rows.reindex(columns=[column, *quartiles]).drop_duplicates()
        if len(ends) > 1:
            return {"here_reason": Reason.SEVERAL}
        value, low, high = clipped(column, map(float, ends.iloc[0]))
        return {"here": value, "here_low": low, "here_high": high}
    if rows["seed"].duplicated().any():
        return {"here_reason": Reason.SEVERAL}
    found = intervals.t_interval(rows[column].astype(float))
    low, high = clipped(column, (found.low, found.high))
    known = {"here_low": low, "here_high": high} if math.isfinite(low) else {}
    return {"here": found.mean, **known, "here_n": found.n}
