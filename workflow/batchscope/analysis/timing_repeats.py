"""Timings over the timing jobs of a configuration, from a row for each of them.

A timing job is a process of its own: differences between processes and between moments are seen
over jobs, and hardly at all within one. Columns that follow from other columns, or from fits over
batch sizes, are made here for the rows of a job and for those over all jobs.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from typing import Any

import pandas
from pandas.api import types

from batchscope.analysis import intervals, step_cost
from batchscope.host import requirements
from batchscope.study.common_settings import QUARTILES, REPEAT
from batchscope.study.tables import FIRST, TIMING_TABLES

_QUARTILES = {"q1": 0.25, "q3": 0.75}
# Sources of the memory per example, best first: allocators keep memory that a process has released.
_PEAKS = ("tensorflow_peak_mb", "gpu_memory_peak_mb", "memory_peak_mb")
_MEMORY = [*(f"memory_mb_per_image{end}" for end in intervals.ENDS), "memory_of"]


def over_jobs(table: str, read: Callable[[str], pandas.DataFrame]) -> pandas.DataFrame:
    """Return the rows of a table over all timing jobs of each configuration.

    Args:
        table: Name of the table; one without the column `repeat` stays as it is.
        read: Name of a table -> its rows.
    """
    rows = read(table)
    if REPEAT not in rows:
        return rows
    if table == "training_times":
        return training_times(over_jobs("throughput", read), rows["at_epoch"].unique())
    keys = [name for name in (*FIRST, "batch_size") if name in rows]
    counted = [name for name, column in TIMING_TABLES[table].columns.items() if column.adds_up]
    summaries = combined(rows.drop(columns=REPEAT), keys, counted)
    if len(summaries) == len(rows):  # each has a single job
        return summaries
    if table == "sweeps":
        summaries = _with_fits(summaries, read("throughput"))
    return derived(table, summaries)


def combined(
    rows: pandas.DataFrame, keys: Iterable[str], counted: Collection[str] = ()
) -> pandas.DataFrame:
    """Return one row per configuration; rows of a single job stay as they are.

    Over several jobs a quantity has their median and quartiles, counts their sum, texts the most
    frequent one. A median of whole numbers is one of them. The interval of a fit to a single job is
    left out.
    """
    keys = list(keys)
    if not rows.duplicated(keys).any():
        return rows
    measured = rows.columns.drop(keys)
    result = []
    for _, jobs in rows.groupby(keys, sort=False, dropna=False):
        row = jobs.iloc[0].to_dict()
        if len(jobs) > 1:
            row |= {name: _over(rows[name], name, jobs, counted) for name in measured}
        result.append(row)
    # Whole numbers keep their type if some are missing, as for a timing that did not run.
    integers = [name for name in rows if rows[name].dtype == "Int64"]
    return pandas.DataFrame(result, columns=rows.columns).astype(dict.fromkeys(integers, "Int64"))


def _over(
    column: pandas.Series, name: str, jobs: pandas.DataFrame, counted: Collection[str]
) -> Any:
    """Return a column of all configurations over the jobs of one."""
    base, _, end = name.rpartition("_")
    if name in counted:
        return jobs[name].sum(min_count=1)
    if end in ("low", "high") and base in jobs:
        return None
    if end in _QUARTILES and base in jobs:
        return jobs[base].quantile(_QUARTILES[end])
    values = column.dropna()
    if types.is_bool_dtype(values) or not types.is_numeric_dtype(values):
        return next(iter(jobs[name].mode()), None)
    # Whole numbers with gaps are read from a file as fractions.
    kinds = {table.columns[name].kind for table in TIMING_TABLES.values() if name in table.columns}
    is_integer = types.is_integer_dtype(values) or "int" in kinds
    return jobs[name].quantile(interpolation="lower" if is_integer else "linear")


def derived(table: str, rows: pandas.DataFrame) -> pandas.DataFrame:
    derivations = {"throughput": _with_rates, "utilisation": _with_memory}
    return derivations[table](rows) if table in derivations else rows


def _with_rates(rows: pandas.DataFrame) -> pandas.DataFrame:
    """Add the rates by the times of steps; quartiles change places."""
    sizes, rates = rows["batch_size"].astype(float), {}
    for quartile, inverse in zip(QUARTILES, ("", "_q3", "_q1"), strict=True):
        seconds = rows[f"seconds_per_step{inverse}"].astype(float)
        rates[f"iterations_per_second{quartile}"] = 1 / seconds
        rates[f"examples_per_second{quartile}"] = sizes / seconds
    rates["seconds_per_epoch"] = rows["train_examples"].astype(float) / rates["examples_per_second"]
    return rows.assign(**rates)


def _with_memory(rows: pandas.DataFrame) -> pandas.DataFrame:
    """Add the memory per example, by the best count that resolves it."""
    rows = rows.assign(**dict.fromkeys(_MEMORY))
    keys = [name for name in ("machine", "sweep", REPEAT) if name in rows]
    for _, sweep in rows.groupby(keys):
        for column in _PEAKS:
            _, slope = step_cost.memory_per_image(sweep["batch_size"], sweep[column])
            if slope.low > 0:
                rows.loc[sweep.index, _MEMORY] = [*slope[:3], column]
                break
    return rows


def training_times(speeds: pandas.DataFrame, epochs: Iterable[int]) -> pandas.DataFrame:
    """Return a row for each number of epochs and row of throughput that was timed."""
    timed = speeds[~speeds["status"].isin(requirements.LABELS)]
    steps = timed["train_examples"].astype(float) / timed["batch_size"].astype(float)
    times = {f"seconds_per_epoch{q}": steps * timed[f"seconds_per_step{q}"] for q in QUARTILES}
    rows = timed.assign(**times).merge(pandas.DataFrame({"at_epoch": [*epochs]}), how="cross")
    rows["train_seconds"] = rows["at_epoch"] * rows["seconds_per_epoch"]
    return rows[
        [name for name in (*FIRST, *TIMING_TABLES["training_times"].columns) if name in rows]
    ]


def _with_fits(sweeps: pandas.DataFrame, speeds: pandas.DataFrame) -> pandas.DataFrame:
    """Return summaries over jobs with the fits to the medians of all jobs, of two or more.

    A size that some job did not time is in no line.
    """
    rows = sweeps.to_dict("records")
    for row in rows:
        of_sweep = (speeds["machine"] == row["machine"]) & (speeds["sweep"] == row["sweep"])
        medians = speeds[of_sweep].pivot(
            index="batch_size", columns=REPEAT, values="seconds_per_step"
        )
        medians = medians.dropna(axis=1, thresh=2).dropna()
        if min(medians.shape) > 1:
            row |= step_cost.summary(medians.index.to_numpy(), medians.to_numpy(float), True)
    return pandas.DataFrame(rows, columns=sweeps.columns)
