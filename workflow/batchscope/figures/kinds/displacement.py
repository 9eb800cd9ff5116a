"""Fewer or smaller updates: what their number, norm and straightness add to the distance."""

from __future__ import annotations

import pandas
from matplotlib.figure import Figure

from batchscope.analysis import run_series
from batchscope.catalogue import entries
from batchscope.figures import Tables, rows
from batchscope.figures.drawing import canvas
from batchscope.figures.kinds import against_batch_size

_WHOLE = "distance"


def select(tables: Tables, spec: entries.Figure) -> pandas.DataFrame:
    """Returns one row per run: each part in doublings from the smallest batch size, and their sum.

    log distance = log updates + log mean norm + log straightness, for every run; paired by seed.
    """
    parts = [panel.column for panel in spec.panels if panel.column != _WHOLE]
    if not {*parts} <= {*tables.runs}:
        return pandas.DataFrame()
    frame = rows.only(tables.runs, parts)
    found = [run_series.doublings(each.frame, parts, _WHOLE) for each in run_series.series(frame)]
    failed = frame[frame["status"] != canvas.FINISHED]
    failed = failed.assign(**dict.fromkeys([*parts, _WHOLE], float("nan")))
    kept = [each for each in (*found, failed) if len(each)]
    if not kept or pandas.concat(found)["batch_size"].nunique() < 2:
        return pandas.DataFrame()
    return rows.shown(pandas.concat(kept).sort_index().reset_index(drop=True), spec)


def draw(frame: pandas.DataFrame, spec: entries.Figure) -> Figure:
    """Returns the figure: all panels on one axis, since they add up."""
    figure = against_batch_size.draw(frame, spec)
    low, high = zip(*(axes.dataLim.intervaly for axes in figure.axes), strict=True)
    margin = 0.06 * (max(high) - min(low))
    for axes in figure.axes:
        axes.set_ylim(min(low) - margin, max(high) + margin)
        axes.axhline(0.0, color=canvas.MUTED, linewidth=0.8, zorder=1)
    return figure
