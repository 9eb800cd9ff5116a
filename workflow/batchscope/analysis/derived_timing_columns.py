"""Rows of a timing table in, the same rows out with the columns that follow from other columns.

These are rates, times of trainings and the memory per example. They are added to the rows of a job
(`tables.timing_tables`) and to the rows over all jobs (`timing_repeats`). A new derived column goes
into one of the functions below; a measured one is declared in the module of its timing.
"""

from __future__ import annotations

from collections.abc import Iterable

import pandas

from batchscope.analysis import intervals, step_cost
from batchscope.host import requirements
from batchscope.study.tables import TIMING_FIRST_COLUMNS, TIMING_TABLES
from batchscope.study.timing_columns import QUARTILE_SUFFIXES, REPEAT_COLUMN

# Sources of the memory per example, best first. The others include memory that was released, but
# that an allocator keeps.
_PEAKS = ("tensorflow_peak_mb", "gpu_memory_peak_mb", "memory_peak_mb")
_MEMORY = [*(f"memory_mb_per_image{end}" for end in intervals.SUFFIXES), "memory_of"]


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
