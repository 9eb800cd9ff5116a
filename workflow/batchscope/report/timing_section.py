"""Timings of an experiment: a column per configuration, and where throughput levels off."""

from __future__ import annotations

import math
from typing import Any

import pandas

from batchscope.analysis import intervals, run_series, step_cost
from batchscope.host import requirements
from batchscope.report.text import estimate
from batchscope.study.tables import clipped
from batchscope.wording import Unit

_SIZES_SHOWN = 5  # batch sizes with their throughput
# Column of sweeps.csv with an interval -> factor to its shown unit: seconds in ms.
_ESTIMATES = {"knee_fitted": 1, "fixed_seconds": 1000, "seconds_per_image": 1000}
_MEASURED = ("by_size", "blocks", "memory_mb_per_image", "max_batch_size")
Row = dict[str, Any]


def build(sweeps: pandas.DataFrame, throughput: pandas.DataFrame) -> Row | None:
    """Return the timed configurations of sweeps.csv; None without any.

    A configuration with a missing requirement is in `left_out`.
    """
    configurations, left_out = [], []
    for group in run_series.series(sweeps.assign(batch_size=0, seed=0)) if len(sweeps) else ():
        for row in group.frame.to_dict("records"):
            timed = _configuration(row, group.label, throughput)
            waits = timed.get("status") in requirements.LABELS and not _is_measured(timed)
            (left_out if waits else configurations).append(timed)
    if not any(map(_is_measured, configurations)):
        return None
    levels: dict[str, list[str]] = {"levels_off": [], "rises": [], "noisy": []}
    for timed in configurations:
        if timed["level"]:
            levels[timed["level"]].append(timed["title"])
    return {
        "configurations": configurations,
        "left_out": left_out,
        "levels": [(level, titles) for level, titles in levels.items() if titles],
    }


def _is_measured(timed: Row) -> bool:
    return any(name in timed for name in _MEASURED)


def _configuration(row: Row, label: str, throughput: pandas.DataFrame) -> Row:
    """Return the known values of a configuration, with estimates as texts."""
    timed = {name: value for name, value in row.items() if not pandas.isna(value)}
    timed["fits"] = all(timed.get(name, 0) > 0 for name in ("fixed_seconds", "seconds_per_image"))
    for name, factor in _ESTIMATES.items():
        values = [float(timed.get(name + end, math.nan)) for end in intervals.ENDS]
        timed[name] = estimate(clipped(name, values), Unit(times=factor))
    timed["noisy"] = step_cost.too_noisy(timed.get("noise_floor"))
    timed["rising"] = str(row.get("still_rising")) == "True"
    levels_off = timed["knee_fitted"] or "knee_batch_size" in timed
    timed["level"] = "rises" if timed["rising"] else "levels_off" if levels_off else ""
    timed["level"] = "noisy" if timed["noisy"] else timed["level"]
    same = throughput["machine"].eq(row["machine"]) & throughput["sweep"].eq(row["sweep"])
    speeds = throughput[same].set_index("batch_size")["examples_per_second"].dropna().sort_index()
    if len(speeds):
        at = {round((len(speeds) - 1) * i / (_SIZES_SHOWN - 1)) for i in range(_SIZES_SHOWN)}
        timed["by_size"] = list(speeds.iloc[sorted(at)].items())
    return {"title": label or f"{row['model']} on {row['dataset']}", **timed}
