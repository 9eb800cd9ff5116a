"""Updates, examples and seconds to a target against batch size, with what was fitted to them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import pandas
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch

from batchscope import wording
from batchscope.analysis import (
    critical_batch_size,
    fastest_batch_size,
    noise_scales,
    run_series,
    to_target_tables,
)
from batchscope.catalogue import entries
from batchscope.figures import Tables
from batchscope.figures.drawing import canvas
from batchscope.figures.drawing.to_target import Panel, panels

_MOST_ROWS = 6  # beyond them the last target of each series alone
_CRITICAL, _FASTEST, _NOISE, _HALF = "#D55E00", "#009E73", "#CC79A7", "#E69F00"
_SHADES = {critical_batch_size.PERFECT: "#0072B2", critical_batch_size.MAXIMAL: "#D55E00"}
_WITHIN = ("within 10 % of its time", _FASTEST)
_SHADE = {"alpha": 0.12, "linewidth": 0}
_SEED = {"color": canvas.MUTED, "marker": ".", "markersize": 6, "linestyle": "none"}
_MEAN = {"color": canvas.INK, "marker": "s", "markersize": 5, "linestyle": "none"}
_CURVE = {"color": canvas.INK, "linewidth": 1.2}
_CONSTANTS = ("updates_min", "examples_min", "fixed_seconds", "seconds_per_image")
_POINTS = 40  # of a curve


class Mark(NamedTuple):
    """A batch size with its interval, at the foot of a panel: how it is found and drawn."""

    column: str
    label: str
    colour: str
    marker: str


_MARKS = {
    "updates": (
        Mark("critical_batch_size", "critical batch size", _CRITICAL, "D"),
        Mark("noise_scale_start", "noise scale, start", _NOISE, "o"),
        Mark("noise_scale_end", "noise scale, end", _NOISE, "s"),
    ),
    "examples": (Mark("critical_batch_size", "critical batch size", _CRITICAL, "D"),),
    "seconds": (
        Mark("fastest_batch_size", "fastest batch size", _FASTEST, "D"),
        Mark("half_batch", "half of a step is fixed cost", _HALF, "^"),
    ),
}


def select(tables: Tables, spec: entries.Figure) -> pandas.DataFrame:
    """Returns one row per series, target, batch size and seed, beside what was fitted to them."""
    frame = to_target_tables.joined(tables.critical_batch_size, tables.to_target)
    axes = [panel.column for panel in spec.panels]
    if frame.empty or not frame[axes].notna().any(axis=None):
        return frame.iloc[:0]
    if "updates" in axes:
        frame = pandas.concat(
            noise_scales.beside(panel.rows, tables.runs) for panel in panels(frame)
        )
    return frame


def draw(frame: pandas.DataFrame, spec: entries.Figure) -> Figure:
    """Returns the figure: a row for each series and target.

    Of many it is the last target of each series, of those that have a fit.
    """
    every = panels(frame)
    last: dict[str, Panel] = {}
    for panel in every:
        key = str(panel.factors)
        if key not in last or panel.points or not last[key].points:
            last[key] = panel
    shown = every if len(every) <= _MOST_ROWS else [*last.values()][:_MOST_ROWS]
    return draw_panels(shown, spec.panels)


def draw_panels(every: Sequence[Panel], columns: Sequence[entries.Panel]) -> Figure:
    """Returns a figure of series and targets: a row for each, or one row of a single column."""
    shape = (len(every), len(columns)) if len(columns) > 1 else (1, len(every))
    with canvas.style():
        figure, grid = canvas.panels(*shape, 3.6 if len(every) + len(columns) > 2 else 5.2, 2.9)
        grid = grid.reshape(len(every), len(columns))
        found: dict[str, Any] = {}
        for row, panel in zip(grid, every, strict=True):
            for axes, column in zip(row, columns, strict=True):
                found |= _draw_panel(axes, panel, column.column)
                axes.set_ylabel(column.label)
                target = panel.target
                what = f"{target.column.replace('_', ' ')} {wording.number(target.value)}"
                series = [run_series.describe(panel.factors), what if target.column else "target"]
                canvas.title(axes, ", ".join(filter(None, [column.title, *series])))
        canvas.legend(figure, [(handle, label) for label, handle in found.items()])
    return figure


def _draw_panel(axes: Axes, panel: Panel, axis: str) -> dict[str, Any]:
    """Draws seeds, means, the fitted curve and what is read off it; returns entries of a legend."""
    found: dict[str, Any] = {}
    axes.set_yscale("log")
    canvas.batch_size_axis(axes, panel.batch_sizes)
    axes.grid(axis="x", visible=False)
    reached = panel.rows[panel.rows[axis].astype(float) > 0]
    if reached.empty:
        canvas.empty(axes, "never reached")
        return found
    if reached["seed"].nunique() > 1:
        at = np.log2(reached["batch_size"].astype(float))
        axes.plot(at, reached[axis], zorder=3, alpha=0.7, **_SEED)
        found["a seed"] = Line2D([], [], **_SEED)
    means = panel.means(axis)
    for size, (mean, low, high, _) in zip(panel.batch_sizes, means, strict=True):
        if math.isfinite(mean):
            look = {"elinewidth": 1.2, "zorder": 4, **_MEAN}
            canvas.error_bars(axes, math.log2(size), mean, low, high, **look)
            found["geometric mean"] = Line2D([], [], **_MEAN)
    missed = panel.rows[panel.rows["reached"] == 0].groupby("batch_size").size()
    look = {"ha": "center", "va": "top", "rotation": 90, "fontsize": 7}
    look |= {"xycoords": axes.get_xaxis_transform(), "color": canvas.FAILED_COLOUR}
    for size, never in missed.items():
        canvas.annotate(axes, f"{never} never", (math.log2(size), 1.0), (0, -2), **look)
    if panel.points:
        found |= _draw_curve(axes, panel, axis)
    bottom, top = axes.get_ylim()
    canvas.few_log_labels(axes.yaxis, top / bottom)
    shades = {} if panel.departs else _shades(panel, axis)
    left, right = axes.get_xlim()
    for (label, colour), ends in shades.items():
        low, high = np.clip(np.log2(ends), left, right)
        if high > low:
            axes.axvspan(low, high, color=colour, zorder=0, **_SHADE)
            found[label] = Patch(color=colour, **_SHADE)
    return found | _draw_marks(axes, panel, _MARKS[axis])


def _draw_curve(axes: Axes, panel: Panel, axis: str) -> dict[str, Any]:
    """Draws the fit, or of seconds the closed form, where there is one."""
    sizes = panel.batch_sizes if axis == "seconds" else panel.fitted
    needed = "fastest_batch_size" if axis == "seconds" else "updates_min"
    if len(sizes) < 3 or math.isnan(panel.value(needed)):
        return {}
    grid, constants = np.geomspace(min(sizes), max(sizes), _POINTS), map(panel.value, _CONSTANTS)
    if axis == "seconds":
        values = fastest_batch_size.seconds_to_target(grid, *constants)
    else:
        values = critical_batch_size.updates(grid, *[*constants][:2])
        values = values * (grid if axis == "examples" else 1.0)
    axes.plot(np.log2(grid), values, zorder=2, **_CURVE)
    return {"fit": Line2D([], [], **_CURVE)}


def _shades(panel: Panel, axis: str) -> dict[tuple[str, str], tuple[float, float]]:
    """Returns what is shaded: words and colour -> the batch sizes from and to."""
    if axis == "seconds":
        ends = (panel.value("fastest_from"), panel.value("fastest_to"))
        return {_WITHIN: ends} if math.isfinite(ends[0]) else {}
    critical = panel.value("critical_batch_size")
    perfect = (1e-9, critical * critical_batch_size.PERFECT_BELOW)
    maximal = (critical * critical_batch_size.MAXIMAL_ABOVE, 1e12)
    found = zip(_SHADES.items(), (perfect, maximal), strict=True)
    return {} if math.isnan(critical) else dict(found)


def _draw_marks(axes: Axes, panel: Panel, marks: Sequence[Mark]) -> dict[str, Any]:
    """Draws batch sizes with their intervals at the foot; an open end is an arrow."""
    known = [
        (mark, ends)
        for mark in marks
        if mark.column in panel.rows
        and np.isfinite(ends := np.array(panel.interval(mark.column), float)).any()
    ]
    bottom, top = np.log(axes.get_ylim())
    step = 0.075 * (top - bottom)
    axes.set_ylim(math.exp(bottom - step * len(known)), math.exp(top))
    left, right = axes.get_xlim()
    inner = (left + 0.015 * (right - left), right - 0.015 * (right - left))
    for row, (mark, (value, low, high)) in enumerate(known):
        place = math.exp(bottom - step * (row + 0.5))
        look = {"color": mark.colour, "zorder": 5}
        ends = np.log2([low if low > 0 else 1e-9, high if high > 0 else 1e12])
        axes.plot(np.clip(ends, *inner), [place] * 2, lw=1.6, **look)
        at = math.log2(value) if value > 0 else math.nan
        for edge, arrow, out in (
            (inner[0], "<", np.nanmin([at, ends[0]]) < inner[0]),
            (inner[1], ">", np.nanmax([at, ends[1]]) > inner[1]),
        ):
            if out:
                axes.plot(edge, place, marker=arrow, markersize=5, **look)
        if inner[0] <= at <= inner[1]:
            axes.plot(at, place, marker=mark.marker, markersize=5, **look)
    axes.set_xlim(left, right)
    return {
        mark.label: Line2D([], [], color=mark.colour, marker=mark.marker, markersize=5)
        for mark, _ in known
    }
