"""Timing tables: columns that follow from others, and one row per configuration over its jobs.

The derived columns are rates, times of trainings and the memory per example. They are added to the
rows of a timing job (`tables.timing_tables`) and to the rows over all jobs. How another column is
aggregated over jobs is decided in `_aggregated_value`. A new derived column goes into one of the
functions that `with_derived_columns` calls; a measured one is declared in the module of its timing.
"""

from collections.abc import Callable, Collection, Iterable
from typing import Any

import pandas
from pandas.api import types

from batchscope.analysis import intervals, step_cost
from batchscope.host import requirements
from batchscope.study.specifications import QUARTILE_SUFFIXES, REPEAT_COLUMN
from batchscope.study.table_entries import TIMING_FIRST_COLUMNS, TIMING_TABLES

_QUARTILES = {"q1": 0.25, "q3": 0.75}
# Sources of the memory per example, best first. The others include memory that was released, but
# that an allocator keeps.
_PEAKS = ("tensorflow_peak_mb", "gpu_memory_peak_mb", "memory_peak_mb")
_MEMORY = [*(f"memory_mb_per_image{end}" for end in intervals.SUFFIXES), "memory_of"]


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
        return training_times(speeds, rows["at_epoch"].unique())
    keys = [name for name in (*TIMING_FIRST_COLUMNS, "batch_size") if name in rows]
    counted = [name for name, column in TIMING_TABLES[table].columns.items() if column.adds_up]
    summaries = one_row_per_configuration(rows.drop(columns=REPEAT_COLUMN), keys, counted)
    if len(summaries) == len(rows):  # each configuration has a single job
        return summaries
    if table == "sweeps":
        summaries = _with_fits(summaries, read_rows("throughput"))
    return with_derived_columns(table, summaries)


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
    integers = {name: "Int64" for name in rows if rows[name].dtype == "Int64"}
    return pandas.DataFrame(summaries, columns=rows.columns).astype(integers)


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
            row |= step_cost.summary_columns(sizes, times, of_jobs=True)
    return pandas.DataFrame(rows, columns=sweeps.columns)


def with_derived_columns(table: str, rows: pandas.DataFrame) -> pandas.DataFrame:
    derivations = {"throughput": _with_rates, "utilisation": _with_memory}
    return derivations[table](rows) if table in derivations else rows


def _with_rates(rows: pandas.DataFrame) -> pandas.DataFrame:
    """Add rates, the inverse of times. The quartiles of a rate and of its time change places."""
    sizes, rates = rows["batch_size"].astype(float), {}
    for quartile, inverse in zip(QUARTILE_SUFFIXES, ("", "_q3", "_q1"), strict=True):
        seconds = rows[f"seconds_per_step{inverse}"].astype(float)
        rates[f"iterations_per_second{quartile}"] = 1 / seconds
        rates[f"examples_per_second{quartile}"] = sizes / seconds
    rates["seconds_per_epoch"] = rows["train_examples"].astype(float) / rates["examples_per_second"]
    return rows.assign(**rates)


def _with_memory(rows: pandas.DataFrame) -> pandas.DataFrame:
    """Add the memory per example, from the best source that resolves it."""
    rows = rows.assign(**dict.fromkeys(_MEMORY))
    keys = [name for name in ("machine", "sweep", REPEAT_COLUMN) if name in rows]
    for _, sweep in rows.groupby(keys):
        for column in _PEAKS:
            _, slope = step_cost.memory_line(sweep["batch_size"], sweep[column])
            if slope.low > 0:
                rows.loc[sweep.index, _MEMORY] = [*slope[:3], column]
                break
    return rows


def training_times(speeds: pandas.DataFrame, epochs: Iterable[int]) -> pandas.DataFrame:
    """Return one row per number of epochs and timed row of throughput.csv."""
    timed = speeds[~speeds["status"].isin(requirements.LABELS)]
    steps = timed["train_examples"].astype(float) / timed["batch_size"].astype(float)
    times = {
        f"seconds_per_epoch{quartile}": steps * timed[f"seconds_per_step{quartile}"]
        for quartile in QUARTILE_SUFFIXES
    }
    rows = timed.assign(**times).merge(pandas.DataFrame({"at_epoch": [*epochs]}), how="cross")
    rows["train_seconds"] = rows["at_epoch"] * rows["seconds_per_epoch"]
    columns = (*TIMING_FIRST_COLUMNS, *TIMING_TABLES["training_times"].columns)
    return rows[[name for name in columns if name in rows]]
