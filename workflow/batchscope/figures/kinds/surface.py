"""The loss over a plane through trained weights, as contours, by batch size."""

from __future__ import annotations

from typing import Any

import matplotlib
import numpy as np
import pandas
from matplotlib.axes import Axes
from matplotlib.cm import ScalarMappable
from matplotlib.colors import BoundaryNorm, ListedColormap
from matplotlib.figure import Figure
from matplotlib.ticker import FixedLocator, FuncFormatter, LogLocator, MaxNLocator

from batchscope import wording
from batchscope.analysis import run_series
from batchscope.catalogue import entries
from batchscope.figures import Tables
from batchscope.figures.drawing import canvas

_MOST_COLUMNS = 4  # batch sizes beyond which the smallest and largest alone are shown
_MOST_ROWS = 3  # series and seeds
_BAR_WIDTH = 0.7  # of the colour bar with its label, in inches
_LEVELS = 11
_LOG_SPAN = 12.0  # ratio of highest to lowest loss from which levels are spaced by their ratio
_SUBS = ((1.0, 1.5, 2.0, 3.0, 5.0, 7.0), (1.0, 2.0, 5.0), (1.0, 3.0), (1.0,))


def select(tables: Tables, spec: entries.Figure) -> pandas.DataFrame:
    """Returns one row per shown run and point of its first surface: factors, a, b and loss.

    Few batch sizes, and where series and seeds are many the first seed of each series.
    """
    table = getattr(tables, spec.table)
    if table.empty:
        return table
    surfaces = table[table["kind"] == "surface"]
    if not np.isfinite(surfaces["loss"].astype(float)).any():
        return surfaces.iloc[:0]
    surfaces = surfaces[surfaces["index"] == surfaces["index"].min()]
    sizes = sorted(surfaces["batch_size"].unique().tolist())
    if len(sizes) > _MOST_COLUMNS:
        surfaces = surfaces[surfaces["batch_size"].isin([sizes[0], sizes[-1]])]
    if len(_rows(surfaces)) > _MOST_ROWS:
        surfaces = surfaces[surfaces["seed"] == surfaces["seed"].min()]
    columns = [*run_series.varying(surfaces), "batch_size", "seed", "index", "a", "b", "loss"]
    return surfaces[columns].reset_index(drop=True)


def draw(frame: pandas.DataFrame, spec: entries.Figure) -> Figure:
    """Returns the figure: one row per series and seed, one panel per batch size."""
    (panel,) = spec.panels
    sizes = sorted(frame["batch_size"].unique().tolist())
    rows = _rows(frame)[:_MOST_ROWS]
    figure, grid = canvas.panels(len(rows), len(sizes), 2.55, 2.6, sharex=True, sharey=True)
    figure.set_figwidth(figure.get_figwidth() + _BAR_WIDTH)
    levels = contour_levels(frame["loss"].to_numpy(float))
    for axes_row, (label, group) in zip(grid, rows, strict=True):
        for axes, size in zip(axes_row, sizes, strict=True):
            heading = label if size == sizes[0] else ""
            canvas.title(axes, ", ".join(filter(None, [heading, f"batch size {size}"])))
            _draw_surface(axes, group[group["batch_size"] == size], levels)
    for axes in grid[-1]:
        axes.set_xlabel("a")
    for axes in grid[:, 0]:
        axes.set_ylabel("b")
    bar = figure.colorbar(
        ScalarMappable(**_colours(levels)), ax=grid, shrink=0.9, pad=0.02, label=panel.label
    )
    bar.ax.set_title("Loss")
    bar.ax.yaxis.set_major_locator(FixedLocator(levels))
    bar.ax.yaxis.set_major_formatter(FuncFormatter(lambda value, _: wording.tick(value)))
    bar.ax.minorticks_off()
    return figure


def _rows(frame: pandas.DataFrame) -> list[tuple[str, pandas.DataFrame]]:
    several = frame["seed"].nunique() > 1
    return [
        (", ".join(filter(None, [group.label, f"seed {seed}" if several else ""])), rows)
        for group in run_series.series(frame)
        for seed, rows in group.frame.groupby("seed")
    ]


def contour_levels(losses: np.ndarray) -> np.ndarray:
    """Returns round levels that enclose all losses.

    Evenly spaced by their ratio where positive losses span much, else by their difference.
    """
    losses = losses[np.isfinite(losses)]
    low, high = float(losses.min()), float(losses.max())
    if low <= 0 or high < _LOG_SPAN * low:
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


def _draw_surface(axes: Axes, points: pandas.DataFrame, levels: np.ndarray) -> None:
    axes.set_aspect("equal")
    axes.grid(visible=False)
    if points.empty:
        canvas.empty(axes, "no surface")
        return
    table = points.pivot_table("loss", "b", "a", dropna=False)
    a, b = table.columns.to_numpy(float), table.index.to_numpy(float)
    loss = np.ma.masked_invalid(table.to_numpy(float))
    axes.contourf(a, b, loss, levels, **_colours(levels))
    axes.contour(a, b, loss, levels, colors="#000000", linewidths=0.4)
    axes.plot(0, 0, "+", color=canvas.PAPER, markersize=9, markeredgewidth=2.6, zorder=4)
    axes.plot(0, 0, "+", color="#000000", markersize=8, markeredgewidth=1.1, zorder=5)
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_major_locator(MaxNLocator(nbins=4, steps=(1, 2, 5, 10)))


def _colours(levels: np.ndarray) -> dict[str, Any]:
    """Returns map and scale: every step between levels is an equal step of colour."""
    colours = matplotlib.colormaps["viridis"](np.linspace(0.35, 1.0, 256))
    return {"cmap": ListedColormap(colours), "norm": BoundaryNorm(levels, 256)}
