"""Loss over a plane through the trained weights, as contours, by batch size."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from typing import Any

import matplotlib
import numpy as np
import pandas
from matplotlib.axes import Axes
from matplotlib.cm import ScalarMappable
from matplotlib.colors import BoundaryNorm, ListedColormap
from matplotlib.contour import ContourSet
from matplotlib.figure import Figure
from matplotlib.path import Path
from matplotlib.ticker import FixedLocator, FuncFormatter, MaxNLocator

from batchscope import wording
from batchscope.analysis import landscape_rises, run_series
from batchscope.figures import Tables
from batchscope.figures.drawing import against_batch_size, against_epoch, canvas, marks, words

_MOST_COLUMNS = 4  # batch sizes beyond which the smallest and largest alone are shown
_MOST_PANELS = 6  # beyond which one seed of each series is shown
_MOST_SERIES = 4
_BAR_WIDTH = 0.7  # of the colour bar with its label, in inches
_LEVELS = 12
_LOG_SPAN = 12.0  # ratio of highest to lowest loss from which levels are spaced by their ratio
_MANTISSAS = ((1, 1.2, 1.5, 2, 2.5, 3, 4, 5, 6, 8), (1, 1.5, 2, 3, 5, 7), (1, 2, 5), (1, 3), (1,))
_MARGIN, _APART = 0.08, 0.13  # shares of a panel that labels keep from edges and each other
_TOLERANCE = 0.0015  # share of the span by which a drawn contour may leave the computed one


def select(tables: Tables) -> pandas.DataFrame:
    """Returns one row per shown run, surface and point: factors, index, a, b and loss.

    Every seed and surface where there is room, else all surfaces of one seed, else the first
    ones. Runs that are shown and have no surface have one row; `seeds` counts all seeds and
    `surfaces` all surfaces of a run.
    """
    surfaces = tables.landscapes[tables.landscapes["kind"] == "surface"]
    planes = sorted(surfaces["index"].unique().tolist())
    shown = _shown(run_series.own(tables.runs), set(surfaces["run"]), len(planes))
    room = max(1, _MOST_PANELS // max(len(shown), 1))
    surfaces = surfaces[surfaces["run"].isin(shown["run"]) & surfaces["index"].isin(planes[:room])]
    frame = against_batch_size.with_absent(surfaces, shown)
    frame["seeds"], frame["surfaces"] = tables.runs["seed"].nunique(), len(planes)
    columns = ["seeds", "surfaces", "index", "a", "b", "loss"]
    return frame[[*against_batch_size.factor_columns(frame), *columns]].reset_index(drop=True)


def _shown(runs: pandas.DataFrame, measured: set[str], planes: int) -> pandas.DataFrame:
    """Returns the runs to show: few batch sizes, and every seed or the best covered one."""
    sizes = sorted(runs["batch_size"].unique().tolist())
    if len(sizes) > _MOST_COLUMNS:
        runs = runs[runs["batch_size"].isin([sizes[0], sizes[-1]])]
    groups = run_series.series(runs)
    columns = runs["batch_size"].nunique()
    if len(groups) * runs["seed"].nunique() * columns * max(planes, 1) <= _MOST_PANELS:
        return runs
    parts = []
    for group in groups[:_MOST_SERIES]:
        rows = group.frame
        covered = rows["run"].isin(measured).groupby(rows["seed"]).sum()
        parts.append(rows[rows["seed"] == covered.idxmax()])  # the first among equals
    return pandas.concat(parts)


def draw(frame: pandas.DataFrame) -> Figure:
    """Returns the figure: one row per series and seed, one panel per batch size."""
    sizes = sorted(frame["batch_size"].unique().tolist())
    rows = _rows(frame)
    # Of one batch size they stand in a row.
    down, across = (len(rows), len(sizes)) if len(sizes) > 1 else (1, len(rows))
    figure, grid = canvas.panels(down, across, width=2.55, height=2.6, sharex=True, sharey=True)
    figure.set_figwidth(figure.get_figwidth() + _BAR_WIDTH)
    grid = grid.reshape(len(rows), len(sizes))
    levels = contour_levels(frame["loss"].to_numpy(float))
    tolerance = _TOLERANCE * max(1.0, len(rows) * len(sizes) / _MOST_PANELS)
    drawn = []
    for axes_row, (label, group) in zip(grid, rows, strict=True):
        for axes, size in zip(axes_row, sizes, strict=True):
            chosen = group[group["batch_size"] == size]
            drawn.append(_draw_panel(axes, chosen, levels, tolerance))
            axes.set_title(f"Batch size {size}")
        if label:
            axes_row[0].set_title(f"{wording.capital(label)}\nBatch size {sizes[0]}")
    for axes in grid.flat:
        place = axes.get_subplotspec()
        axes.set_xlabel("a (first direction)" if place.is_last_row() else "")
        axes.set_ylabel("b (second direction)" if place.is_first_col() else "")
    if levels is not None:
        shown = ScalarMappable(**_colours(levels))
        bar = figure.colorbar(shown, ax=grid, shrink=0.9, pad=0.02, label="training loss (nats)")
        bar.ax.set_title("Loss")
        bar.ax.yaxis.set_major_locator(FixedLocator(levels))
        bar.ax.yaxis.set_major_formatter(FuncFormatter(lambda value, _: wording.tick(value)))
        bar.ax.minorticks_off()
    canvas.notes(figure, against_epoch.runs(frame), _seed_note(frame))
    # How wide a gap a label needs follows from the panels' final sizes.
    figure.get_layout_engine().execute(figure)
    for lines in filter(None, drawn):
        places = label_places(lines)
        for text in lines.clabel(fontsize=6.5, fmt=wording.tick, inline_spacing=2, manual=places):
            text.set_rotation(0)  # upright ones read better than those that follow the line
    return figure


def found(frame: pandas.DataFrame) -> str:
    """Returns the mean rise along the planes' directions, by batch size: half way and at the edge.

    Directions and signs are averaged within a run first, then seeds.
    """
    points = frame[frame["a"].notna() & (frame["status"] == canvas.FINISHED)]
    if points.empty:
        return ""
    aways = landscape_rises.half_and_edge(points["a"])
    parts = []
    for group in run_series.series(frame):
        rises = landscape_rises.along_axes(group.frame, aways)
        means = rises.groupby("batch_size").mean()
        for size in dict.fromkeys([*means.index[:1], *means.index[-1:]]):
            values = [
                f"{wording.number(value)} nats at distance {wording.number(away)}"
                for away, value in means.loc[size].dropna().items()
            ]
            if values:
                count = int(rises.loc[size].notna().any(axis=1).sum())
                seeds = words.seeds((count, int(frame["seeds"].iloc[0])))
                where = ", ".join(filter(None, [group.label, f"batch size {size}"]))
                parts.append(f"{wording.listed(values)} ({where}; {seeds})")
    what = "Along the directions of the planes shown the mean rise of the training loss was "
    return f"{what}{'; '.join(parts[:_MOST_SERIES])}." if parts else ""


def contour_levels(losses: np.ndarray) -> np.ndarray | None:
    """Returns round levels that enclose all losses; None where there is nothing to enclose.

    Evenly spaced by their ratio where positive losses span much, else by their difference. Losses
    have any shape; what is not finite does not count.
    """
    losses = losses[np.isfinite(losses)]
    if losses.size == 0:
        return None
    low, high = float(losses.min()), float(losses.max())
    if low <= 0 or high < _LOG_SPAN * low:
        high = high if high > low else low + (abs(low) or 1.0) * 1e-3
        return MaxNLocator(nbins=_LEVELS - 1, steps=(1, 2, 2.5, 5, 10)).tick_values(low, high)
    for mantissas in _MANTISSAS:
        levels = _log_levels(low, high, mantissas)
        if len(levels) <= _LEVELS:
            return levels
    step = -(-(len(levels) - 1) // (_LEVELS - 1))
    # The lowest of whole steps still lies below all losses.
    return np.unique(np.append(levels[::step], levels[-1]))


def _log_levels(low: float, high: float, mantissas: Sequence[float]) -> np.ndarray:
    decades = np.arange(np.floor(np.log10(low)) - 1, np.ceil(np.log10(high)) + 2)
    every = np.sort(np.outer(10.0**decades, mantissas).ravel())
    every = np.array([float(f"{level:.3g}") for level in every])
    first = np.searchsorted(every, low, side="right") - 1
    last = np.searchsorted(every, high, side="left")
    return every[first : last + 1]


def _rows(frame: pandas.DataFrame) -> list[tuple[str, pandas.DataFrame]]:
    several = frame["seed"].nunique() > 1
    planes = sorted(frame["index"].dropna().unique().tolist())
    found = []
    for group in run_series.series(frame):
        for (seed, rows), plane in product(group.frame.groupby("seed"), planes or [0]):
            parts = [group.label, f"seed {seed}" if several else ""]
            parts.append(f"plane {int(plane) + 1}" if len(planes) > 1 else "")
            of_plane = rows[(rows["index"] == plane) | rows["index"].isna()]
            found.append((", ".join(filter(None, parts)), of_plane))
    return found or [("", frame)]


def _draw_panel(
    axes: Axes, rows: pandas.DataFrame, levels: np.ndarray | None, tolerance: float
) -> ContourSet | None:
    """Draws one surface; returns its lines, which are yet to be labelled."""
    points = rows[rows["a"].notna()]
    axes.set_aspect("equal")
    axes.grid(False)
    if levels is None or points.empty:
        finished = (rows["status"] == canvas.FINISHED).any()
        canvas.empty(axes, "no surface" if finished else "no finished run")
        return None
    table = points.pivot_table("loss", "b", "a", dropna=False)
    a, b = table.columns.to_numpy(float), table.index.to_numpy(float)
    loss = np.ma.masked_invalid(table.to_numpy(float))
    filled = axes.contourf(a, b, loss, levels, **_colours(levels))
    lines = axes.contour(a, b, loss, levels, colors="black", linewidths=0.6)
    for drawn in (filled, lines):
        allowed = tolerance * float(np.ptp(a))
        drawn.set_paths([simplified(path, allowed) for path in drawn.get_paths()])
    axes.plot(0, 0, marker="+", color="white", markersize=9, markeredgewidth=2.6, zorder=4)
    (foot,) = axes.plot(0, 0, marker="+", color="black", markersize=8, mew=1.1, zorder=5)
    at_foot = points[(points["a"] == 0) & (points["b"] == 0)]
    marks.points(foot, at_foot, at_foot["loss"])
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_major_locator(MaxNLocator(nbins=4, steps=(1, 2, 5, 10)))
    return lines


def label_places(lines: ContourSet) -> list[tuple[float, float]]:
    """Returns where to label: at most once per level, clear of the edges and of each other.

    The outermost level first, each as far as may be from the centre and from what is labelled;
    levels without room have no label, and the colour bar shows their values.
    """
    (left, right), (bottom, top) = lines.axes.get_xlim(), lines.axes.get_ylim()
    size = np.array([right - left, top - bottom])
    taken = [np.array([0.0, 0.0])]
    places = []
    for path in lines.get_paths()[::-1]:
        shares = (path.vertices - [left, bottom]) / size
        inside = path.vertices[(np.abs(shares - 0.5) < 0.5 - _MARGIN).all(axis=1)]
        if len(inside) == 0:
            continue
        apart = np.min([np.hypot(*((inside - at) / size).T) for at in taken], axis=0)
        farthest = int(np.argmax(apart))
        if apart[farthest] > _APART:
            taken.append(inside[farthest])
            places.append((float(inside[farthest][0]), float(inside[farthest][1])))
    return places


def _colours(levels: np.ndarray) -> dict[str, Any]:
    """Returns map and scale: every step between levels is an equal step of colour.

    The map is viridis without its dark end, so that black lines and text stand out on all of it.
    """
    colours = matplotlib.colormaps["viridis"](np.linspace(0.35, 1.0, 256))
    return {"cmap": ListedColormap(colours), "norm": BoundaryNorm(levels, 256)}


def simplified(path: Path, tolerance: float) -> Path:
    """Returns a path without the vertices that lie within a tolerance of the line through others.

    A contour crosses every line of the grid; most crossings say nothing that is to be seen.
    Douglas and Peucker 1973, ring by ring.
    """
    if path.codes is None or len(path.vertices) == 0:
        return path
    rings = []
    starts = np.flatnonzero(path.codes == Path.MOVETO)
    for ring in np.split(np.arange(len(path.codes)), starts[1:]):
        kept = ring[_kept(path.vertices[ring], tolerance)]
        rings.append(Path(path.vertices[kept], path.codes[kept]))
    return Path.make_compound_path(*rings)


def _kept(vertices: np.ndarray, tolerance: float) -> np.ndarray:
    """Returns which vertices of an open line matter, first and last always."""
    kept = np.zeros(len(vertices), bool)
    kept[[0, -1]] = True
    # A closed ring begins where it ends: the vertex farthest from there divides it in two.
    stack = [(0, len(vertices) - 1)]
    while stack:
        first, last = stack.pop()
        if last - first < 2:
            continue
        away = _distances(vertices[first : last + 1])
        farthest = int(np.argmax(away))
        if away[farthest] > tolerance:
            middle = first + farthest
            kept[middle] = True
            stack += [(first, middle), (middle, last)]
    return kept


def _distances(vertices: np.ndarray) -> np.ndarray:
    """Returns the distance of every vertex from the segment between the first and the last."""
    start, along = vertices[0], vertices[-1] - vertices[0]
    length = along @ along
    rest = vertices - start
    share = np.clip(rest @ along / length, 0, 1) if length > 0 else np.zeros(len(rest))
    return np.hypot(*(rest - share[:, None] * along).T)


def _seed_note(frame: pandas.DataFrame) -> str:
    total, shown = int(frame["seeds"].iloc[0]), sorted(frame["seed"].unique().tolist())
    planes, drawn = int(frame["surfaces"].iloc[0]), frame["index"].nunique()
    parts = []
    if len(shown) < total:
        which = f"Seed {shown[0]}" if len(shown) == 1 else f"Seeds {', '.join(map(str, shown))}"
        parts.append(f"{which} of {total} seeds")
    if 0 < drawn < planes:
        parts.append(f"{drawn} of {planes} planes of each run")
    return f"{', '.join(parts)}; landscapes.csv holds every surface." if parts else ""
