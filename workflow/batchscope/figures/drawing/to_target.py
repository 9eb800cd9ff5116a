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

from batchscope.analysis import critical_batch_size, fastest_batch_size
from batchscope.analysis.critical_batch_size import CriticalBatchSize
from batchscope.analysis.updates_to_target import AXES, Scaling
from batchscope.figures.drawing import canvas, marks

# Regime -> its shade: light, so that grey points and lines stay apart from it.
_SHADES = {
    critical_batch_size.PERFECT: "#e3eef7",
    critical_batch_size.DIMINISHING: "#ffffff",
    critical_batch_size.MAXIMAL: "#f8e9dd",
}
LINE = canvas.COLOURS[0]
_SEED: dict[str, Any] = {"color": "#8c8c8c", "markersize": 3.5}
_MEAN = canvas.COLOURS[-1]
_POINTS = 30  # of a curve
_SLIVER = 0.01  # share of a panel that is too narrow for a shade
_CRITICAL = "B_crit [95 % interval]"
CRITICAL, FASTEST = canvas.COLOURS[1], canvas.COLOURS[2]


class Mark(NamedTuple):
    """A batch size with its interval, at the foot of a panel."""

    label: str
    value: float  # NaN where there is an end alone
    low: float  # NaN where it is open
    high: float
    colour: str
    marker: str
    bar: bool = True  # whether it has an interval, whose open ends are arrows


class Panel(NamedTuple):
    """One series and target, with the words above its updates, its examples and its seconds."""

    scaling: Scaling
    title: str
    critical: str
    fastest: str
    noise: tuple[Mark, ...] = ()  # at the foot of its updates, below the critical batch size


def draw(panels: Sequence[Panel], seconds: bool | None = None) -> Figure:
    """Returns the figure: a row per series and target; updates, examples and, if known, seconds."""
    if seconds is None:
        seconds = any("seconds" in panel.scaling.measured or panel.fastest for panel in panels)
    with canvas.style():
        figure, axes = canvas.panels(len(panels), 3 if seconds else 2, width=3.6)
        shades: set[str] = set()
        for row, panel in zip(axes, panels, strict=True):
            shades |= _draw_row(row, panel)
        for one in axes[:-1].flat:
            one.set_xlabel("")
        critical = {"color": CRITICAL, "linestyle": "--", "marker": "D", "markersize": 4}
        entries: list[tuple[Any, str]] = [
            (Line2D([], [], linestyle="none", marker="o", **_SEED), "a seed"),
            (Line2D([], [], linestyle="none", marker="s", color=_MEAN), "geometric mean"),
            (Line2D([], [], color=LINE), "fit"),
            (Patch(color=LINE, alpha=0.25), "95 % band"),
            (Line2D([], [], **critical), _CRITICAL),
        ]
        noise = (mark for panel in panels for mark in panel.noise)
        for label, colour, marker in dict.fromkeys(
            (mark.label, mark.colour, mark.marker) for mark in noise
        ):
            entries.append((Line2D([], [], color=colour, marker=marker, markersize=5), label))
        if seconds:
            entries.append((Line2D([], [], color=FASTEST, linestyle=":"), "B* [95 % interval]"))
        for regime in (each for each in _SHADES if each in shades):
            entries.append((Patch(facecolor=_SHADES[regime], edgecolor="#bbbbbb"), regime))
        canvas.legend_of(figure, entries)
    return figure


def _draw_row(row: np.ndarray, panel: Panel) -> set[str]:
    """Draws a row; returns the regimes that are shaded in it."""
    shades: set[str] = set()
    scaling, fit = panel.scaling, panel.scaling.fit
    titles = (panel.title, panel.critical, panel.fastest)
    for axes, axis, title in zip(row, AXES, titles, strict=False):
        axes.set_yscale("log")
        if axis in scaling.measured:
            draw_points(axes, scaling, axis)
        if fit and axis != "seconds":
            _draw_fit(axes, scaling, fit, per_update=axis == "updates")
        if axis == "seconds":
            draw_closed_form(axes, scaling)
        if not axes.has_data():
            canvas.empty(axes, "no seconds" if axis == "seconds" else "never reached")
        axes.set_ylabel("time to it (s)" if axis == "seconds" else f"{axis} to it")
        canvas.batch_size_axis(axes, scaling.batch_sizes)
        axes.grid(axis="x", visible=False)
        if fit and axis != "seconds":
            shades |= shade(axes, fit)
            ends = (fit.critical_batch_size, fit.low, fit.high)
            critical = Mark(_CRITICAL, *ends, CRITICAL, "D")
            mark_batch_sizes(axes, [critical, *(panel.noise if axis == "updates" else ())])
        finish(axes, scaling, axis)
        axes.set_title(title, fontsize=9 if axes is row[0] else 8)
    return shades


def finish(axes: Axes, scaling: Scaling, axis: str) -> None:
    """Labels the vertical axis, and leaves room above the data for what never got there."""
    if not axes.has_data():
        return
    low, high = axes.get_ylim()
    if np.isinf(scaling.measured.get(axis, np.nan)).any():
        high *= (high / low) ** 0.22
        axes.set_ylim(low, high)
    canvas.few_log_labels(axes.yaxis, high / low)


def mark_batch_sizes(axes: Axes, marks: Sequence[Mark]) -> None:
    """Draws batch sizes and their intervals below the data, each in a row of its own.

    What lies beyond the panel is an arrow at its edge, as an open end is.
    """
    marks = [mark for mark in marks if np.isfinite([mark.value, mark.low, mark.high]).any()]
    low, high = np.log(axes.get_ylim())
    step = 0.075 * (high - low)
    axes.set_ylim(math.exp(low - step * len(marks)), math.exp(high))
    left, right = axes.get_xlim()
    inner = (left + 0.015 * (right - left), right - 0.015 * (right - left))
    foot = (low - step * (len(marks) - 0.45), low + 0.45 * step)
    for place, mark in zip(
        np.exp(np.linspace(*foot, len(marks) + 1)[:-1][::-1]), marks, strict=True
    ):
        look = {"color": mark.colour, "zorder": 5}
        value = math.log2(mark.value) if mark.value > 0 else math.nan
        known = [value]
        if mark.bar:
            start = math.log2(mark.low) if mark.low > 0 else -math.inf
            stop = math.log2(mark.high) if mark.high > 0 else math.inf
            known += [start, stop]
            drawn = np.clip([start, stop], *inner)
            if drawn[0] < drawn[1]:
                axes.plot(drawn, [place] * 2, lw=1.6, solid_capstyle="butt", **look)
        if any(at < inner[0] for at in known):
            axes.plot(inner[0], place, marker="<", markersize=5, **look)
        if any(at > inner[1] for at in known):
            axes.plot(inner[1], place, marker=">", markersize=5, **look)
        if inner[0] <= value <= inner[1]:
            axes.plot(value, place, marker=mark.marker, markersize=5, mec="white", mew=0.5, **look)
    axes.set_xlim(left, right)


def draw_points(axes: Axes, scaling: Scaling, axis: str, mean: bool = True) -> None:
    """Draws every seed, and the geometric mean of a size that got there with all of them."""
    seeds: list[tuple[float, float]] = []
    means: list[tuple[float, float]] = []
    runs: list[dict[str, Any]] = []
    every = zip(scaling.batch_sizes, scaling.measured[axis], scaling.means(axis), strict=True)
    for row, (size, values, found) in enumerate(every):
        there = np.isfinite(values) & (values > 0)
        reached = values[there]
        never = int(np.isinf(values).sum())
        at = math.log2(size)
        if len(reached) > 1:
            seeds += [(at, value) for value in reached]
            runs += [_run(scaling, axis, row, int(column)) for column in np.flatnonzero(there)]
        if math.isfinite(found.mean):
            means.append((at, found.mean))
        if never:
            look = {"xycoords": axes.get_xaxis_transform(), "ha": "center", "va": "top"}
            look |= {"rotation": 90, "fontsize": 7, "color": canvas.FAILED_COLOUR}
            canvas.annotate(axes, f"{never} never", (at, 1.0), (0, -2), **look)
    if seeds:
        (drawn,) = axes.plot(*zip(*seeds, strict=True), "o", **_SEED, markeredgewidth=0, zorder=3)
        marks.points(drawn, pandas.DataFrame(runs), [value for _, value in seeds])
    if mean and means:
        axes.plot(*zip(*means, strict=True), "s", color=_MEAN, markersize=5, zorder=4)


def _run(scaling: Scaling, axis: str, row: int, column: int) -> dict[str, Any]:
    """Returns the factors of the run that a seed is read at on an axis."""
    rates = scaling.rates_by(axis)
    rate = {"learning_rate": rates.read[row, column]} if rates is not None else {}
    values = {"batch_size": scaling.batch_sizes[row], "seed": scaling.seeds[column]}
    return {**scaling.factors, **rate, **values}


def _draw_fit(axes: Axes, scaling: Scaling, fit: CriticalBatchSize, per_update: bool) -> None:
    chosen = np.array(scaling.batch_sizes)[scaling.fitted]
    grid = np.geomspace(chosen.min(), chosen.max(), _POINTS)
    times = 1.0 if per_update else grid
    axes.plot(np.log2(grid), fit.updates(grid) * times, color=LINE, zorder=2)
    low, high = fit.band(grid)
    if np.isfinite(low).all():
        axes.fill_between(np.log2(grid), low * times, high * times, color=LINE, alpha=0.25, lw=0)


def draw_closed_form(axes: Axes, scaling: Scaling) -> None:
    """Draws T(B) and its least value, where the time of a step is known."""
    fit, step, best = scaling.fit, scaling.step, scaling.fastest
    if not (fit and step and best):
        return
    grid = np.geomspace(min(scaling.batch_sizes), max(scaling.batch_sizes), _POINTS)
    constants = (fit.updates_min, fit.examples_min, *step.costs)
    times = fastest_batch_size.seconds_to_target(grid, *constants)
    axes.plot(np.log2(grid), times, color=LINE, zorder=2)
    if grid[0] <= best.batch_size <= grid[-1]:
        axes.axvline(math.log2(best.batch_size), color=FASTEST, linestyle=":", lw=1.4)


def shade(axes: Axes, fit: CriticalBatchSize) -> set[str]:
    """Shades the regimes of a panel and marks B_crit in it; returns the regimes that lie there."""
    shaded = set()
    left, right = axes.get_xlim()
    critical = fit.critical_batch_size
    if math.isnan(critical):
        axes.axvspan(left, right, color=_SHADES[fit.regime(1.0)], zorder=0, lw=0)
        return {fit.regime(1.0)}
    perfect = math.log2(critical * critical_batch_size.PERFECT_BELOW)
    maximal = math.log2(critical * critical_batch_size.MAXIMAL_ABOVE)
    for regime, low, high in (
        (critical_batch_size.PERFECT, left, min(perfect, right)),
        (critical_batch_size.MAXIMAL, max(maximal, left), right),
    ):
        if high - low > _SLIVER * (right - left):
            axes.axvspan(low, high, color=_SHADES[regime], zorder=0, lw=0)
            shaded.add(regime)
    if left < math.log2(critical) < right:
        axes.axvline(math.log2(critical), color=CRITICAL, linestyle="--", lw=1.2)
    axes.set_xlim(left, right)
    return shaded
