"""Updates, examples and seconds to a target against batch size, with what was fitted to them."""

from __future__ import annotations

import math
from itertools import compress
from typing import Any, NamedTuple

import numpy as np
import pandas
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Patch

from batchscope import wording
from batchscope.analysis import (
    chosen_rates,
    critical_batch_size,
    fastest_batch_size,
    intervals,
    noise_scales,
    run_series,
    to_target_tables,
)
from batchscope.figures import FigureTables
from batchscope.figures.drawing import canvas
from batchscope.study import specifications, tasks

_MOST_ROWS = 6  # beyond them the last target of each series alone
_CRITICAL, _FASTEST, _NOISE, _HALF = "#D55E00", "#009E73", "#CC79A7", "#E69F00"
_SEED = {"color": canvas.MUTED, "marker": ".", "markersize": 6, "linestyle": "none"}
_MEAN = {"color": canvas.INK, "marker": "s", "markersize": 5, "linestyle": "none"}
_CURVE = {"color": canvas.INK, "linewidth": 1.2}
_CONSTANTS = ("updates_min", "examples_min", "fixed_seconds", "seconds_per_image")
_POINTS = 40  # of a curve
# Axis -> column of a batch size that stands with its interval at the foot -> label, colour, marker.
_MARKS = {
    "updates": {
        "critical_batch_size": ("critical batch size", _CRITICAL, "D"),
        "noise_scale_start": ("noise scale, start", _NOISE, "o"),
        "noise_scale_end": ("noise scale, end", _NOISE, "s"),
    },
    "examples": {"critical_batch_size": ("critical batch size", _CRITICAL, "D")},
    "seconds": {
        "fastest_batch_size": ("fastest batch size", _FASTEST, "D"),
        "half_batch": ("half of a step is fixed cost", _HALF, "^"),
    },
}
Entries = dict[str, Any]  # of a legend: label -> look or artist


class ScalingRows(NamedTuple):
    """One series and target: its rows of to_target.csv, beside its row of the fits."""

    label: str
    rows: pandas.DataFrame

    @property
    def batch_sizes(self) -> list[int]:
        return sorted(self.rows["batch_size"].unique().tolist())

    def value(self, column: str) -> float:
        return float(self.rows[column].astype(float).iloc[0])

    def taken(self, axis: str) -> pandas.DataFrame:
        """Returns what was taken by size and seed: infinite where a training never got there."""
        values = self.rows[axis].astype(float).mask(self.rows["reached"] == 0, math.inf)
        cells = self.rows.assign(_taken=values)
        return cells.pivot(index="batch_size", columns="seed", values="_taken").sort_index()

    def means(self, axis: str) -> list[intervals.Interval]:
        """Returns the geometric mean of each size; NaN where a seed never got there.

        Its interval is another one where seeds of a size are read at different rates.
        """
        timed = axis == "seconds" and self.rows["seconds_on_edge"].notna().any()
        rate = "seconds_learning_rate" if timed else "learning_rate"
        differ = self.rows.groupby("batch_size")[rate].nunique() > 1
        chosen = self.rows["on_edge"].notna().any()
        return intervals.means(self.taken(axis), (differ & chosen).to_numpy(), geometric=True)


def select(tables: FigureTables, spec: specifications.Figure) -> pandas.DataFrame:
    """Returns one row per series, target, batch size and seed, beside what was fitted to them."""
    frame = to_target_tables.joined(tables.critical_batch_size, tables.to_target)
    axes = [panel.column for panel in spec.panels]
    if frame.empty or not frame[axes].notna().any(axis=None):
        return frame.iloc[:0]
    if "updates" in axes:
        every = (noise_scales.beside(each.rows, tables.runs) for each in _scalings(frame))
        frame = pandas.concat(every)
    return frame


def _scalings(frame: pandas.DataFrame) -> list[ScalingRows]:
    names = [name for name in run_series.varying(frame) if name != chosen_rates.RATE]
    groups = frame.groupby([*names, "target_column", "target_value"], sort=False, dropna=False)
    return [
        ScalingRows(run_series.describe(dict(zip(names, key, strict=False))), rows)
        for key, rows in groups
    ]


def draw(frame: pandas.DataFrame, spec: specifications.Figure) -> Figure:
    """Returns the figure: a row for each series and target, or one row of a single column.

    Where there are many, the last target that has a fit stands for each series.
    """
    every, last = _scalings(frame), {}
    for each in every:
        fits, before = each.value("points"), last.get(each.label)
        if before is None or fits or not before.value("points"):
            last[each.label] = each
    every = every if len(every) <= _MOST_ROWS else [*last.values()][:_MOST_ROWS]
    count, columns = len(every) * len(spec.panels), len(spec.panels)
    width = 3.6 if len(every) + columns > 2 else 5.2
    figure, grid = canvas.panels(count, columns if columns > 1 else count, width, 2.9)
    found: Entries = {}
    for row, each in zip(grid.reshape(len(every), columns), every, strict=True):
        column, value = each.rows[["target_column", "target_value"]].iloc[0]
        what = "target"
        if pandas.notna(column) and column:
            what = f"{tasks.column_words(column)} {wording.number(float(value))}"
        for axes, panel in zip(row, spec.panels, strict=True):
            found |= _draw_panel(axes, each, panel.column)
            axes.set_ylabel(panel.label)
            canvas.title(axes, ", ".join(filter(None, [panel.title, each.label, what])))
    canvas.legend(figure, [(look, label) for label, look in found.items()])
    return figure


def _draw_panel(axes: Axes, each: ScalingRows, axis: str) -> Entries:
    """Draws seeds, means, the fitted curve and what is read off it; returns entries of a legend."""
    axes.set_yscale("log")
    canvas.batch_size_axis(axes, each.batch_sizes)
    axes.grid(axis="x", visible=False)
    reached = each.rows[each.rows[axis].astype(float) > 0]
    if reached.empty:
        canvas.empty(axes, "never reached")
        return {}
    found: Entries = {}
    if reached["seed"].nunique() > 1:
        at = np.log2(reached["batch_size"].astype(float))
        axes.plot(at, reached[axis], zorder=3, alpha=0.7, **_SEED)
        found["a seed"] = _SEED
    for size, (mean, low, high, _) in zip(each.batch_sizes, each.means(axis), strict=True):
        if math.isfinite(mean):
            look = {"elinewidth": 1.2, "zorder": 4, **_MEAN}
            canvas.error_bars(axes, math.log2(size), mean, low, high, **look)
            found["geometric mean"] = _MEAN
    missed = each.rows[each.rows["reached"] == 0].groupby("batch_size").size()
    look = {"ha": "center", "va": "top", "rotation": 90, "fontsize": 7}
    look |= {"xycoords": axes.get_xaxis_transform(), "color": canvas.FAILED_COLOUR}
    for size, never in missed.items():
        canvas.annotate(axes, f"{never} never", (math.log2(size), 1.0), (0, -2), **look)
    if each.value("points") and (values := _curve(each, axis)):
        axes.plot(*values, zorder=2, **_CURVE)
        found["fit"] = _CURVE
    bottom, top = axes.get_ylim()
    canvas.few_log_labels(axes.yaxis, top / bottom)
    left, right = axes.get_xlim()
    for label, (colour, *ends) in _shades(each, axis).items():
        low, high = np.clip(np.log2(ends), left, right)
        if high > low:
            shade = {"color": colour, "alpha": 0.12, "linewidth": 0}
            axes.axvspan(low, high, zorder=0, **shade)
            found[label] = Patch(**shade)
    return found | _draw_marks(axes, each, axis)


def _curve(each: ScalingRows, axis: str) -> tuple[np.ndarray, np.ndarray] | None:
    """Returns the fit, or of seconds the closed form, where there is one."""
    sizes = each.batch_sizes
    if axis != "seconds":  # the sizes that every seed reached the target with
        sizes = [*compress(sizes, fastest_batch_size.usable(each.taken("updates").to_numpy()))]
    needed = "fastest_batch_size" if axis == "seconds" else "updates_min"
    if len(sizes) < 3 or math.isnan(each.value(needed)):
        return None
    grid, constants = np.geomspace(min(sizes), max(sizes), _POINTS), map(each.value, _CONSTANTS)
    if axis == "seconds":
        return np.log2(grid), fastest_batch_size.seconds_to_target(grid, *constants)
    values = critical_batch_size.updates(grid, *[*constants][:2])
    return np.log2(grid), values * (grid if axis == "examples" else 1.0)


def _shades(each: ScalingRows, axis: str) -> dict[str, tuple[str, float, float]]:
    """Returns what is shaded: words -> colour, and the batch sizes from and to."""
    critical = each.value("critical_batch_size")
    if critical_batch_size.departs(each.value("lack_of_fit")):
        return {}
    if axis == "seconds":
        ends = (each.value("fastest_from"), each.value("fastest_to"))
        within = {"within 10 % of its time": (_FASTEST, *ends)}
        return within if math.isfinite(ends[0]) else {}
    if math.isnan(critical):
        return {}
    below = critical * critical_batch_size.PERFECT_BELOW
    above = critical * critical_batch_size.MAXIMAL_ABOVE
    return {
        critical_batch_size.PERFECT: ("#0072B2", 1e-9, below),
        critical_batch_size.MAXIMAL: (_CRITICAL, above, 1e12),
    }


def _draw_marks(axes: Axes, each: ScalingRows, axis: str) -> Entries:
    """Draws batch sizes with their intervals at the foot; an open end is an arrow."""
    known = {}
    for column, drawn in _MARKS[axis].items():
        ends = [each.value(f"{column}{end}") for end in intervals.ENDS if column in each.rows]
        if np.isfinite(ends).any():
            known[column] = (*drawn, *ends)
    bottom, top = np.log(axes.get_ylim())
    step = 0.075 * (top - bottom)
    axes.set_ylim(math.exp(bottom - step * len(known)), math.exp(top))
    left, right = axes.get_xlim()
    inner = (left + 0.015 * (right - left), right - 0.015 * (right - left))
    for row, (_, colour, marker, value, low, high) in enumerate(known.values()):
        place, look = math.exp(bottom - step * (row + 0.5)), {"color": colour, "zorder": 5}
        ends = np.log2([low if low > 0 else 1e-9, high if high > 0 else 1e12])
        axes.plot(np.clip(ends, *inner), [place] * 2, lw=1.6, **look)
        at = math.log2(value) if value > 0 else math.nan
        if np.nanmin([at, ends[0]]) < inner[0]:
            axes.plot(inner[0], place, marker="<", markersize=5, **look)
        if np.nanmax([at, ends[1]]) > inner[1]:
            axes.plot(inner[1], place, marker=">", markersize=5, **look)
        if inner[0] <= at <= inner[1]:
            axes.plot(at, place, marker=marker, markersize=5, **look)
    axes.set_xlim(left, right)
    return {
        label: {"color": colour, "marker": marker, "markersize": 5}
        for label, colour, marker, *_ in known.values()
    }
