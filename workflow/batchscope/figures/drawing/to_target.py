"""Updates, examples and seconds to a target against batch size, with what was fitted to them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch

from batchscope.analysis import critical_batch_size, fastest_batch_size
from batchscope.analysis.critical_batch_size import CriticalBatchSize
from batchscope.analysis.updates_to_target import AXES, Scaling
from batchscope.figures.drawing import canvas

# Regime -> its shade: light, so that grey points and lines stay apart from it.
_SHADES = {
    critical_batch_size.PERFECT: "#e3eef7",
    critical_batch_size.DIMINISHING: "#ffffff",
    critical_batch_size.MAXIMAL: "#f8e9dd",
}
_LINE = canvas.COLOURS[0]


class Panel(NamedTuple):
    """One series and target, with the words above its updates, its examples and its seconds."""

    scaling: Scaling
    title: str
    critical: str
    fastest: str


def draw(panels: Sequence[Panel]) -> Figure:
    """Returns the figure: a row per series and target; updates, examples and, if known, seconds."""
    seconds = any("seconds" in panel.scaling.measured or panel.fastest for panel in panels)
    with canvas.style():
        figure, axes = canvas.panels(len(panels), 3 if seconds else 2, width=3.6)
        for row, panel in zip(axes, panels, strict=True):
            _draw_row(row, panel)
        handles = [
            Line2D([], [], linestyle="none", marker="o", color="#777777", markersize=3.5),
            Line2D([], [], linestyle="none", marker="s", color=canvas.COLOURS[-1]),
            Line2D([], [], color=_LINE),
            Patch(color=_LINE, alpha=0.25),
            Line2D([], [], color=canvas.COLOURS[1], linestyle="--"),
        ]
        labels = ["a seed", "geometric mean", "fit", "its 95 % band", "B_crit [95 % interval]"]
        if seconds:
            handles.append(Line2D([], [], color=canvas.COLOURS[2], linestyle=":"))
            labels.append("B* [95 % interval]")
        for regime in (critical_batch_size.PERFECT, critical_batch_size.MAXIMAL):
            handles.append(Patch(facecolor=_SHADES[regime], edgecolor="#bbbbbb"))
            labels.append(regime)
        canvas.legend(figure, handles, labels)
    return figure


def _draw_row(row: np.ndarray, panel: Panel) -> None:
    scaling, fit = panel.scaling, panel.scaling.fit
    titles = (panel.title, panel.critical, panel.fastest)
    for axes, axis, title in zip(row, AXES, titles, strict=False):
        axes.set_yscale("log")
        if axis in scaling.measured:
            _draw_points(axes, scaling, axis)
        if fit and axis != "seconds":
            _draw_fit(axes, scaling, fit, per_update=axis == "updates")
        if axis == "seconds":
            _draw_closed_form(axes, scaling)
        if axes.has_data():
            low, high = axes.get_ylim()
            canvas.few_log_labels(axes.yaxis, high / low)
        else:
            canvas.empty(axes, "no seconds" if axis == "seconds" else "never reached")
        axes.set_ylabel(f"{axis} to the target")
        canvas.batch_size_axis(axes, scaling.batch_sizes)
        axes.grid(axis="x", visible=False)
        if fit and axis != "seconds":
            _shade(axes, fit)
        axes.set_title(title, fontsize=9 if axes is row[0] else 8)


def _draw_points(axes: Axes, scaling: Scaling, axis: str) -> None:
    for size, values in zip(scaling.batch_sizes, scaling.measured[axis], strict=True):
        reached = values[np.isfinite(values) & (values > 0)]
        never = int(np.isinf(values).sum())
        at = math.log2(size)
        if len(reached) > 1:
            look = {"color": "#777777", "markersize": 3.5, "alpha": 0.7, "zorder": 3}
            axes.plot([at] * len(reached), reached, "o", **look)
        if len(reached) and not never:
            centre = float(np.exp(np.log(reached).mean()))
            axes.plot(at, centre, "s", color=canvas.COLOURS[-1], markersize=5, zorder=4)
        if never:
            axes.annotate(
                f"{never} never",
                (at, 1.0),
                (0, -2),
                xycoords=axes.get_xaxis_transform(),
                textcoords="offset points",
                ha="center",
                va="top",
                rotation=90,
                fontsize=7,
                color=canvas.FAILED_COLOUR,
            )


def _draw_fit(axes: Axes, scaling: Scaling, fit: CriticalBatchSize, per_update: bool) -> None:
    chosen = np.array(scaling.batch_sizes)[scaling.fitted]
    grid = np.geomspace(chosen.min(), chosen.max(), 120)
    times = 1.0 if per_update else grid
    axes.plot(np.log2(grid), fit.updates(grid) * times, color=_LINE, zorder=2)
    low, high = fit.band(grid)
    if np.isfinite(low).all():
        axes.fill_between(np.log2(grid), low * times, high * times, color=_LINE, alpha=0.25, lw=0)


def _draw_closed_form(axes: Axes, scaling: Scaling) -> None:
    """Draws T(B) and its least value, where the time of a step is known."""
    fit, step, best = scaling.fit, scaling.step, scaling.fastest
    if not (fit and step and best):
        return
    grid = np.geomspace(min(scaling.batch_sizes), max(scaling.batch_sizes), 120)
    constants = (fit.updates_min, fit.examples_min, *step)
    times = fastest_batch_size.seconds_to_target(grid, *constants)
    axes.plot(np.log2(grid), times, color=_LINE, zorder=2)
    if grid[0] <= best.batch_size <= grid[-1]:
        axes.axvline(math.log2(best.batch_size), color=canvas.COLOURS[2], linestyle=":", lw=1.4)


def _shade(axes: Axes, fit: CriticalBatchSize) -> None:
    """Shades the regimes over the width of the panel, and marks B_crit where it lies in it."""
    left, right = axes.get_xlim()
    critical = fit.critical_batch_size
    if math.isnan(critical):
        axes.axvspan(left, right, color=_SHADES[fit.regime(1.0)], zorder=0, lw=0)
        return
    ends = [math.log2(critical * share) for share in _bounds()]
    for regime, low, high in zip(
        (critical_batch_size.PERFECT, critical_batch_size.MAXIMAL),
        (left, max(ends[1], left)),
        (min(ends[0], right), right),
        strict=True,
    ):
        if low < high:
            axes.axvspan(low, high, color=_SHADES[regime], zorder=0, lw=0)
    if left < math.log2(critical) < right:
        axes.axvline(math.log2(critical), color=canvas.COLOURS[1], linestyle="--", lw=1.2)
    axes.set_xlim(left, right)


def _bounds() -> tuple[float, float]:
    return critical_batch_size.PERFECT_BELOW, critical_batch_size.MAXIMAL_ABOVE
