"""published.csv: published values of documents -> each with the value of the same cell here."""

import itertools
import math
from collections.abc import Mapping
from typing import Any

import pandas

from batchscope.analysis import intervals, run_series
from batchscope.study import factor_maps, log_format, run_factors
from batchscope.study.outcomes import Reason
from batchscope.study.plan import PlannedExperiment
from batchscope.study.table_entries import clipped_to_range

# Column of a document -> columns of runs.csv. The first column with values is compared.
MACHINE_COLUMNS = {
    "utilisation_percent": ("gpu_percent", "process_percent"),
    "memory_mb": ("gpu_memory_peak_mb", "memory_peak_mb"),
}
_SERIES_FACTORS = [name for name in run_factors.EVERY_FACTOR if name not in ("batch_size", "seed")]
PUBLISHED_COLUMNS = [
    *("figure", "document", "series", *_SERIES_FACTORS, "batch_size", "column", "value"),
    *("here", "here_low", "here_high", "here_n", "here_reason"),
]


def table(experiment: PlannedExperiment, runs: pandas.DataFrame) -> pandas.DataFrame:
    """Return one row for each published value of an experiment, from runs.csv."""
    rows, user_columns = [], []
    for figure, body in experiment.keys.published.items():
        document = " ".join(body.figure.split())
        for series in body.numbers:
            stated = series.factors
            if experiment.commands:
                stated = dict(itertools.starmap(_command_column, stated.items()))
            factors = series_factors(stated)
            user_columns += filter(log_format.is_user_defined, factors)
            first = {"figure": figure, "document": document, **factors}
            first["series"] = factor_maps.describe(factors)
            for column, values in series.columns.items():
                for size, value in zip(series.batch_sizes, values, strict=True):
                    row = {**first, "batch_size": size, "column": column, "value": value}
                    rows.append({**row, **measured_value(column, size, factors, runs)})
    # With dtype object, a column with gaps keeps its whole numbers.
    columns = [*PUBLISHED_COLUMNS, *dict.fromkeys(user_columns)]
    return pandas.DataFrame(rows, columns=columns, dtype=object)


def _command_column(factor: str, value: Any) -> tuple[str, Any]:
    """Return the name and the value of a factor of a command as runs.csv has them."""
    name = log_format.prefixed_name(factor)
    is_text = isinstance(value, bool) and log_format.is_user_defined(name)
    return name, factor_maps.argument_text(value) if is_text else value


def measured_value(
    column: str, size: int, factors: Mapping[str, Any], runs: pandas.DataFrame
) -> dict[str, Any]:
    """Return the value of this study for a cell of a series, or the reason why it has none."""
    known_factors = {name: value for name, value in factors.items() if name in runs}
    frame = run_series.of_this_machine(run_series.rows_with_factors(runs, known_factors))
    if frame.empty:
        return {"here_reason": Reason.NO_VALUE}
    frame = frame[frame["batch_size"] == size]
    if frame.empty:
        return {"here_reason": Reason.NOT_IN_GRID}
    finished = run_series.finished_runs(frame)
    for name in MACHINE_COLUMNS.get(column, (column,)):
        if name in finished and finished[name].notna().any():
            return _mean(finished[finished[name].notna()], name)
    return {"here_reason": Reason.NO_VALUE}


def series_factors(row: Mapping[str, Any]) -> dict[str, Any]:
    names = [*_SERIES_FACTORS, *filter(log_format.is_user_defined, row.keys())]
    return {name: row[name] for name in names if pandas.notna(row.get(name))}


def _mean(rows: pandas.DataFrame, column: str) -> dict[str, Any]:
    """Return the mean over seeds with its interval; of a single timing, its quartiles."""
    quartiles = [f"{column}_q1", f"{column}_q3"]
    rows = rows.drop_duplicates(["seed", column])  # Learning rates share a timing.
    if len(rows) == 1 and quartiles[0] in rows:
        value, low, high = clipped_to_range(column, map(float, rows[[column, *quartiles]].iloc[0]))
        return {"here": value, "here_low": low, "here_high": high}
    if rows["seed"].duplicated().any():
        return {"here_reason": Reason.SEVERAL}
    interval = intervals.t_interval(rows[column].astype(float))
    low, high = clipped_to_range(column, (interval.low, interval.high))
    ends = {"here_low": low, "here_high": high} if math.isfinite(low) else {}
    return {"here": interval.mean, **ends, "here_n": interval.n}
