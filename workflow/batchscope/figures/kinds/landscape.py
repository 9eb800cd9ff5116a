"""The loss around trained weights: contours over a plane, or curves along a line.

A specification with `x_columns` asks for curves: one per batch size in random directions, one per
split on a line between two minimisers. They are means over seeds with a band.
"""

import itertools
from typing import Any

import matplotlib
import numpy as np
import pandas
from matplotlib.axes import Axes
from matplotlib.cm import ScalarMappable
from matplotlib.colors import BoundaryNorm, ListedColormap
from matplotlib.figure import Figure
from matplotlib.ticker import LogLocator, MaxNLocator

from batchscope.analysis import run_series
from batchscope.core import display
from batchscope.figures import FigureTables, canvas
from batchscope.study import specifications
from batchscope.study.specifications import Scale

_SPLITS = {"train": "training data", "validation": "validation data", "test": "test data"}
_MINIMISERS = {"small": 0.0, "large": 1.0}  # column with a factor's value -> place on the line
_MAX_SIZES = 4  # Of more batch sizes with a surface, the smallest and the largest are shown.
_MAX_ROWS = 3  # rows of series and seeds with surfaces
_BAR_WIDTH = 0.7  # inches of the colour bar with its label
_MAX_LEVELS = 11
_LOG_STEPS = ((1.0, 1.5, 2.0, 3.0, 5.0, 7.0), (1.0, 2.0, 5.0), (1.0, 3.0), (1.0,))


def select(tables: FigureTables, spec: specifications.Figure) -> pandas.DataFrame:
    """Return the points of the shown surfaces, or one row per run and position on a line."""
    table = getattr(tables, spec.table)
    if table.empty:
        return table
    if not spec.x_columns:
        return _select_surfaces(table)
    (over,) = spec.x_columns
    if spec.lines:
        names = [*run_series.varying_factors(table), "batch_size", "seed", over, spec.lines]
        names += [*spec.columns, *(panel.column for panel in spec.panels)]
        return table[list(dict.fromkeys(names))].reset_index(drop=True)
    lines = table[table["kind"] == "line"]
    at_zero = lines[lines[over] == 0].drop_duplicates(["run", "index"])
    loss_at_zero = at_zero.set_index(["run", "index"])["loss"].rename("foot")
    lines = lines.join(loss_at_zero, on=["run", "index"])
    lines["rise"] = lines["loss"] - lines["foot"]
    keys = [*run_series.varying_factors(lines), "batch_size", "seed", over]
    means = lines.groupby(keys, sort=False, dropna=False)[["loss", "rise"]]
    return means.mean(skipna=False).reset_index()


def _select_surfaces(table: pandas.DataFrame) -> pandas.DataFrame:
    """Return the points of the first surface of every shown run.

    If series and seeds are many, the first seed of each series is shown.
    """
    surfaces = table[table["kind"] == "surface"]
    if not np.isfinite(surfaces["loss"].astype(float)).any():
        return surfaces.iloc[:0]
    surfaces = surfaces[surfaces["index"] == surfaces["index"].min()]
    sizes = sorted(surfaces["batch_size"].unique().tolist())
    if len(sizes) > _MAX_SIZES:
        surfaces = surfaces[surfaces["batch_size"].isin([sizes[0], sizes[-1]])]
    if len(_labelled_parts(surfaces, "seed")) > _MAX_ROWS:
        surfaces = surfaces[surfaces["seed"] == surfaces["seed"].min()]
    columns = [*run_series.varying_factors(surfaces), "batch_size", "seed"]
    return surfaces[[*columns, "index", "a", "b", "loss"]].reset_index(drop=True)


def _labelled_parts(frame: pandas.DataFrame, column: str) -> list[tuple[str, pandas.DataFrame]]:
    """Return label and rows of each pair of a series and a value of the column."""
    name = f"{column.replace('_', ' ')} {{}}" if frame[column].nunique() > 1 else ""
    return [
        (", ".join(filter(None, [group.label, name.format(value)])), rows)
        for group in run_series.split_series(frame)
        for value, rows in group.frame.groupby(column)
    ]


def draw(frame: pandas.DataFrame, spec: specifications.Figure) -> Figure:
    return _draw_curves(frame, spec) if spec.x_columns else _draw_surfaces(frame, spec)


def _draw_curves(frame: pandas.DataFrame, spec: specifications.Figure) -> Figure:
    """Return a row of panels for each series; on a line between minimisers, for each batch size."""
    (over,), line_column = spec.x_columns, spec.lines or "batch_size"
    if spec.lines:
        parts = _labelled_parts(frame, "batch_size")
    else:
        parts = [(group.label, group.frame) for group in run_series.split_series(frame)]
    parts = parts[: canvas.MAX_SERIES]
    count = len(parts) * len(spec.panels)
    columns = len(spec.panels) if len(spec.panels) > 1 else count
    figure, grid = canvas.panels(count, columns, 4.2 if len(parts) < 3 else 3.4, 2.9, sharex=True)
    if spec.lines:
        splits = [split for split in _SPLITS if (frame[line_column] == split).any()]
        styles = dict(zip(splits, canvas.series_styles(len(splits)), strict=True))
        styles = {split: {**props, "marker": ""} for split, props in styles.items()}
        canvas.draw_legend(figure, [(props, _SPLITS[split]) for split, props in styles.items()])
    else:
        styles = canvas.size_styles(frame[line_column].unique())
        canvas.draw_size_legend(figure, styles)
    contents = itertools.product(parts, spec.panels)
    for axes, ((label, part), panel) in zip(grid, contents, strict=True):
        for value, props in styles.items():
            rows = part[part[line_column] == value].astype({panel.column: float})
            table = rows.pivot_table(panel.column, over, "seed", dropna=False)
            if table.empty:
                continue
            table = table.where(np.isfinite)
            canvas.draw_curve(axes, table, props)
            if table.notna().sum(axis=1).max() > 1:
                axes.plot(table.index, table, color=props["color"], linewidth=0.5, alpha=0.5)
        canvas.set_linear_ticks(axes.yaxis)
        axes.xaxis.set_major_locator(MaxNLocator(nbins=5, steps=(1, 2, 5, 10)))
        canvas.limit_to_values(axes, frame[panel.column], 0.08)
        if panel.scale == Scale.PERCENT:
            axes.yaxis.set_major_formatter(canvas.percent_tick)
        axes.set(xlabel=f"position {over}", ylabel=panel.label)
        canvas.set_title(axes, display.titled(panel.title, label), 11 if spec.lines else 0)
        if spec.lines:
            _mark_minimisers(axes, part.iloc[0])
    return figure


def _mark_minimisers(axes: Axes, row: pandas.Series) -> None:
    """Mark both minimisers with their values of the factor that differs."""
    props = {"xycoords": axes.get_xaxis_transform(), "fontsize": 7.5, "color": canvas.INK}
    for column, x in _MINIMISERS.items():
        name = run_series.describe({row["factor"]: row[column]})
        axes.axvline(x, color=canvas.MUTED, linewidth=0.8, zorder=1)
        canvas.annotate(axes, name, (x, 1.0), (0, 3), ha="center", annotation_clip=False, **props)


def _draw_surfaces(frame: pandas.DataFrame, spec: specifications.Figure) -> Figure:
    """Return one row per series and seed, one panel per batch size, and one colour bar."""
    sizes = sorted(frame["batch_size"].unique().tolist())
    parts = _labelled_parts(frame, "seed")[:_MAX_ROWS]
    count, shared = len(parts) * len(sizes), {"sharex": True, "sharey": True}
    figure, grid = canvas.panels(count, len(sizes), 2.55, 2.6, **shared)
    figure.set_figwidth(figure.get_figwidth() + _BAR_WIDTH)
    levels = contour_levels(frame["loss"].to_numpy(float))
    # Every step between levels is an equal step of colour.
    colours = ListedColormap(matplotlib.colormaps["viridis"](np.linspace(0.35, 1.0, 256)))
    props = {"cmap": colours, "norm": BoundaryNorm(levels, 256)}
    for axes, ((label, part), size) in zip(grid, itertools.product(parts, sizes), strict=True):
        heading = label if size == sizes[0] else ""
        canvas.set_title(axes, ", ".join(filter(None, [heading, f"batch size {size}"])))
        _draw_surface(axes, part[part["batch_size"] == size], levels, props)
        axes.set(xlabel="a", ylabel="b")
        axes.label_outer()
    bar = figure.colorbar(ScalarMappable(**props), ax=grid, shrink=0.9, pad=0.02)
    bar.set_label(spec.panels[0].label)
    bar.ax.set_title("Loss")
    bar.ax.set_yticks(levels, map(display.tick, levels))
    bar.ax.minorticks_off()
    return figure


def contour_levels(losses: np.ndarray) -> np.ndarray:
    """Return round levels that enclose all losses, with equal ratios if the losses span much."""
    losses = losses[np.isfinite(losses)]
    low, high = float(losses.min()), float(losses.max())
    if low <= 0 or high < canvas.LOG_SPAN * low:
        high = high if high > low else low + (abs(low) or 1.0) * 1e-3
        return MaxNLocator(nbins=_MAX_LEVELS, steps=(1, 2, 2.5, 5, 10)).tick_values(low, high)
    for steps in _LOG_STEPS:
        ticks = LogLocator(subs=steps, numticks=400).tick_values(low / 10, high * 10)
        first, last = np.searchsorted(ticks, low, "right") - 1, np.searchsorted(ticks, high)
        levels = ticks[first : last + 1]
        if len(levels) <= _MAX_LEVELS + 1:
            return levels
    step = -(-len(levels) // _MAX_LEVELS)
    return np.unique(np.append(levels[::step], levels[-1]))


def _draw_surface(
    axes: Axes, points: pandas.DataFrame, levels: np.ndarray, props: dict[str, Any]
) -> None:
    axes.set_aspect("equal")
    axes.grid(visible=False)
    if points.empty:
        canvas.write_no_data(axes, "no surface")
        return
    table = points.pivot_table("loss", "b", "a", dropna=False)
    plane = (table.columns.to_numpy(float), table.index.to_numpy(float))
    loss = np.ma.masked_invalid(table.to_numpy(float))
    axes.contourf(*plane, loss, levels, **props)
    axes.contour(*plane, loss, levels, colors="#000000", linewidths=0.4)
    for colour, size, width in ((canvas.PAPER, 9, 2.6), ("#000000", 8, 1.1)):
        cross = {"color": colour, "markersize": size, "markeredgewidth": width}
        axes.plot(0, 0, "+", zorder=4, **cross)
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_major_locator(MaxNLocator(nbins=4, steps=(1, 2, 5, 10)))
