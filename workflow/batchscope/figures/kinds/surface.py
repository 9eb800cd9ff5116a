"""Loss surfaces as contours over a plane through trained weights, with one colour bar."""

from __future__ import annotations

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
from batchscope.figures import FigureTables, axis_scales, canvas, figure_rows
from batchscope.study import specifications

_MAX_SIZES = 4  # Of more batch sizes, the smallest and the largest are shown.
_MAX_ROWS = 3  # rows of series and seeds
_BAR_WIDTH = 0.7  # inches of the colour bar with its label
_MAX_LEVELS = 11
_LOG_STEPS = ((1.0, 1.5, 2.0, 3.0, 5.0, 7.0), (1.0, 2.0, 5.0), (1.0, 3.0), (1.0,))


def select(tables: FigureTables, spec: specifications.Figure) -> pandas.DataFrame:
    """Return the points of the first surface of every shown run.

    If series and seeds are many, the first seed of each series is shown.
    """
    table = getattr(tables, spec.table)
    if table.empty:
        return table
    surfaces = table[table["kind"] == "surface"]
    if not np.isfinite(surfaces["loss"].astype(float)).any():
        return surfaces.iloc[:0]
    surfaces = surfaces[surfaces["index"] == surfaces["index"].min()]
    sizes = sorted(surfaces["batch_size"].unique().tolist())
    if len(sizes) > _MAX_SIZES:
        surfaces = surfaces[surfaces["batch_size"].isin([sizes[0], sizes[-1]])]
    if len(figure_rows.labelled_parts(surfaces, "seed")) > _MAX_ROWS:
        surfaces = surfaces[surfaces["seed"] == surfaces["seed"].min()]
    columns = [*run_series.varying_factors(surfaces), "batch_size", "seed"]
    return surfaces[[*columns, "index", "a", "b", "loss"]].reset_index(drop=True)


def draw(frame: pandas.DataFrame, spec: specifications.Figure) -> Figure:
    """Return one row per series and seed, one panel per batch size."""
    sizes = sorted(frame["batch_size"].unique().tolist())
    parts = figure_rows.labelled_parts(frame, "seed")[:_MAX_ROWS]
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
    if low <= 0 or high < axis_scales.LOG_SPAN * low:
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
