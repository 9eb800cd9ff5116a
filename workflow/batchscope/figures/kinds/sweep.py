"""Times, utilisation and memory against batch size: a line per sweep, medians with quartiles.

A column of sweeps.csv, of which a sweep has one value, is drawn as a row per sweep instead.
"""

from __future__ import annotations

import math
import textwrap
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pandas
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from batchscope.analysis import run_series, step_cost
from batchscope.analysis.intervals import ENDS
from batchscope.figures import FigureTables
from batchscope.figures.drawing import canvas, timings
from batchscope.store import records
from batchscope.study import specifications
from batchscope.study.common_settings import QUARTILES
from batchscope.study.specifications import Panel, Scale
from batchscope.study.tables import TABLES, clipped

Lines = Sequence[tuple[run_series.Series, dict[str, Any]]]  # each with its look
Transform = Callable[[Any], np.ndarray]
_STEP, _EXAMPLES = "seconds_per_step", "examples_per_second"
_FIXED, _PER_EXAMPLE = "fixed_seconds", "seconds_per_image"  # a and b of a + b B
_PLATEAU = "plateau_examples_per_second"
_KNEES = ("knee_fitted", "knee_batch_size")
_BY_SWEEP, _BY_BLOCK = TABLES["sweeps"].columns, (_STEP, _EXAMPLES, "iterations_per_second")
_KEYS = {"machine": str, "sweep": str, "batch_size": int}
_DENSE_SIZES, _DENSE_LARGEST = 12, 128  # so many sizes up to this one show steps at multiples
_ROOM = {"linear": 1.6, "log": 5.0}  # times the highest throughput, above which no limit is drawn
_LIMITED = 2  # series beyond which their limits would hide each other
# Name of a limit -> its label and look.
_LIMITS: dict[str, tuple[str, dict[str, Any]]] = {
    _PLATEAU: ("90 % of the plateau", {"linestyle": (0, (6, 3)), "linewidth": 0.9}),
    _KNEES[0]: ("knee", {"ls": "none", "marker": "D", "markersize": 7, "fillstyle": "none"}),
}
_LOST = {"linestyle": "none", "marker": "x", "markersize": 4.5, "color": canvas.FAILED_COLOUR}
_DISTURBED = {"linestyle": "none", "marker": "o", "markersize": 8, "fillstyle": "none"}
_DISTURBED |= {"color": canvas.FAILED_COLOUR, "markeredgewidth": 0.5}
_FLAGS = ("disturbed_blocks", "disturbed")  # above 0 where other processes disturbed
_LABEL_WIDTH = 26  # letters of a row's label before it is broken


def select(tables: FigureTables, spec: specifications.Figure) -> pandas.DataFrame:
    """Returns one row per series and batch size, with what its sweep says on each of its rows.

    What the figure's table has not is a column of sweeps.csv.
    """
    rows = timings.here(getattr(tables, spec.table))
    if rows.empty:
        return rows
    first = [*timings.factor_columns(rows), "batch_size", "status"]
    named = [f"{panel.column}{end}" for panel in spec.panels for end in (*QUARTILES, *ENDS[1:])]
    wanted = list(dict.fromkeys([*first, *named, *spec.columns]))
    rows = rows.astype(_KEYS)
    more = [name for name in wanted if name in tables.sweeps and name not in rows]
    if more and len(tables.sweeps):
        sweeps = tables.sweeps[["machine", "sweep", *more]].astype({"machine": str, "sweep": str})
        rows = rows.merge(sweeps, "left", on=["machine", "sweep"])
    frame = rows[[name for name in wanted if name in rows]]
    return frame if _known(frame, spec.panels) else frame.iloc[:0]


def _known(frame: pandas.DataFrame, panels: Sequence[Panel]) -> list[Panel]:
    """Returns the panels that show something: what is not 0, and of sweeps two values."""
    found = []
    for panel in panels:
        if panel.column in frame:
            values = _timed(frame, panel.column)[panel.column]
            least = 1 if panel.column in _BY_SWEEP else 0
            if values.nunique() > least and (values != 0).any():
                found.append(panel)
    return found


def _timed(rows: pandas.DataFrame, column: str) -> pandas.DataFrame:
    return rows[np.isfinite(rows[column].to_numpy(float))]


def draw(frame: pandas.DataFrame, spec: specifications.Figure) -> Figure:
    """Returns the figure: the panels that show something."""
    groups, panels = timings.series(frame), _known(frame, spec.panels)
    lines = [*zip(groups, canvas.series_styles(len(groups)), strict=True)]
    labels = [textwrap.fill(group.label, _LABEL_WIDTH) for group in groups]
    rows = sum(label.count("\n") + 2 for label in labels)
    of_rows = any(panel.column in _BY_SWEEP for panel in panels)
    width, height = 4.6 if len(panels) < 3 else 3.5, max(2.9, 0.16 * rows + 0.9 if of_rows else 0)
    figure, grid = canvas.panels(len(panels), 0, width, height)
    limits: set[str] = set()
    for axes, panel, previous in zip(grid, panels, [None, *panels], strict=False):
        axes.set_title(panel.title)
        if panel.column in _BY_SWEEP:
            _draw_rows(axes, panel, lines)
            beside = previous is not None and previous.column in _BY_SWEEP
            axes.set_yticks(range(len(groups)), [""] * len(groups) if beside else labels)
            continue
        at = _draw_lines(axes, frame, panel, lines)
        if panel.column == _EXAMPLES and len(groups) <= _LIMITED:
            limits |= _draw_limits(axes, at, lines)
        if panel.column == _STEP and _FIXED in frame:  # the fit is the line
            _draw_fits(axes, at, lines)
    found = [(style, group.label) for group, style in lines] if len(groups) > 1 else []
    ink = {"color": canvas.INK}
    found += [({**ink, **look}, label) for name, (label, look) in _LIMITS.items() if name in limits]
    disturbed = frame[[name for name in _FLAGS if name in frame]].fillna(0).astype(float) > 0
    found += [(_DISTURBED, "disturbed")] if disturbed.any(axis=None) else []
    lost = frame["status"].eq(records.OUT_OF_MEMORY).any()
    found += [(_LOST, "out of memory")] if lost else []
    canvas.legend(figure, found)
    return figure


def is_dense(sizes: Any) -> bool:
    different = {int(size) for size in sizes}
    return len(different) >= _DENSE_SIZES and max(different) <= _DENSE_LARGEST


def batch_axis(axes: Axes, sizes: Any) -> Transform:
    """Sets up a horizontal axis of all batch sizes; returns what turns them into positions on it.

    Log2 as everywhere, but linear for a dense range, since steps at multiples show only there.
    """
    sizes = sorted({int(size) for size in sizes})
    if not is_dense(sizes):
        canvas.batch_size_axis(axes, sizes)
        return lambda values: np.log2(np.asarray(values, float))
    step = 2 ** max(0, math.ceil(math.log2(sizes[-1] / 9)))
    axes.set_xticks(range(0, sizes[-1] + 1, step))
    axes.grid(True, axis="x")
    axes.set_xlim(0, 1.03 * sizes[-1])
    axes.set_xlabel("batch size")
    return lambda values: np.asarray(values, float)


def _draw_lines(axes: Axes, frame: pandas.DataFrame, panel: Panel, lines: Lines) -> Transform:
    """Draws medians with their quartiles, rings where disturbed, crosses where memory ran out."""
    at = batch_axis(axes, frame["batch_size"])
    fitted = {"linestyle": "none"} if panel.column == _STEP and _FIXED in frame else {}
    if panel.scale == Scale.LOG:
        axes.set_yscale("log")
    flag = _FLAGS[panel.column not in _BY_BLOCK]
    drawn = []
    for group, style in lines:
        rows = _timed(group.frame, panel.column)
        ends = (f"{panel.column}{end}" for end in QUARTILES)
        values = rows[[name if name in rows else panel.column for name in ends]].to_numpy(float).T
        look = {"linewidth": 1.2, "elinewidth": 1.0, "markersize": 3 if len(rows) > 16 else 5}
        look |= {"zorder": 3, **canvas.line_look(style | fitted, len(rows))}
        place = at(rows["batch_size"])
        canvas.error_bars(axes, place, *values, **look)
        if flag in rows and (disturbed := rows[flag].to_numpy(float, na_value=0.0) > 0).any():
            axes.plot(place[disturbed], values[0][disturbed], zorder=4, **_DISTURBED)
        drawn.append(values.ravel())
    dense = panel.column == _EXAMPLES and is_dense(frame["batch_size"])
    linear = panel.scale in (Scale.ZERO, Scale.PERCENT)
    timings.value_axis(axes, drawn, linear, dense)
    lost = frame.loc[frame["status"] == records.OUT_OF_MEMORY, "batch_size"].unique()
    if len(lost):
        edge = {"transform": axes.get_xaxis_transform(), "clip_on": False, "zorder": 5}
        axes.plot(at(lost), np.ones(len(lost)), **edge, **_LOST)
    axes.set_ylabel(panel.label)
    if panel.scale == Scale.PERCENT:
        axes.yaxis.set_major_formatter(canvas.percent_tick)
    return at


def _draw_limits(axes: Axes, at: Transform, lines: Lines) -> set[str]:
    """Draw 90 % of each plateau with its knee if there is room. Return the drawn limits."""
    found: set[str] = set()
    room = _ROOM[axes.get_yscale()] * max(group.frame[_EXAMPLES].max() for group, _ in lines)
    for group, style in lines:
        if step_cost.too_noisy(timings.one(group.frame, "noise_floor")):
            continue
        share = step_cost.PLATEAU_SHARE * timings.one(group.frame, _PLATEAU)
        if not share <= room:
            continue
        axes.axhline(share, color=style["color"], zorder=1.5, **_LIMITS[_PLATEAU][1])
        axes.set_ylim(top=max(axes.get_ylim()[1], 1.06 * share))
        found.add(_PLATEAU)
        knees = [knee for name in _KNEES if (knee := timings.one(group.frame, name)) > 0]
        if knees:
            look = {"color": style["color"], "zorder": 4, **_LIMITS[_KNEES[0]][1]}
            axes.plot(at(knees[:1]), [share], **look)
            found.add(_KNEES[0])
    return found


def _draw_fits(axes: Axes, at: Transform, lines: Lines) -> None:
    """Draws the line a + b B of each series with three batch sizes or more."""
    ends = axes.get_ylim()
    for group, style in lines:
        sizes = _timed(group.frame, _STEP)["batch_size"]
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
    if min(shown) > 0 and max(shown) > canvas.LOG_SPAN * min(shown):
        axes.set_xscale("log")
        canvas.few_log_labels(axes.xaxis, 1e3)
    else:
        canvas.linear_ticks(axes.xaxis, 4)
        axes.set_xlim(left=0)
