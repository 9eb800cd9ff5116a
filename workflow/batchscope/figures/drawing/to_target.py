"""Updates and examples to a target against batch size, with the fit of the critical batch size."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch

from batchscope import wording
from batchscope.analysis import critical_batch_size
from batchscope.analysis.critical_batch_size import CriticalBatchSize
from batchscope.analysis.updates_to_target import Scaling
from batchscope.figures.drawing import canvas

# Regime -> its shade: light, so that grey points and lines stay apart from it.
_SHADES = {
    critical_batch_size.PERFECT: "#e3eef7",
    critical_batch_size.DIMINISHING: "#ffffff",
    critical_batch_size.MAXIMAL: "#f8e9dd",
}
_LINE = canvas.COLOURS[0]


class Panel(NamedTuple):
    """One series and target, with the words above it and those on its fit."""

    scaling: Scaling
    title: str
    told: str


def draw(panels: Sequence[Panel]) -> Figure:
    """Returns the figure: a row per series and target, updates at the left, examples right."""
    with canvas.style():
        figure, axes = canvas.panels(len(panels), 2, width=3.7)
        for row, panel in zip(axes, panels, strict=True):
            _draw_row(row, panel)
        handles = [
            Line2D([], [], linestyle="none", marker="o", color="#777777", markersize=3.5),
            Line2D([], [], linestyle="none", marker="s", color=canvas.COLOURS[-1]),
            Line2D([], [], color=_LINE),
            Patch(color=_LINE, alpha=0.25),
            Line2D([], [], color=canvas.COLOURS[1], linestyle="--"),
        ]
        labels = [
            *("a seed", "geometric mean", "fit S(B)", "95 % band of the fit"),
            "critical batch size B_crit [95 % interval]",
        ]
        for regime in (critical_batch_size.PERFECT, critical_batch_size.MAXIMAL):
            handles.append(Patch(facecolor=_SHADES[regime], edgecolor="#bbbbbb"))
            labels.append(regime)
        canvas.legend(figure, handles, labels)
    return figure


def _draw_row(row: np.ndarray, panel: Panel) -> None:
    scaling, fit = panel.scaling, panel.scaling.fit
    sizes = np.array(scaling.batch_sizes)
    for axes, axis in zip(row, ("updates", "examples"), strict=True):
        _draw_points(axes, scaling, axis)
        if fit:
            _draw_fit(axes, scaling, fit, per_update=axis == "updates")
        axes.set_yscale("log")
        low, high = axes.get_ylim()
        canvas.few_log_labels(axes.yaxis, high / low)
        axes.set_ylabel(f"{axis} to the target")
        canvas.batch_size_axis(axes, sizes.tolist())
        axes.grid(axis="x", visible=False)
        if fit:
            _shade(axes, fit)
    row[0].set_title(panel.title)
    row[1].set_title(panel.told, fontweight="normal", fontsize=8)


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


def alternative(panels: Sequence[Panel]) -> str:
    """Returns the figure's title, as it stands in its SVG."""
    return f"Updates and examples to a target ({wording.count(len(panels), 'panel row')})"
