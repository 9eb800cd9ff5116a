"""Timings over the timing jobs of a configuration, from a row for each of them.

A timing job is a process of its own: what differs between processes and between moments is seen
over jobs, and hardly at all within one. What follows from other columns, or from fits over batch
sizes, is made here for the rows of a job as for those over all jobs.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from typing import Any

import pandas
from pandas.api import types

from batchscope.analysis import intervals, step_cost
from batchscope.host import requirements
from batchscope.study.common_settings import QUARTILES, REPEAT
from batchscope.study.tables import FIRST, OF_TIMINGS

_QUARTILES = {"q1": 0.25, "q3": 0.75}
# What memory per example is read from, best first: what a process holds, its allocators keep.
_PEAKS = ("tensorflow_peak_mb", "gpu_memory_peak_mb", "memory_peak_mb")
_MEMORY = (*(f"memory_mb_per_image{end}" for end in intervals.ENDS), "memory_of")


def over_jobs(table: str, read: Callable[[str], pandas.DataFrame]) -> pandas.DataFrame:
    """Returns the rows of a table over all timing jobs of each configuration.

    Args:
        table: Name of the table; one without the column `repeat` stays as it is.
        read: Name of a table -> its rows.
    """
    rows = read(table)
    if REPEAT not in rows:
        return rows
    if table == "training_times":
        return training_times(over_jobs("throughput", read), rows["at_epoch"].unique())
    # A summary of all batch sizes has none.
    keys = [name for name in (*FIRST, "batch_size") if name in rows]
    counted = [name for name, column in OF_TIMINGS[table].columns.items() if column.adds_up]
    found = combined(rows.drop(columns=REPEAT), keys, counted)
    if len(found) == len(rows):  # each has a single job
        return found
    if table == "sweeps":
        found = _with_fits(found, read("throughput"))
    return derived(table, found)


def combined(
    rows: pandas.DataFrame, keys: Iterable[str], counted: Collection[str] = ()
) -> pandas.DataFrame:
    """Returns one row per configuration; rows of a single job stay as they are.

    Of several jobs a quantity has their median, and its quartiles where it has any; of whole
    numbers one that was seen, and of words the most frequent. Counts add up. The ends of the
    interval of a fit to one job are none over several.
    """
    keys = list(keys)
    if not rows.duplicated(keys).any():
        return rows
    others = rows.columns.drop(keys)
    found = []
    for _, jobs in rows.groupby(keys, sort=False, dropna=False):
        row = jobs.iloc[0].to_dict()
        if len(jobs) > 1:
            row |= {name: _over(rows[name], name, jobs, counted) for name in others}
        found.append(row)
    # What is missing of whole numbers, as where nothing was timed, would make their column objects.
    whole = [name for name in rows if rows[name].dtype == "Int64"]
    return pandas.DataFrame(found, columns=rows.columns).astype(dict.fromkeys(whole, "Int64"))


def _over(every: pandas.Series, name: str, jobs: pandas.DataFrame, counted: Collection[str]) -> Any:
    """Returns a column over several jobs, of the kind that `every` value of it is."""
    base, _, end = name.rpartition("_")
    if name in counted:
        return jobs[name].sum(min_count=1)
    if end in ("low", "high") and base in jobs:
        return None
    if end in _QUARTILES and base in jobs:
        return jobs[base].quantile(_QUARTILES[end])
    known = every.dropna()
    if types.is_bool_dtype(known) or not types.is_numeric_dtype(known):
        return next(iter(jobs[name].mode()), None)
    # A file with gaps among whole numbers has fractions.
    columns = (
        table[name] for table in (each.columns for each in OF_TIMINGS.values()) if name in table
    )
    whole = types.is_integer_dtype(known) or any(column.kind == "int" for column in columns)
    return jobs[name].quantile(interpolation="lower" if whole else "linear")


def derived(table: str, rows: pandas.DataFrame) -> pandas.DataFrame:
    derivations = {"throughput": _with_rates, "utilisation": _with_memory}
    return derivations[table](rows) if table in derivations else rows


def _with_rates(rows: pandas.DataFrame) -> pandas.DataFrame:
    """Adds the rates by the times of steps; quartiles change places."""
    sizes, rates = rows["batch_size"].astype(float), {}
    for quartile, inverse in zip(QUARTILES, ("", "_q3", "_q1"), strict=True):
        seconds = rows[f"seconds_per_step{inverse}"].astype(float)
        rates[f"iterations_per_second{quartile}"] = 1 / seconds
        rates[f"examples_per_second{quartile}"] = sizes / seconds
    rates["seconds_per_epoch"] = rows["train_examples"].astype(float) / rates["examples_per_second"]
    return rows.assign(**rates)


def _with_memory(rows: pandas.DataFrame) -> pandas.DataFrame:
    """Adds the memory per example, by the best count that resolves it."""
    rows = rows.assign(**dict.fromkeys(_MEMORY))
    keys = [name for name in ("machine", "sweep", REPEAT) if name in rows]
    for _, sweep in rows.groupby(keys):
        for column in _PEAKS:
            _, slope = step_cost.memory_per_image(sweep["batch_size"], sweep[column])
            if slope.low > 0:
                rows.loc[sweep.index, list(_MEMORY)] = [*slope, column]
                break
    return rows


def training_times(speeds: pandas.DataFrame, epochs: Iterable[int]) -> pandas.DataFrame:
    """Returns a row for each number of epochs and row of throughput that was timed."""
    timed = speeds[~speeds["status"].isin(requirements.LABELS)]
    steps = timed["train_examples"].astype(float) / timed["batch_size"].astype(float)
    times = {f"seconds_per_epoch{q}": steps * timed[f"seconds_per_step{q}"] for q in QUARTILES}
    rows = timed.assign(**times).merge(pandas.DataFrame({"at_epoch": [*epochs]}), how="cross")
    rows["train_seconds"] = rows["at_epoch"] * rows["seconds_per_epoch"]
    return rows[[name for name in (*FIRST, *OF_TIMINGS["training_times"].columns) if name in rows]]


def _with_fits(sweeps: pandas.DataFrame, speeds: pandas.DataFrame) -> pandas.DataFrame:
    """Returns summaries over jobs with the fits to the medians of all of them.

    Of two jobs or more; a size that not every one of them timed is in no line.
    """
    rows = sweeps.to_dict("records")
    for row in rows:
        same = speeds[(speeds["machine"] == row["machine"]) & (speeds["sweep"] == row["sweep"])]
        medians = same.pivot(index="batch_size", columns=REPEAT, values="seconds_per_step")
        medians = medians.dropna(axis=1, thresh=2).dropna()
        if min(medians.shape) > 1:
            row |= step_cost.summary(medians.index.to_numpy(), medians.to_numpy(float), True)
    return pandas.DataFrame(rows, columns=sweeps.columns)
