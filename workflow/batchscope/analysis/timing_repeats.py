"""Timing tables with a row per timing job in, the same tables with a row per configuration out.

How a new column is aggregated is decided in `_aggregated_value`. Columns that follow from others
are computed by `derived_timing_columns`.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from typing import Any

import pandas
from pandas.api import types

from batchscope.analysis import derived_timing_columns, throughput_knee
from batchscope.study.tables import TIMING_FIRST_COLUMNS, TIMING_TABLES
from batchscope.study.timing_columns import REPEAT_COLUMN

_QUARTILES = {"q1": 0.25, "q3": 0.75}


def table_over_jobs(table: str, read_rows: Callable[[str], pandas.DataFrame]) -> pandas.DataFrame:
    """Return the rows of a table, aggregated over the timing jobs of each configuration.

    Args:
        table: Name of the table. A table without the column `repeat` stays as it is.
        read_rows: Returns the rows of a table by its name.
    """
    rows = read_rows(table)
    if REPEAT_COLUMN not in rows:
        return rows
    if table == "training_times":
        speeds = table_over_jobs("throughput", read_rows)
        return derived_timing_columns.training_times(speeds, rows["at_epoch"].unique())
    keys = [name for name in (*TIMING_FIRST_COLUMNS, "batch_size") if name in rows]
    counted = [name for name, column in TIMING_TABLES[table].columns.items() if column.adds_up]
    summaries = one_row_per_configuration(rows.drop(columns=REPEAT_COLUMN), keys, counted)
    if len(summaries) == len(rows):  # each configuration has a single job
        return summaries
    if table == "sweeps":
        summaries = _with_fits(summaries, read_rows("throughput"))
    return derived_timing_columns.with_derived_columns(table, summaries)


def one_row_per_configuration(
    rows: pandas.DataFrame, keys: Iterable[str], counted: Collection[str] = ()
) -> pandas.DataFrame:
    """Return one row per configuration, aggregated over its jobs (see `_aggregated_value`).

    `keys` distinguish configurations, and `counted` columns are added up.
    """
    keys = list(keys)
    if not rows.duplicated(keys).any():
        return rows
    measured = rows.columns.drop(keys)
    summaries = []
    for _, jobs in rows.groupby(keys, sort=False, dropna=False):
        row = jobs.iloc[0].to_dict()
        if len(jobs) > 1:
            row |= {name: _aggregated_value(rows[name], jobs, counted) for name in measured}
        summaries.append(row)
    # Whole numbers keep their type if some are missing, as for a timing that did not run.
    integers = [name for name in rows if rows[name].dtype == "Int64"]
    return pandas.DataFrame(summaries, columns=rows.columns).astype(
        dict.fromkeys(integers, "Int64")
    )


def _aggregated_value(
    column: pandas.Series, jobs: pandas.DataFrame, counted: Collection[str]
) -> Any:
    """Return the value of a column over the jobs of one configuration.

    A quantity has the median, and the quartiles of its values; the median of whole numbers is one
    of them. Counts have their sum, and texts the most frequent one. The interval of a fit to a
    single job is left out. `column`, of all configurations, decides about the type.
    """
    name = column.name
    base, _, suffix = name.rpartition("_")
    if name in counted:
        return jobs[name].sum(min_count=1)
    if suffix in ("low", "high") and base in jobs:
        return None
    if suffix in _QUARTILES and base in jobs:
        return jobs[base].quantile(_QUARTILES[suffix])
    values = column.dropna()
    if types.is_bool_dtype(values) or not types.is_numeric_dtype(values):
        return next(iter(jobs[name].mode()), None)
    # Whole numbers with missing values are read from a file as floats.
    kinds = {table.columns[name].kind for table in TIMING_TABLES.values() if name in table.columns}
    is_integer = types.is_integer_dtype(values) or "int" in kinds
    return jobs[name].quantile(interpolation="lower" if is_integer else "linear")


def _with_fits(sweeps: pandas.DataFrame, speeds: pandas.DataFrame) -> pandas.DataFrame:
    """Return the rows of sweeps with fits to the median times that two or more jobs share."""
    rows = sweeps.to_dict("records")
    for row in rows:
        in_sweep = (speeds["machine"] == row["machine"]) & (speeds["sweep"] == row["sweep"])
        medians = speeds[in_sweep].pivot(
            index="batch_size", columns=REPEAT_COLUMN, values="seconds_per_step"
        )
        # A fit needs two batch sizes that the same two or more jobs timed.
        medians = medians.dropna(axis=1, thresh=2).dropna()
        if min(medians.shape) > 1:
            sizes, times = medians.index.to_numpy(), medians.to_numpy(float)
            row |= throughput_knee.summary_columns(sizes, times, of_jobs=True)
    return pandas.DataFrame(rows, columns=sweeps.columns)
