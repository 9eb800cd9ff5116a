"""Every batch size that was tried against the memory that it took, and the largest that fits."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pandas
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from batchscope import wording
from batchscope.figures import FigureTables
from batchscope.figures.drawing import canvas, timings
from batchscope.store.records import FITS, OUT_OF_MEMORY
from batchscope.study import run_factors, specifications

_MOST_FITS = "most_fits"  # the search ended at the largest size that it may try
_OTHER: dict[str, Any] = {"color": canvas.MUTED, "marker": "*"}
_OUTCOMES: dict[str, dict[str, Any]] = {
    FITS: {"color": canvas.INK, "marker": "o"},
    OUT_OF_MEMORY: {"color": canvas.FAILED_COLOUR, "marker": "X"},
    "over_limit": {"color": canvas.FAILED_COLOUR, "marker": "s"},
    "killed": {"color": canvas.FAILED_COLOUR, "marker": "v"},
}
_LIMIT: dict[str, Any] = {"color": canvas.INK, "linewidth": 1.2, "linestyle": (0, (5, 2))}
_FIT: dict[str, Any] = {"color": canvas.MUTED, "linewidth": 1.3, "linestyle": "-"}
_LARGEST: dict[str, Any] = {"color": canvas.INK, "marker": "o", "markersize": 11}
_LARGEST |= {"fillstyle": "none", "linestyle": "none"}
_LINE = ("memory_fixed_mb", "memory_mb_per_image")
_SUMMARY = ["max_batch_size", "max_batch_size_bound", "memory_limit_mb", *_LINE]
_MOST_PANELS = 6


def select(tables: FigureTables, spec: specifications.Figure) -> pandas.DataFrame:
    """Returns one row per series and try: its outcome and memory, beside what the search found."""
    tries, summaries = getattr(tables, spec.table), tables.sweeps
    if tries.empty:
        return tries
    columns = [*timings.factor_columns(tries), "batch_size", "outcome", "peak_mb", *spec.columns]
    frame = tries[list(dict.fromkeys(columns))].reset_index(drop=True)
    # Every loop of a configuration repeats what its search found: memory does not depend on it.
    names = ("machine", *run_factors.FACTORS, "dataset_digest", "model_digest")
    keys = [name for name in names if name in tries and name != "batch_size"]
    found = summaries[summaries["max_batch_size"].notna()].drop_duplicates(keys)
    # As texts, since the tables may type a column unlike.
    theirs, ours = ([_text(row) for row in each[keys].to_numpy()] for each in (found, tries))
    beside = found.set_axis(theirs)[_SUMMARY].reindex(ours).reset_index(drop=True)
    return pandas.concat([frame, beside], axis=1)


def _text(values: np.ndarray) -> str:
    return " ".join(str(each if isinstance(each, str) else float(each)) for each in values)


def draw(frame: pandas.DataFrame, _: specifications.Figure) -> Figure:
    """Returns the figure: one panel for each series."""
    groups = timings.series(frame)[:_MOST_PANELS]
    figure, grid = canvas.panels(len(groups), 0, 5.2 if len(groups) == 1 else 4.0, 3.1)
    for axes, group in zip(grid, groups, strict=True):
        canvas.title(axes, wording.capital(group.label) or "Batch sizes tried")
        _draw_panel(axes, group.frame)
    handles = [
        ({"linestyle": "none", **_OUTCOMES.get(each, _OTHER)}, each.replace("_", " "))
        for each in dict.fromkeys([*_OUTCOMES, *frame["outcome"]])
        if (frame["outcome"] == each).any()
    ]
    handles.append((_LARGEST, "largest that fits"))
    for column, look, label in (("memory_limit_mb", _LIMIT, "limit"), (_LINE[1], _FIT, "fit")):
        handles += [(look, label)] if frame[column].notna().any() else []
    canvas.legend(figure, handles)
    return figure


def _draw_panel(axes: Axes, rows: pandas.DataFrame) -> None:
    limit, largest = (timings.one(rows, name) for name in ("memory_limit_mb", "max_batch_size"))
    canvas.batch_size_axis(axes, sorted({int(size) for size in rows["batch_size"]}), room=0.1)
    axes.set_ylabel("peak memory (MB)")
    peaks = rows["peak_mb"].to_numpy(float)
    timings.value_axis(axes, [np.append(peaks, limit)])
    bottom, top = axes.get_ylim()
    if math.isfinite(limit):
        axes.axhline(limit, zorder=1, **_LIMIT)
    fixed, each = (timings.one(rows, name) for name in _LINE)
    if math.isfinite(fixed + each):
        grid = np.geomspace(rows["batch_size"].min(), rows["batch_size"].max(), 60)
        axes.plot(np.log2(grid), fixed + each * grid, zorder=2, **_FIT)
    axes.set_ylim(bottom, top)
    # A try of unknown memory stands at the upper edge.
    rows = rows.assign(height=np.where(np.isfinite(peaks), peaks, top))
    for outcome, tried in rows.groupby("outcome", sort=False):
        look = {**canvas.EDGED, "linestyle": "none", "markersize": 5.5, "clip_on": False}
        look |= {"zorder": 4, **_OUTCOMES.get(outcome, _OTHER)}
        axes.plot(np.log2(tried["batch_size"].astype(float)), tried["height"], **look)
    found = rows[rows["batch_size"].eq(largest) & rows["outcome"].eq(FITS)]
    if len(found):
        place = (math.log2(largest), found["height"].iloc[0])
        axes.plot(*place, zorder=5, **_LARGEST)
        more = " or more" if (rows["max_batch_size_bound"] == _MOST_FITS).any() else ""
        look = {"ha": "right", "fontsize": 8.5, "fontweight": "bold"}
        canvas.annotate(axes, f"{int(largest)}{more}", place, (5, -18), **look)
