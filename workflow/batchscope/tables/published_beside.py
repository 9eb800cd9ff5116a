"""What stands beside a document's number: our mean or median of the same cell, or why none does."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import pandas

from batchscope.analysis import intervals, run_series
from batchscope.catalogue import value_ranges
from batchscope.catalogue.outcomes import Reason

# Column of a document -> table and, by device, column there, where it is none of runs.csv.
_TIMED = {
    "utilisation_percent": ("utilisation", {"cpu": "process_percent", "gpu": "gpu_percent"}),
    "memory_mb": ("utilisation", {"cpu": "memory_peak_mb", "gpu": "gpu_memory_peak_mb"}),
    "images_per_second": ("throughput", {}),
}
COLUMNS = {
    "here": "Ours: the mean over seeds, or of a time, a utilisation or a throughput the median.",
    "here_low": "Lower end of its 95 % t-interval, or the lower quartile.",
    "here_high": "Upper end, or quartile.",
    "here_n": "Seeds with a value; empty of a median.",
    "here_reason": "Why there is none.",
}


def of(
    row: Mapping[str, Any], factors: Mapping[str, Any], tables: Mapping[str, pandas.DataFrame]
) -> dict[str, Any]:
    """Returns the columns beside a row of published.csv, whose series the factors name."""
    name, by_device = _TIMED.get(row["column"], ("runs", {}))
    frame = tables.get(name, pandas.DataFrame())
    if name != "runs" and frame.empty:
        name, frame, by_device = "runs", tables.get("runs", frame), {}
    for factor, value in factors.items():
        if factor in frame:  # what a table does not have is the same in all
            frame = frame[frame[factor] == value]
    frame = run_series.own(frame)
    if frame.empty:
        return {"here_reason": Reason.NO_VALUE}
    frame = frame[frame["batch_size"] == row["batch_size"]]
    if frame.empty:
        return {"here_reason": Reason.NOT_IN_GRID}
    column = by_device.get(frame["device"].iloc[0], row["column"])
    if column not in frame:
        return {"here_reason": Reason.NO_VALUE}
    frame = run_series.finished(frame)
    return _here(frame[frame[column].notna()], column)


def _here(rows: pandas.DataFrame, column: str) -> dict[str, Any]:
    if rows.empty:
        return {"here_reason": Reason.NO_VALUE}
    quartiles = [f"{column}_q1", f"{column}_q3"]
    if quartiles[0] in rows or "seed" not in rows:
        ends = rows.reindex(columns=[column, *quartiles]).drop_duplicates()
        if len(ends) > 1:
            return {"here_reason": Reason.SEVERAL}
        value, low, high = value_ranges.clipped(column, map(float, ends.iloc[0]))
        return {"here": value, "here_low": low, "here_high": high}
    if rows["seed"].duplicated().any():
        return {"here_reason": Reason.SEVERAL}
    found = intervals.t_interval(rows[column].astype(float))
    low, high = value_ranges.clipped(column, (found.low, found.high))
    known = {"here_low": low, "here_high": high} if math.isfinite(low) else {}
    return {"here": found.mean, **known, "here_n": found.n}
