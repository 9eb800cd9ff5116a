"""The section of timings: rows of sweeps.csv -> a column per configuration, and its throughput."""

from __future__ import annotations

from typing import Any

import pandas

from batchscope.analysis import intervals, run_series, throughput_knee
from batchscope.core.display import Unit
from batchscope.host import requirements
from batchscope.report.text import estimate
from batchscope.study.tables import TIMING_TABLES, clipped_to_range

# Column of sweeps.csv with an interval -> multiple for its unit on the page: seconds in ms.
_ESTIMATES = {"knee_fitted": 1, "fixed_seconds": 1000, "seconds_per_image": 1000}
_MEASURED = ["blocks", "memory_mb_per_image", "max_batch_size"]
Row = dict[str, Any]


def build(sweeps: pandas.DataFrame) -> Row | None:
    """Return the timed configurations of sweeps.csv; None without any.

    A configuration with a missing requirement is in `left_out`.
    """
    sweeps = sweeps.reindex(columns=[*dict.fromkeys([*sweeps, *TIMING_TABLES["sweeps"].columns])])
    if sweeps[_MEASURED].isna().all(axis=None):
        return None
    configurations, left_out = [], []
    levels: dict[str, list[str]] = {"levels_off": [], "rises": [], "noisy": []}
    for series in run_series.split_series(sweeps.assign(batch_size=0, seed=0)):
        for _, row in series.frame.iterrows():
            values = _configuration(row, series.label)
            is_left_out = values["status"] in requirements.LABELS and row[_MEASURED].isna().all()
            (left_out if is_left_out else configurations).append(values)
            if values["level"]:
                levels[values["level"]].append(values["title"])
    return {
        "configurations": configurations,
        "left_out": left_out,
        "levels": [(level, titles) for level, titles in levels.items() if titles],
    }


def _configuration(row: pandas.Series, label: str) -> Row:
    """Return the values of a configuration with estimates as text; a missing value is None."""
    values = row.where(row.notna(), None).to_dict()
    for name, multiple in _ESTIMATES.items():
        numbers = [float(row[name + end]) for end in intervals.SUFFIXES]
        values[name] = estimate(clipped_to_range(name, numbers), Unit(times=multiple))
    values["noisy"] = throughput_knee.is_too_noisy(values["noise_floor"])
    values["rising"] = str(values["still_rising"]) == "True"
    levels_off = values["knee_fitted"] or values["knee_batch_size"]
    level = "rises" if values["rising"] else "levels_off" if levels_off else ""
    values["level"] = "noisy" if values["noisy"] else level
    return {"title": label or f"{row['model']} on {row['dataset']}", **values}
