"""Timings of an experiment: a column per configuration, and where throughput levels off."""

from __future__ import annotations

from typing import Any

import pandas

from batchscope.analysis import intervals, run_series, step_cost
from batchscope.core.display import Unit
from batchscope.host import requirements
from batchscope.report.text import estimate
from batchscope.study.tables import TIMING_TABLES, clipped

# Column of sweeps.csv with an interval -> factor to its unit on the page: seconds in ms.
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
    for series in run_series.series(sweeps.assign(batch_size=0, seed=0)):
        for _, row in series.frame.iterrows():
            timed = _configuration(row, series.label)
            is_left_out = timed["status"] in requirements.LABELS and row[_MEASURED].isna().all()
            (left_out if is_left_out else configurations).append(timed)
            if timed["level"]:
                levels[timed["level"]].append(timed["title"])
    return {
        "configurations": configurations,
        "left_out": left_out,
        "levels": [(level, titles) for level, titles in levels.items() if titles],
    }


def _configuration(row: pandas.Series, label: str) -> Row:
    """Return the values of a configuration, None without one, with estimates as texts."""
    timed = row.where(row.notna(), None).to_dict()
    for name, factor in _ESTIMATES.items():
        values = [float(row[name + end]) for end in intervals.ENDS]
        timed[name] = estimate(clipped(name, values), Unit(times=factor))
    timed["noisy"] = step_cost.too_noisy(timed["noise_floor"])
    timed["rising"] = str(timed["still_rising"]) == "True"
    levels_off = timed["knee_fitted"] or timed["knee_batch_size"]
    level = "rises" if timed["rising"] else "levels_off" if levels_off else ""
    timed["level"] = "noisy" if timed["noisy"] else level
    return {"title": label or f"{row['model']} on {row['dataset']}", **timed}
