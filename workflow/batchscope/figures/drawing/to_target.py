"""Updates, examples and seconds to a target against batch size, with what was fitted to them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch

from batchscope.analysis import critical_batch_size, fastest_batch_size
from batchscope.catalogue.own_columns import AXES
from batchscope.figures.drawing import canvas, marks, target_words
from batchscope.figures.drawing.target_words import Panel, fastest

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
CONSTANTS = ("updates_min", "examples_min", "fixed_seconds", "seconds_per_image")


class Mark(NamedTuple):
    """A batch size with its interval, at the foot of a panel."""

    label: str
    value: float  # NaN where there is an end alone
    low: float  # NaN where it is open
    high: float
    colour: str
    marker: str
    bar: bool = True  # whether it has an interval, whose open ends are arrows


def draw(
    panels: Sequence[Panel],
    titles: Sequence[str],
    noise: Sequence[Sequence[Mark]] = (),
    seconds: bool | None = None,
) -> Figure:
    """Returns the figure: a row per series and target; updates, examples and, if known, seconds.

    Args:
        titles: What stands above the updates of each row.
        noise: Marks at the foot of the updates of each row, below the critical batch size.
        seconds: Whether they are drawn; by default where they are known.
    """
    if seconds is None:
        seconds = any(panel.known("seconds") or fastest(panel) for panel in panels)
    noise = noise or [() for _ in panels]
    with canvas.style():
        figure, axes = canvas.panels(len(panels), 3 if seconds else 2, width=3.6)
        shades: set[str] = set()
        for row, panel, heading, marks_ in zip(axes, panels, titles, noise, strict=True):
            shades |= _draw_row(row, panel, heading, marks_)
        for one in axes[:-1].flat:
            one.set_xlabel("")
        critical = {"color": CRITICAL, "linestyle": "--", "marker": "D", "markersize": 4}
        entries: list[tuple[Any, str]] = [
            (Line2D([], [], linestyle="none", marker="o", **_SEED), "a seed"),
            (Line2D([], [], linestyle="none", marker="s", color=_MEAN), "geometric mean"),
            (Line2D([], [], color=LINE), "fit"),
            (Line2D([], [], **critical), _CRITICAL),
        ]
        looks = dict.fromkeys(
            (mark.label, mark.colour, mark.marker) for each in noise for mark in each
        )
        for label, colour, marker in looks:
            entries.append((Line2D([], [], color=colour, marker=marker, markersize=5), label))
        if seconds and any(map(fastest, panels)):
            entries.append((Line2D([], [], color=FASTEST, linestyle=":"), "B* [95 % interval]"))
        for regime in (each for each in _SHADES if each in shades):
            entries.append((Patch(facecolor=_SHADES[regime], edgecolor="#bbbbbb"), regime))
        canvas.legend_of(figure, entries)
    return figure


def _draw_row(row: np.ndarray, panel: Panel, heading: str, noise: Sequence[Mark]) -> set[str]:
    """Draws a row; returns the regimes that are shaded in it."""
    shades: set[str] = set()
    titles = (heading, target_words.caption(panel), fastest(panel))
    for axes, axis, title in zip(row, AXES, titles, strict=False):
        axes.set_yscale("log")
        if panel.known(axis):
            draw_points(axes, panel, axis)
        if axis == "seconds":
            draw_closed_form(axes, panel)
        elif panel.points:
            _draw_fit(axes, panel, axis)
        if not axes.has_data():
            canvas.empty(axes, "no seconds" if axis == "seconds" else "never reached")
        axes.set_ylabel("time to it (s)" if axis == "seconds" else f"{axis} to it")
        canvas.batch_size_axis(axes, panel.batch_sizes)
        axes.grid(axis="x", visible=False)
        if panel.points and axis != "seconds":
            shades |= shade(axes, panel)
            critical = Mark(_CRITICAL, *panel.interval("critical_batch_size"), CRITICAL, "D")
            mark_batch_sizes(axes, [critical, *(noise if axis == "updates" else ())])
        finish(axes, panel)
        axes.set_title(title, fontsize=9 if axes is row[0] else 8)
    return shades


def finish(axes: Axes, panel: Panel) -> None:
    """Labels the vertical axis, and leaves room above the data for what never got there."""
    if not axes.has_data():
        return
    low, high = axes.get_ylim()
    if (panel.rows["reached"] == 0).any():
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


def draw_points(axes: Axes, panel: Panel, axis: str, mean: bool = True) -> None:
    """Draws every seed, and the geometric mean of a size that got there with all of them."""
    sizes, means = np.log2(panel.batch_sizes), [each.mean for each in panel.means(axis)]
    reached = panel.rows[panel.rows[axis].astype(float) > 0]
    seeds = reached[reached.groupby("batch_size")["seed"].transform("count") > 1]
    if len(seeds):
        values = seeds[axis].astype(float)
        at = np.log2(seeds["batch_size"].astype(float))
        (drawn,) = axes.plot(at, values, "o", **_SEED, markeredgewidth=0, zorder=3)
        runs = seeds[[*panel.factors, "batch_size", "seed"]]
        if panel.rates(axis) is not None:
            runs = runs.assign(learning_rate=seeds[panel.read_column(axis)])
        marks.points(drawn, runs, values)
    missed = panel.rows[panel.rows["reached"] == 0].groupby("batch_size").size()
    for size, never in missed.items():
        look = {"xycoords": axes.get_xaxis_transform(), "ha": "center", "va": "top"}
        look |= {"rotation": 90, "fontsize": 7, "color": canvas.FAILED_COLOUR}
        canvas.annotate(axes, f"{never} never", (math.log2(size), 1.0), (0, -2), **look)
    if mean and np.isfinite(means).any():
        axes.plot(sizes, means, "s", color=_MEAN, markersize=5, zorder=4)


def _draw_fit(axes: Axes, panel: Panel, axis: str) -> None:
    grid = np.geomspace(min(panel.fitted), max(panel.fitted), _POINTS)
    constants = (panel.value("updates_min"), panel.value("examples_min"))
    values = critical_batch_size.updates(grid, *constants)
    axes.plot(np.log2(grid), values * (1.0 if axis == "updates" else grid), color=LINE, zorder=2)


def draw_closed_form(axes: Axes, panel: Panel) -> None:
    """Draws T(B) and its least value, where there is a closed form."""
    best = panel.value("fastest_batch_size")
    if math.isnan(best):
        return
    grid = np.geomspace(min(panel.batch_sizes), max(panel.batch_sizes), _POINTS)
    times = fastest_batch_size.seconds_to_target(grid, *map(panel.value, CONSTANTS))
    axes.plot(np.log2(grid), times, color=LINE, zorder=2)
    if grid[0] <= best <= grid[-1]:
        axes.axvline(math.log2(best), color=FASTEST, linestyle=":", lw=1.4)


def shade(axes: Axes, panel: Panel) -> set[str]:
    """Shades the regimes of a panel and marks B_crit; returns those that lie there.

    None where the updates depart from the curve.
    """
    left, right = axes.get_xlim()
    critical = panel.value("critical_batch_size")
    shaded: set[str] = set()
    if math.isnan(critical):
        constants = (panel.value("updates_min"), panel.value("examples_min"))
        regions = [(critical_batch_size.regime(1.0, *constants), left, right)]
    else:
        below = math.log2(critical * critical_batch_size.PERFECT_BELOW)
        above = math.log2(critical * critical_batch_size.MAXIMAL_ABOVE)
        regions = [
            (critical_batch_size.PERFECT, left, min(below, right)),
            (critical_batch_size.MAXIMAL, max(above, left), right),
        ]
        if left < math.log2(critical) < right:
            axes.axvline(math.log2(critical), color=CRITICAL, linestyle="--", lw=1.2)
    for regime, low, high in () if panel.departs else regions:
        if high - low > _SLIVER * (right - left):
            axes.axvspan(low, high, color=_SHADES[regime], zorder=0, lw=0)
            shaded.add(regime)
    axes.set_xlim(left, right)
    return shaded
