"""Two kinds of figures by batch size: medians of timed steps, and searches for the largest size.

Timed steps have a panel per measured column, with a line of medians for each sweep (`_draw_lines`).
A column of sweeps.csv has one value per sweep, so its panel has a row per sweep (`_draw_rows`).
Searches, of table `largest`, have a panel each, with a point per tried size (`_draw_search`). A new
panel is an item of the `Figure` in the `ENTRY` of its timing. One of these functions draws a new
mark.
"""

import math
import textwrap
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pandas
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from batchscope.analysis import run_series, step_cost
from batchscope.analysis.intervals import SUFFIXES
from batchscope.core import display
from batchscope.figures import FigureTables, canvas
from batchscope.figures.figure_rows import first_value, sweep_series, usable_timings
from batchscope.store import records
from batchscope.study import run_factors, specifications
from batchscope.study.specifications import QUARTILE_SUFFIXES, Panel, Scale
from batchscope.study.table_entries import TABLES, clipped_to_range

Lines = Sequence[tuple[run_series.Series, dict[str, Any]]]  # pairs of a series and its style
Entries = dict[str, dict[str, Any]]  # label -> props of an entry of the legend
Position = Callable[[Any], np.ndarray]  # function from batch sizes to places on the axis
_STEP, _EXAMPLES = "seconds_per_step", "examples_per_second"
_FIXED, _PER_EXAMPLE = "fixed_seconds", "seconds_per_image"  # a and b of a + b B
_SWEEP_COLUMNS = TABLES["sweeps"].columns
_BLOCK_COLUMNS = (_STEP, _EXAMPLES, "iterations_per_second")  # values of blocks of steps
_DENSE_SIZES, _DENSE_LARGEST = 12, 128  # At least 12 sizes up to 128 show steps at multiples.
_PLATEAU_COLUMNS = ("plateau_examples_per_second", "noise_floor", "knee_fitted", "knee_batch_size")
# Scale of the axis -> multiple of the highest throughput above which no plateau is drawn.
_PLATEAU_HEADROOM = {"linear": 1.6, "log": 5.0}
_MAX_PLATEAUS = 2  # More plateaus would hide each other.
_PLATEAU = {"color": canvas.INK, "linestyle": (0, (6, 3)), "linewidth": 0.9}
_KNEE = canvas.points("D", 7, fillstyle="none")
_NO_MEMORY = canvas.points("x", 4.5, canvas.FAILED_COLOUR)
_DISTURBED = canvas.points("o", 8, canvas.FAILED_COLOUR, fillstyle="none", markeredgewidth=0.5)
_SEARCHES = "largest"
_OUTCOME_MARKS = {
    records.FITS: canvas.points("o", 5.5, clip_on=False),
    records.OUT_OF_MEMORY: canvas.points("X", 5.5, canvas.FAILED_COLOUR, clip_on=False),
    "over_limit": canvas.points("s", 5.5, canvas.FAILED_COLOUR, clip_on=False),
    "killed": canvas.points("v", 5.5, canvas.FAILED_COLOUR, clip_on=False),
}
_MEMORY_LIMIT: dict[str, Any] = {"color": canvas.INK, "linewidth": 1.2, "linestyle": (0, (5, 2))}
_FIT: dict[str, Any] = {"color": canvas.MUTED, "linewidth": 1.3, "linestyle": "-"}
_LARGEST = canvas.points("o", 11, fillstyle="none")
_MEMORY = ("memory_limit_mb", "memory_fixed_mb", "memory_mb_per_image")


def select(tables: FigureTables, spec: specifications.Figure) -> pandas.DataFrame:
    """Return one row per series and batch size, with the columns of its sweep."""
    if spec.table == _SEARCHES:
        return _select_searches(tables, spec)
    rows = usable_timings(getattr(tables, spec.table))
    if rows.empty:
        return rows
    keys = ["machine", "sweep"]
    names = ["machine", *run_series.varying_factors(rows), "batch_size", "status"]
    for panel in spec.panels:
        names += [f"{panel.column}{end}" for end in (*QUARTILE_SUFFIXES, *SUFFIXES[1:])]
    names = list(dict.fromkeys([*names, *spec.columns]))
    sweep_columns = [name for name in names if name in tables.sweeps and name not in rows]
    if sweep_columns and len(tables.sweeps):
        rows = rows.merge(tables.sweeps[[*keys, *sweep_columns]], "left", on=keys)
    frame = rows[[name for name in names if name in rows]].astype({"batch_size": int})
    return frame if _drawn_panels(frame, spec.panels) else frame.iloc[:0]


def _select_searches(tables: FigureTables, spec: specifications.Figure) -> pandas.DataFrame:
    """Return one row per series and tried batch size, with the result of its search."""
    tries = getattr(tables, spec.table).reset_index(drop=True)
    if tries.empty:
        return tries
    names = ["machine", *run_series.varying_factors(tries), "batch_size", "outcome", "peak_mb"]
    # All loops of a configuration have the same search, since memory does not depend on the loop.
    keys = ["machine", *run_factors.FACTORS, "dataset_digest", "model_digest"]
    keys = [name for name in keys if name in tries and name != "batch_size"]
    columns = ["max_batch_size", "max_batch_size_bound", *_MEMORY]
    results = tables.sweeps.dropna(subset="max_batch_size").drop_duplicates(keys)
    # As objects, since the two tables may have different types of a column.
    results = results[[*keys, *columns]].astype(dict.fromkeys(keys, object))
    results = tries[keys].astype(object).merge(results, "left", on=keys)[columns]
    columns = dict.fromkeys([*names, *spec.columns])
    return pandas.concat([tries[list(columns)], results], axis=1)


def _drawn_panels(frame: pandas.DataFrame, panels: Sequence[Panel]) -> list[Panel]:
    """Return the panels with a value other than 0; a column of sweeps needs two values."""
    drawn_panels = []
    for panel in (panel for panel in panels if panel.column in frame):
        values = _finite_rows(frame, panel.column)[panel.column]
        least = 1 if panel.column in _SWEEP_COLUMNS else 0
        if values.nunique() > least and (values != 0).any():
            drawn_panels.append(panel)
    return drawn_panels


def _finite_rows(rows: pandas.DataFrame, column: str) -> pandas.DataFrame:
    return rows[np.isfinite(rows[column].to_numpy(float))]


def draw(frame: pandas.DataFrame, spec: specifications.Figure) -> Figure:
    if spec.table == _SEARCHES:
        return _draw_searches(frame)
    groups, panels = sweep_series(frame), _drawn_panels(frame, spec.panels)
    lines = list(zip(groups, canvas.series_styles(len(groups)), strict=True))
    labels = [textwrap.fill(group.label, 26) for group in groups]
    by_sweep = [panel.column in _SWEEP_COLUMNS for panel in panels]
    label_lines = sum(label.count("\n") + 2 for label in labels) if any(by_sweep) else 0
    width = 4.6 if len(panels) < 3 else 3.5
    figure, grid = canvas.panels(len(panels), 0, width, max(2.9, 0.16 * label_lines + 0.9))
    entries = {group.label: style for group, style in lines} if len(groups) > 1 else {}
    for index, (axes, panel) in enumerate(zip(grid, panels, strict=True)):
        axes.set_title(panel.title)
        if by_sweep[index]:
            _draw_rows(axes, panel, lines)
            has_labels = index == 0 or not by_sweep[index - 1]
            axes.set_yticks(range(len(groups)), labels if has_labels else [""] * len(groups))
        else:
            to_x = set_batch_axis(axes, frame["batch_size"])
            entries |= _draw_lines(axes, to_x, frame, panel, lines)
    canvas.draw_legend(figure, [(props, label) for label, props in entries.items()])
    return figure


def is_dense(sizes: Any) -> bool:
    different = {int(size) for size in sizes}
    return len(different) >= _DENSE_SIZES and max(different) <= _DENSE_LARGEST


def set_batch_axis(axes: Axes, sizes: Any) -> Position:
    """Set up the horizontal axis; return the function from batch sizes to positions.

    The axis is log2, but linear for a dense range, because steps at multiples show only there.
    """
    sizes = sorted({int(size) for size in sizes})
    if not is_dense(sizes):
        canvas.set_batch_size_axis(axes, sizes)
        return lambda values: np.log2(np.asarray(values, float))
    step = 2 ** max(0, math.ceil(math.log2(sizes[-1] / 9)))
    axes.set_xticks(range(0, sizes[-1] + 1, step))
    axes.grid(True, axis="x")
    axes.set_xlim(0, 1.03 * sizes[-1])
    axes.set_xlabel("batch size")
    return lambda values: np.asarray(values, float)


def _draw_lines(
    axes: Axes, to_x: Position, frame: pandas.DataFrame, panel: Panel, lines: Lines
) -> Entries:
    """Draw medians with quartiles, rings at disturbed medians, crosses where memory ran out."""
    entries: Entries = {}
    # A fitted line replaces the line between the medians.
    has_fit = panel.column == _STEP and _FIXED in frame
    fitted = {"linestyle": "none"} if has_fit else {}
    if panel.scale == Scale.LOG:
        axes.set_yscale("log")
    flag = "disturbed_blocks" if panel.column in _BLOCK_COLUMNS else "disturbed"
    drawn = []
    for group, style in lines:
        rows = _finite_rows(group.frame, panel.column)
        ends = (f"{panel.column}{end}" for end in QUARTILE_SUFFIXES)
        values = rows[[name if name in rows else panel.column for name in ends]].to_numpy(float).T
        props = {"linewidth": 1.2, "elinewidth": 1.0, "markersize": 3 if len(rows) > 16 else 5}
        props |= {"zorder": 3, **canvas.line_props(style | fitted, len(rows))}
        x = to_x(rows["batch_size"])
        canvas.draw_error_bars(axes, x, *values, **props)
        if flag in rows and (disturbed := rows[flag].to_numpy(float, na_value=0.0) > 0).any():
            axes.plot(x[disturbed], values[0][disturbed], zorder=4, **_DISTURBED)
            entries["disturbed"] = _DISTURBED
        drawn.append(values[np.isfinite(values)])
    is_linear = panel.scale in (Scale.ZERO, Scale.PERCENT)
    if panel.column == _EXAMPLES and is_dense(frame["batch_size"]):
        peaks = [values.max() for values in drawn if len(values)]
        is_linear = max(peaks) < canvas.LOG_SPAN * min(peaks)
    canvas.set_axis_from_zero(axes, np.concatenate(drawn), is_linear)
    too_large = frame.loc[frame["status"] == records.OUT_OF_MEMORY, "batch_size"].unique()
    if len(too_large):
        edge = {"transform": axes.get_xaxis_transform(), "clip_on": False, "zorder": 5}
        axes.plot(to_x(too_large), np.ones(len(too_large)), **edge, **_NO_MEMORY)
        entries["out of memory"] = _NO_MEMORY
    axes.set_ylabel(panel.label)
    if panel.scale == Scale.PERCENT:
        axes.yaxis.set_major_formatter(canvas.percent_tick)
    if has_fit:
        _draw_fits(axes, to_x, lines)
    if panel.column == _EXAMPLES and len(lines) <= _MAX_PLATEAUS:
        entries |= _draw_plateaus(axes, to_x, lines)
    return entries


def _draw_plateaus(axes: Axes, to_x: Position, lines: Lines) -> Entries:
    """Draw 90 % of each plateau with its knee if there is room."""
    entries: Entries = {}
    highest = max(group.frame[_EXAMPLES].max() for group, _ in lines)
    room = _PLATEAU_HEADROOM[axes.get_yscale()] * highest
    for group, style in lines:
        plateau, noise, *knees = (first_value(group.frame, name) for name in _PLATEAU_COLUMNS)
        height, colour = step_cost.PLATEAU_SHARE * plateau, {"color": style["color"]}
        if step_cost.is_too_noisy(noise) or not height <= room:
            continue
        axes.axhline(height, zorder=1.5, **{**_PLATEAU, **colour})
        axes.set_ylim(top=max(axes.get_ylim()[1], 1.06 * height))
        entries["90 % of the plateau"] = _PLATEAU
        for knee in [knee for knee in knees if knee > 0][:1]:
            axes.plot(to_x([knee]), [height], zorder=4, **{**_KNEE, **colour})
            entries["knee"] = _KNEE
    return entries


def _draw_fits(axes: Axes, to_x: Position, lines: Lines) -> None:
    """Draw the line a + b B of each series with three batch sizes or more."""
    ends = axes.get_ylim()
    for group, style in lines:
        sizes = _finite_rows(group.frame, _STEP)["batch_size"]
        fixed, slope = (first_value(group.frame, name) for name in (_FIXED, _PER_EXAMPLE))
        if len(sizes) > 2:
            grid = np.geomspace(sizes.min(), sizes.max(), 60)
            props = {"color": style["color"], "linestyle": style["linestyle"], "linewidth": 1.0}
            axes.plot(to_x(grid), fixed + slope * grid, zorder=2, **props)
    axes.set_ylim(ends)


def _draw_rows(axes: Axes, panel: Panel, lines: Lines) -> None:
    """Draw one row per series: its value with the part of the interval that is possible."""
    drawn: list[float] = []
    for row, (group, style) in enumerate(lines):
        ends = (first_value(group.frame, f"{panel.column}{end}") for end in SUFFIXES)
        value, low, high = clipped_to_range(panel.column, ends)
        bars = np.nan_to_num([[value - low], [high - value]])
        props = {**style, "linestyle": "none", "zorder": 3}
        axes.errorbar(value, row, xerr=bars, elinewidth=1.4, **props)
        drawn += [end for end in (value, low, high) if np.isfinite(end)]
    axes.set_ylim(len(lines) - 0.5, -0.5)
    axes.set_xlabel(panel.label)
    axes.grid(visible=True, axis="x")
    axes.grid(visible=False, axis="y")
    if min(drawn) > 0 and max(drawn) > canvas.LOG_SPAN * min(drawn):
        axes.set_xscale("log")
        canvas.set_log_labels(axes.xaxis, 1e3)
    else:
        canvas.set_linear_ticks(axes.xaxis, 4)
        axes.set_xlim(left=0)


def _draw_searches(frame: pandas.DataFrame) -> Figure:
    groups = sweep_series(frame)[: canvas.MAX_SERIES]
    figure, grid = canvas.panels(len(groups), 0, 5.2 if len(groups) == 1 else 4.0, 3.1)
    for axes, group in zip(grid, groups, strict=True):
        canvas.set_title(axes, display.capital(group.label) or "Batch sizes tried")
        _draw_search(axes, group.frame)
    outcomes = [name for name in _OUTCOME_MARKS if frame["outcome"].eq(name).any()]
    entries = [(_OUTCOME_MARKS[name], name.replace("_", " ")) for name in outcomes]
    entries.append((_LARGEST, "largest that fits"))
    entries += [(_MEMORY_LIMIT, "limit")] if frame[_MEMORY[0]].notna().any() else []
    entries += [(_FIT, "fit")] if frame[_MEMORY[2]].notna().any() else []
    canvas.draw_legend(figure, entries)
    return figure


def _draw_search(axes: Axes, rows: pandas.DataFrame) -> None:
    """Draw the peak memory of each tried size; unknown memory is at the upper edge."""
    limit, fixed, per_example = (first_value(rows, name) for name in _MEMORY)
    sizes = rows["batch_size"].astype(float)
    canvas.set_batch_size_axis(axes, sorted({int(size) for size in sizes}), room=0.1)
    axes.set_ylabel("peak memory (MB)")
    canvas.set_axis_from_zero(axes, np.append(rows["peak_mb"].to_numpy(float), limit))
    ends = axes.get_ylim()
    if math.isfinite(limit):
        axes.axhline(limit, zorder=1, **_MEMORY_LIMIT)
    if math.isfinite(fixed + per_example):
        grid = np.geomspace(sizes.min(), sizes.max(), 60)
        axes.plot(np.log2(grid), fixed + per_example * grid, zorder=2, **_FIT)
    axes.set_ylim(ends)
    x, height = np.log2(sizes), rows["peak_mb"].fillna(ends[1])
    for outcome, props in _OUTCOME_MARKS.items():
        is_outcome = rows["outcome"] == outcome
        axes.plot(x[is_outcome], height[is_outcome], zorder=4, **canvas.MARKER_EDGE, **props)
    is_largest = sizes.eq(first_value(rows, "max_batch_size")) & rows["outcome"].eq(records.FITS)
    for index in rows.index[is_largest][:1]:
        axes.plot(x[index], height[index], zorder=5, **_LARGEST)
        # The search ended at the largest size that it may try.
        suffix = " or more" if rows.loc[index, "max_batch_size_bound"] == "most_fits" else ""
        text = f"{rows.loc[index, 'batch_size']}{suffix}"
        props = {"ha": "right", "fontsize": 8.5, "fontweight": "bold"}
        canvas.annotate(axes, text, (x[index], height[index]), (5, -18), **props)
