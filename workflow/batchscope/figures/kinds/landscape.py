"""The loss around trained weights: curves over a position on a line, or surfaces as contours.

Curves are means over seeds, and every seed thin. Along random directions there is a curve for each
batch size, of the mean over the directions of each run; on the line between two minimisers there is
one for each part of the data. A surface shows one run, over a plane.
"""

from __future__ import annotations

from typing import Any

import matplotlib
import numpy as np
import pandas
from matplotlib.axes import Axes
from matplotlib.cm import ScalarMappable
from matplotlib.colors import BoundaryNorm, ListedColormap
from matplotlib.figure import Figure
from matplotlib.ticker import LogLocator, MaxNLocator

from batchscope import wording
from batchscope.analysis import run_series
from batchscope.figures import FigureTables
from batchscope.figures.drawing import canvas
from batchscope.study import specifications
from batchscope.study.specifications import Panel, Scale

_SPLITS = {"train": "training data", "validation": "validation data", "test": "test data"}
_ENDS = {"small": 0.0, "large": 1.0}  # column with the factor's value -> its place on the line
_MOST_ROWS = 6  # of curves
_MOST_COLUMNS = 4  # batch sizes beyond which the smallest and largest surfaces alone are shown
_MOST_SURFACES = 3  # series and seeds
_BAR_WIDTH = 0.7  # of the colour bar with its label, in inches
_LEVELS = 11
_SUBS = ((1.0, 1.5, 2.0, 3.0, 5.0, 7.0), (1.0, 2.0, 5.0), (1.0, 3.0), (1.0,))


def select(tables: FigureTables, spec: specifications.Figure) -> pandas.DataFrame:
    """Returns one row per run and position, of lines also per split: factors and values."""
    table = getattr(tables, spec.table)
    if table.empty:
        return table
    if not spec.over:
        return _surfaces(table)
    (over,) = spec.over
    if spec.lines:
        names = [*run_series.varying(table), "batch_size", "seed", over, spec.lines, *spec.columns]
        names += [panel.column for panel in spec.panels]
        return table[list(dict.fromkeys(names))].reset_index(drop=True)
    lines = table[table["kind"] == "line"]
    at_zero = lines[lines[over] == 0].drop_duplicates(["run", "index"])
    foot = at_zero.set_index(["run", "index"])["loss"].rename("foot")
    lines = lines.join(foot, on=["run", "index"])
    lines["rise"] = lines["loss"] - lines["foot"]
    keys = [*run_series.varying(lines), "batch_size", "seed", over]
    means = lines.groupby(keys, sort=False, dropna=False)[["loss", "rise"]]
    return means.mean(skipna=False).reset_index()


def _surfaces(table: pandas.DataFrame) -> pandas.DataFrame:
    """Returns the points of every shown run's first surface.

    Few batch sizes are shown, and where series and seeds are many, the first seed of each series.
    """
    surfaces = table[table["kind"] == "surface"]
    if not np.isfinite(surfaces["loss"].astype(float)).any():
        return surfaces.iloc[:0]
    surfaces = surfaces[surfaces["index"] == surfaces["index"].min()]
    sizes = sorted(surfaces["batch_size"].unique().tolist())
    if len(sizes) > _MOST_COLUMNS:
        surfaces = surfaces[surfaces["batch_size"].isin([sizes[0], sizes[-1]])]
    if len(_parts(surfaces, "seed")) > _MOST_SURFACES:
        surfaces = surfaces[surfaces["seed"] == surfaces["seed"].min()]
    columns = [*run_series.varying(surfaces), "batch_size", "seed", "index", "a", "b", "loss"]
    return surfaces[columns].reset_index(drop=True)


def _parts(frame: pandas.DataFrame, by: str) -> list[tuple[str, pandas.DataFrame]]:
    """Returns the rows of every series and value of a column, which a label names if several."""
    name = f"{by.replace('_', ' ')} {{}}" if frame[by].nunique() > 1 else ""
    return [
        (", ".join(filter(None, [group.label, name.format(value)])), rows)
        for group in run_series.series(frame)
        for value, rows in group.frame.groupby(by)
    ]


def draw(frame: pandas.DataFrame, spec: specifications.Figure) -> Figure:
    return _draw_curves(frame, spec) if spec.over else _draw_surfaces(frame, spec)


def _draw_curves(frame: pandas.DataFrame, spec: specifications.Figure) -> Figure:
    """Returns one row of panels per series, of lines per pair of values."""
    if spec.lines:
        parts = _parts(frame, "batch_size")[:_MOST_ROWS]
    else:
        parts = [(group.label, group.frame) for group in run_series.series(frame)][:_MOST_ROWS]
    count = len(parts) * len(spec.panels)
    columns = len(spec.panels) if len(spec.panels) > 1 else count
    figure, grid = canvas.panels(count, columns, 4.2 if len(parts) < 3 else 3.4, 2.9, sharex=True)
    if spec.lines:
        splits = [split for split in _SPLITS if (frame[spec.lines] == split).any()]
        looks = dict(zip(splits, canvas.series_styles(len(splits)), strict=True))
    else:
        looks = canvas.size_styles(frame["batch_size"].unique())
    looks = {value: {**look, "marker": ""} for value, look in looks.items()}
    if spec.lines:
        canvas.legend(figure, [(look, _SPLITS[split]) for split, look in looks.items()])
    else:
        canvas.size_legend(figure, looks)
    for row, (label, rows) in zip(grid.reshape(len(parts), -1), parts, strict=True):
        for axes, panel in zip(row, spec.panels, strict=True):
            for value, look in looks.items():
                chosen = rows[rows[spec.lines or "batch_size"] == value]
                _draw_curve(axes, chosen, panel.column, spec.over[0], look)
            _finish(axes, panel, frame[panel.column])
            canvas.title(axes, wording.titled(panel.title, label), 11 if spec.lines else 0)
            axes.set_xlabel(f"position {spec.over[0]}")
            if spec.lines:
                _mark_ends(axes, rows)
    return figure


def _draw_curve(
    axes: Axes, rows: pandas.DataFrame, column: str, over: str, look: dict[str, Any]
) -> None:
    table = rows.pivot_table(column, over, "seed", dropna=False)
    if table.size:
        table = table.astype(float).where(np.isfinite)
        canvas.curve(axes, table, look)
        if table.notna().sum(axis=1).max() > 1:
            axes.plot(table.index, table, color=look["color"], linewidth=0.5, alpha=0.5)


def _finish(axes: Axes, panel: Panel, values: pandas.Series) -> None:
    """Scales the vertical axis to the means and seeds."""
    canvas.linear_ticks(axes.yaxis)
    axes.xaxis.set_major_locator(MaxNLocator(nbins=5, steps=(1, 2, 5, 10)))
    canvas.around(axes, values, 0.08)
    axes.set_ylabel(panel.label)
    if panel.scale == Scale.PERCENT:
        axes.yaxis.set_major_formatter(canvas.percent_tick)


def _mark_ends(axes: Axes, rows: pandas.DataFrame) -> None:
    """Marks both minimisers with the value of the factor in which they differ."""
    look = {"xycoords": axes.get_xaxis_transform(), "fontsize": 7.5, "color": canvas.INK}
    for column, at in _ENDS.items():
        value = rows[column].iloc[0]
        value = int(value) if isinstance(value, float) and value.is_integer() else value
        name = run_series.describe({rows["factor"].iloc[0]: value})
        axes.axvline(at, color=canvas.MUTED, linewidth=0.8, zorder=1)
        canvas.annotate(axes, name, (at, 1.0), (0, 3), ha="center", annotation_clip=False, **look)


def _draw_surfaces(frame: pandas.DataFrame, spec: specifications.Figure) -> Figure:
    """Returns one row per series and seed, one panel per batch size."""
    (panel,) = spec.panels
    sizes = sorted(frame["batch_size"].unique().tolist())
    rows = _parts(frame, "seed")[:_MOST_SURFACES]
    count, alike = len(rows) * len(sizes), {"sharex": True, "sharey": True}
    figure, grid = canvas.panels(count, len(sizes), 2.55, 2.6, **alike)
    grid = grid.reshape(len(rows), len(sizes))
    figure.set_figwidth(figure.get_figwidth() + _BAR_WIDTH)
    levels = contour_levels(frame["loss"].to_numpy(float))
    # Every step between levels is an equal step of colour.
    colours = ListedColormap(matplotlib.colormaps["viridis"](np.linspace(0.35, 1.0, 256)))
    look = {"cmap": colours, "norm": BoundaryNorm(levels, 256)}
    for line, (label, group) in zip(grid, rows, strict=True):
        for axes, size in zip(line, sizes, strict=True):
            heading = label if size == sizes[0] else ""
            canvas.title(axes, ", ".join(filter(None, [heading, f"batch size {size}"])))
            _draw_surface(axes, group[group["batch_size"] == size], levels, look)
        line[0].set_ylabel("b")
    for axes in grid[-1]:
        axes.set_xlabel("a")
    mappable = ScalarMappable(**look)
    bar = figure.colorbar(mappable, ax=grid, shrink=0.9, pad=0.02, label=panel.label)
    bar.ax.set_title("Loss")
    bar.ax.set_yticks(levels, map(wording.tick, levels))
    bar.ax.minorticks_off()
    return figure


def contour_levels(losses: np.ndarray) -> np.ndarray:
    """Returns round levels that enclose all losses.

    Evenly spaced by their ratio where positive losses span much, else by their difference.
    """
    losses = losses[np.isfinite(losses)]
    low, high = float(losses.min()), float(losses.max())
    if low <= 0 or high < canvas.LOG_SPAN * low:
        high = high if high > low else low + (abs(low) or 1.0) * 1e-3
        return MaxNLocator(nbins=_LEVELS, steps=(1, 2, 2.5, 5, 10)).tick_values(low, high)
    for subs in _SUBS:
        every = LogLocator(subs=subs, numticks=400).tick_values(low / 10, high * 10)
        first, last = np.searchsorted(every, low, "right") - 1, np.searchsorted(every, high)
        levels = every[first : last + 1]
        if len(levels) <= _LEVELS + 1:
            return levels
    step = -(-len(levels) // _LEVELS)
    return np.unique(np.append(levels[::step], levels[-1]))


def _draw_surface(
    axes: Axes, points: pandas.DataFrame, levels: np.ndarray, look: dict[str, Any]
) -> None:
    axes.set_aspect("equal")
    axes.grid(visible=False)
    if points.empty:
        canvas.empty(axes, "no surface")
        return
    table = points.pivot_table("loss", "b", "a", dropna=False)
    plane = (table.columns.to_numpy(float), table.index.to_numpy(float))
    loss = np.ma.masked_invalid(table.to_numpy(float))
    axes.contourf(*plane, loss, levels, **look)
    axes.contour(*plane, loss, levels, colors="#000000", linewidths=0.4)
    for colour, size, width in ((canvas.PAPER, 9, 2.6), ("#000000", 8, 1.1)):
        cross = {"color": colour, "markersize": size, "markeredgewidth": width}
        axes.plot(0, 0, "+", zorder=4, **cross)
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_major_locator(MaxNLocator(nbins=4, steps=(1, 2, 5, 10)))
