"""Times, utilisation and memory against batch size: a line per sweep, medians with quartiles.

A column of sweeps.csv, of which a sweep has one value, is drawn as a row per sweep instead.
"""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from batchscope.analysis import run_series, step_cost
from batchscope.analysis.intervals import ENDS
from batchscope.catalogue import entries
from batchscope.catalogue.entries import Panel, Scale
from batchscope.catalogue.tables import QUARTILES, TABLES, clipped
from batchscope.figures import Tables
from batchscope.figures.drawing import canvas, timings

Lines = Sequence[tuple[run_series.Series, dict[str, Any]]]  # each with its look
_STEP, _EXAMPLES = "seconds_per_step", "images_per_second"
_FIXED, _PER_EXAMPLE = "fixed_seconds", "seconds_per_image"  # a and b of a + b B
_PLATEAU, _CEILING = "plateau_images_per_second", "ceiling_images_per_second"
_KNEES = ("knee_fitted", "knee_batch_size")
_BY_SWEEP, _BY_BLOCK = TABLES["sweeps"].columns, (_STEP, _EXAMPLES, "iterations_per_second")
_KEYS = {"machine": str, "sweep": str, "batch_size": int}
_ROOM = {"linear": 1.6, "log": 5.0}  # times the highest throughput, above which no limit is drawn
_LIMITED = 2  # series beyond which their limits would hide each other
_LIMIT_LOOKS: dict[str, dict[str, Any]] = {
    _PLATEAU: {"linestyle": (0, (6, 3)), "linewidth": 0.9},
    _CEILING: {"linestyle": (0, (1, 1)), "linewidth": 1.3},
    _KNEES[0]: {"linestyle": "none", "marker": "D", "markersize": 7, "fillstyle": "none"},
}
_LIMIT_LABELS = {
    _PLATEAU: "90 % of the plateau",
    _CEILING: "ceiling",
    _KNEES[0]: "knee",
}
_LOG_SPAN = 12.0  # ratio of the largest to the least cost from which their axis is logarithmic
_LABEL_WIDTH = 26  # letters of a row's label before it is broken


def select(tables: Tables, spec: entries.Figure) -> pandas.DataFrame:
    """Returns one row per series and batch size, with what its sweep says on each of its rows.

    What the figure's table has not is a column of throughput.csv or of sweeps.csv.
    """
    rows = timings.at_most_all(timings.timed_here(getattr(tables, spec.table)))
    if rows.empty:
        return rows
    first = [*timings.factor_columns(rows), "batch_size", "status"]
    named = [f"{panel.column}{end}" for panel in spec.panels for end in (*QUARTILES, *ENDS[1:])]
    wanted = list(dict.fromkeys([*first, *named, *spec.columns]))
    rows = rows.astype(_KEYS)
    for table, keys in ((tables.throughput, [*_KEYS]), (tables.sweeps, [*_KEYS][:2])):
        more = [name for name in wanted if name in table and name not in rows]
        if more and len(table):
            beside = table[[*keys, *more]].astype({key: _KEYS[key] for key in keys})
            rows = rows.merge(beside, "left", on=keys)
    frame = rows[[name for name in wanted if name in rows]]
    return frame if _known(frame, spec.panels) else frame.iloc[:0]


def draw(frame: pandas.DataFrame, spec: entries.Figure) -> Figure:
    """Returns the figure: the panels that show something."""
    groups, panels = timings.series(frame), _known(frame, spec.panels)
    lines = [*zip(groups, canvas.series_styles(len(groups)), strict=True)]
    labels = [textwrap.fill(group.label, _LABEL_WIDTH) for group in groups]
    rows = sum(label.count("\n") + 2 for label in labels)
    of_rows = any(panel.column in _BY_SWEEP for panel in panels)
    width, height = 4.6 if len(panels) < 3 else 3.5, max(2.9, 0.16 * rows + 0.9 if of_rows else 0)
    figure, grid = canvas.some_panels(len(panels), None, width, height)
    limits: set[str] = set()
    for axes, panel in zip(grid, panels, strict=True):
        axes.set_title(panel.title)
        if panel.column in _BY_SWEEP:
            _draw_rows(axes, panel, lines)
            previous = panels[panels.index(panel) - 1].column
            shown = labels if previous not in _BY_SWEEP else [""] * len(labels)
            axes.set_yticks(range(len(groups)), shown)
            continue
        at = _draw_lines(axes, frame, panel, lines)
        if panel.column == _EXAMPLES and len(groups) <= _LIMITED:
            limits |= _draw_limits(axes, at, lines)
        if panel.column == _STEP and _FIXED in frame:  # the fit is the line
            _draw_fits(axes, at, lines)
    marks = [(style, group.label) for group, style in lines] if len(groups) > 1 else []
    marks += [
        ({"color": canvas.INK, **look}, _LIMIT_LABELS[name])
        for name, look in _LIMIT_LOOKS.items()
        if name in limits
    ]
    found = [(Line2D([], [], **look), label) for look, label in marks]
    canvas.legend(figure, [*found, *timings.mark_entries(frame)])
    return figure


def _known(frame: pandas.DataFrame, panels: Sequence[Panel]) -> list[Panel]:
    """Returns the panels that show something: what is not 0, and of sweeps two values."""
    found = []
    for panel in panels:
        if panel.column in frame:
            values = timings.timed(frame, panel.column)[panel.column]
            least = 1 if panel.column in _BY_SWEEP else 0
            if values.nunique() > least and (values != 0).any():
                found.append(panel)
    return found


def _draw_lines(
    axes: Axes, frame: pandas.DataFrame, panel: Panel, lines: Lines
) -> timings.Transform:
    at = timings.batch_axis(axes, frame["batch_size"])
    fitted = {"linestyle": "none"} if panel.column == _STEP and _FIXED in frame else {}
    if panel.scale == Scale.LOG:
        axes.set_yscale("log")
    flag = timings.FLAGS[panel.column not in _BY_BLOCK]
    drawn = [
        timings.draw_medians(axes, at, group.frame, panel.column, style | fitted, flag)
        for group, style in lines
    ]
    dense = panel.column == _EXAMPLES and timings.is_dense(frame["batch_size"])
    linear = panel.scale in (Scale.ZERO, Scale.PERCENT)
    timings.value_axis(axes, drawn, linear, dense)
    timings.mark_out_of_memory(axes, at, frame)
    axes.set_ylabel(panel.label)
    if panel.scale == Scale.PERCENT:
        axes.yaxis.set_major_formatter(canvas.percent_tick)
    return at


def _draw_limits(axes: Axes, at: timings.Transform, lines: Lines) -> set[str]:
    """Draws 90 % of each plateau with its knee, and the ceiling, where there is room for them.

    Returns what is drawn.
    """
    found: set[str] = set()
    room = _ROOM[axes.get_yscale()] * max(group.frame[_EXAMPLES].max() for group, _ in lines)
    for group, style in lines:
        if step_cost.too_noisy(timings.one(group.frame, "noise_floor")):
            continue
        share = step_cost.PLATEAU_SHARE * timings.one(group.frame, _PLATEAU)
        reached = timings.one(group.frame, "share_of_ceiling") <= 1
        ceiling = timings.one(group.frame, _CEILING) if reached else np.nan
        for name, height in ((_PLATEAU, share), (_CEILING, ceiling)):
            if height <= room:
                axes.axhline(height, color=style["color"], zorder=1.5, **_LIMIT_LOOKS[name])
                axes.set_ylim(top=max(axes.get_ylim()[1], 1.06 * height))
                found.add(name)
        knees = [knee for name in _KNEES if (knee := timings.one(group.frame, name)) > 0]
        if knees and share <= room:
            look = {"color": style["color"], "zorder": 4, **_LIMIT_LOOKS[_KNEES[0]]}
            axes.plot(at(knees[:1]), [share], **look)
            found.add(_KNEES[0])
    return found


def _draw_fits(axes: Axes, at: timings.Transform, lines: Lines) -> None:
    """Draws the line a + b B of each series with three batch sizes or more."""
    ends = axes.get_ylim()
    for group, style in lines:
        sizes = timings.timed(group.frame, _STEP)["batch_size"]
        fixed, each = (timings.one(group.frame, name) for name in (_FIXED, _PER_EXAMPLE))
        if len(sizes) > 2:
            grid = np.geomspace(sizes.min(), sizes.max(), 60)
            look = {"color": style["color"], "linestyle": style["linestyle"], "linewidth": 1.0}
            axes.plot(at(grid), fixed + each * grid, zorder=2, **look)
    axes.set_ylim(ends)


def _draw_rows(axes: Axes, panel: Panel, lines: Lines) -> None:
    """Draws one row per series: its value with the interval, within what can be."""
    shown: list[float] = []
    for row, (group, style) in enumerate(lines):
        ends = (timings.one(group.frame, f"{panel.column}{end}") for end in ENDS)
        value, low, high = clipped(panel.column, ends)
        bars = np.nan_to_num([[value - low], [high - value]])
        look = {**style, "linestyle": "none", "zorder": 3}
        axes.errorbar(value, row, xerr=bars, elinewidth=1.4, **look)
        shown += [end for end in (value, low, high) if np.isfinite(end)]
    axes.set_ylim(len(lines) - 0.5, -0.5)
    axes.set_xlabel(panel.label)
    axes.grid(visible=True, axis="x")
    axes.grid(visible=False, axis="y")
    if min(shown) > 0 and max(shown) > _LOG_SPAN * min(shown):
        axes.set_xscale("log")
        canvas.few_log_labels(axes.xaxis, 1e3)
    else:
        canvas.linear_ticks(axes.xaxis, 4)
        axes.set_xlim(left=0)
