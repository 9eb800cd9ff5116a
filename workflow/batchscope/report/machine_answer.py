"""What a timing experiment found of each configuration; machine.html.j2 has the words."""

from __future__ import annotations

import math
from typing import Any

import pandas

from batchscope.analysis import intervals, run_series, step_cost
from batchscope.catalogue import value_ranges
from batchscope.host import absence
from batchscope.report.text import format_interval

_MOST_SIZES = 5  # batch sizes whose throughput is listed
# Column of sweeps.csv with an interval -> what it is shown times: seconds in ms.
_ESTIMATES = {"knee_fitted": 1, "fixed_seconds": 1000, "seconds_per_image": 1000}
_MEASURED = ("by_size", "blocks", "memory_mb_per_image", "max_batch_size")


def build(frame: pandas.DataFrame, throughput: pandas.DataFrame) -> dict[str, Any] | None:
    """Returns what is known of each configuration, as sweeps.csv has it; None where nothing is.

    A configuration that waits for what is not here is among `left_out` alone.
    """
    found: list[dict[str, Any]] = []
    if len(frame):
        for group in run_series.series(frame.assign(batch_size=0, seed=0)):
            found += [
                _known(row, group.label, throughput) for row in group.frame.to_dict("records")
            ]
    measured = [each for each in found if not each.keys().isdisjoint(_MEASURED)]
    waiting = [
        each for each in found if each not in measured and each.get("status") in absence.WORDS
    ]
    kept = [each for each in found if each not in waiting]
    return {"configurations": kept, "left_out": waiting} if measured else None


def _known(row: dict[str, Any], label: str, throughput: pandas.DataFrame) -> dict[str, Any]:
    """Returns what is known of a configuration: numbers with an interval as estimates."""
    known = {name: value for name, value in row.items() if not pandas.isna(value)}
    known["fits"] = all(known.get(name, 0) > 0 for name in ("fixed_seconds", "seconds_per_image"))
    for name, times in _ESTIMATES.items():
        values = [float(known.get(name + end, math.nan)) for end in intervals.ENDS]
        shown = (times * each for each in value_ranges.clipped(name, values))
        known[name] = format_interval(*shown)
    known["noisy"] = step_cost.too_noisy(known.get("noise_floor"))
    known["rising"] = str(row.get("still_rising")) == "True"
    same = throughput["machine"].eq(row["machine"]) & throughput["sweep"].eq(row["sweep"])
    speeds = throughput[same].set_index("batch_size")["images_per_second"].dropna().sort_index()
    places = {round((len(speeds) - 1) * part / (_MOST_SIZES - 1)) for part in range(_MOST_SIZES)}
    if len(speeds):
        known["by_size"] = list(speeds.iloc[sorted(places)].items())
    return {"title": label or f"{row['model']} on {row['dataset']}", **known}
