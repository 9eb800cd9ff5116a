"""Updates, examples and seconds to a target by batch size, with the models fitted to them.

The rows of to_target.csv are joined with the fits of critical_batch_size.csv.
"""

import math
from collections.abc import Iterator
from itertools import compress
from typing import Any, NamedTuple

import numpy as np
import pandas
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Patch

from batchscope.analysis import critical_batch_size, intervals, run_series, to_target_tables
from batchscope.analysis.chosen_rates import RATE
from batchscope.figures import FigureTables, canvas
from batchscope.figures.kinds.primary import target_words
from batchscope.study import specifications

_CRITICAL, _FASTEST, _HALF, _PERFECT = "#D55E00", "#009E73", "#E69F00", "#0072B2"
_SEED, _MEAN = canvas.points(".", 6, canvas.MUTED), canvas.points("s", 5)
_CURVE = {"color": canvas.INK, "linewidth": 1.2}
_UPDATES = ("updates_min", "examples_min")  # constants of the fit of updates to the target
_STEP = ("fixed_seconds", "seconds_per_image")  # constants of the fit of the time of a step
_MIN_SIZE, _MAX_SIZE = 1e-9, 1e12  # All axes end between these batch sizes.
_CRITICAL_MARK = ("critical_batch_size", "critical batch size", _CRITICAL, "D")
# Axis -> column, label, colour and marker of the batch sizes with intervals below the curve.
_MARKS = {
    "updates": (_CRITICAL_MARK,),
    "examples": (_CRITICAL_MARK,),
    "seconds": (
        ("fastest_batch_size", "fastest batch size", _FASTEST, "D"),
        ("half_batch", "half of a step is fixed cost", _HALF, "^"),
    ),
}
Entries = dict[str, Any]  # label -> props or artist of an entry of the legend


class ScalingRows(NamedTuple):
    """Rows of to_target.csv of one series and target, with the columns of its fit."""

    label: str
    rows: pandas.DataFrame

    @property
    def batch_sizes(self) -> list[int]:
        return sorted(self.rows["batch_size"].unique().tolist())

    def value(self, column: str) -> float:
        return float(self.rows[column].astype(float).iloc[0])

    def costs(self, axis: str) -> pandas.DataFrame:
        """Return a table of costs by size and seed, infinite if the target was not reached."""
        costs = self.rows[axis].astype(float).mask(self.rows["reached"] == 0, math.inf)
        return self.rows.assign(cost=costs).pivot(index="batch_size", columns="seed", values="cost")

    def means(self, axis: str) -> list[intervals.Interval]:
        """Return the geometric mean of each size, NaN if a seed did not reach the target.

        The interval takes into account whether seeds of a size have different learning rates.
        """
        is_time = axis == "seconds" and self.rows["seconds_on_edge"].notna().any()
        rate = "seconds_learning_rate" if is_time else "learning_rate"
        has_several_rates = self.rows.groupby("batch_size")[rate].nunique() > 1
        has_chosen_rate = self.rows["on_edge"].notna().any()
        is_tuned = (has_several_rates & has_chosen_rate).to_numpy()
        return intervals.means(self.costs(axis), is_tuned, geometric=True)


def select(tables: FigureTables, spec: specifications.Figure) -> pandas.DataFrame:
    """Return one row per series, target, batch size and seed, with the columns of the fits."""
    frame = to_target_tables.with_fits(tables.critical_batch_size, tables.to_target)
    axes = [panel.column for panel in spec.panels]
    return frame if frame[axes].notna().any(axis=None) else frame.iloc[:0]


def _scalings(frame: pandas.DataFrame) -> list[ScalingRows]:
    names = [name for name in run_series.varying_factors(frame) if name != RATE]
    groups = frame.groupby([*names, "target_column", "target_value"], sort=False, dropna=False)
    return [
        ScalingRows(run_series.describe(dict(zip(names, key, strict=False))), rows)
        for key, rows in groups
    ]


def draw(frame: pandas.DataFrame, spec: specifications.Figure) -> Figure:
    """Return a row of panels for each series and target.

    If there are too many rows, each series has only its last target with a fit.
    """
    scalings, last_scalings = _scalings(frame), {}
    for scaling in scalings:
        if scaling.label not in last_scalings or scaling.value("points"):
            last_scalings[scaling.label] = scaling
    if len(scalings) > canvas.MAX_SERIES:
        scalings = list(last_scalings.values())[: canvas.MAX_SERIES]
    count, columns = len(scalings) * len(spec.panels), len(spec.panels)
    width = 3.6 if len(scalings) + columns > 2 else 5.2
    figure, grid = canvas.panels(count, columns if columns > 1 else count, width, 2.9)
    entries: Entries = {}
    for line, scaling in zip(grid.reshape(-1, columns), scalings, strict=True):
        target = target_words(scaling.rows.iloc[0]).removeprefix("the ")
        for axes, panel in zip(line, spec.panels, strict=True):
            entries |= _draw_panel(axes, scaling, panel.column)
            axes.set_ylabel(panel.label)
            canvas.set_title(axes, ", ".join(filter(None, [panel.title, scaling.label, target])))
    canvas.draw_legend(figure, [(props, label) for label, props in entries.items()])
    return figure


def _draw_panel(axes: Axes, scaling: ScalingRows, axis: str) -> Entries:
    """Draw seeds, means, the fitted curve and fitted batch sizes; return entries of the legend."""
    axes.set_yscale("log")
    canvas.set_batch_size_axis(axes, scaling.batch_sizes)
    axes.grid(axis="x", visible=False)
    reached = scaling.rows[scaling.rows[axis].astype(float) > 0]
    if reached.empty:
        canvas.write_no_data(axes, "never reached")
        return {}
    entries: Entries = {}
    if reached["seed"].nunique() > 1:
        x = np.log2(reached["batch_size"].astype(float))
        axes.plot(x, reached[axis], zorder=3, alpha=0.7, **_SEED)
        entries["a seed"] = _SEED
    means = scaling.means(axis)
    for size, (mean, low, high, _) in zip(scaling.batch_sizes, means, strict=True):
        if math.isfinite(mean):
            props = {"elinewidth": 1.2, "zorder": 4, **_MEAN}
            canvas.draw_error_bars(axes, math.log2(size), mean, low, high, **props)
            entries["geometric mean"] = _MEAN
    props = {"ha": "center", "va": "top", "rotation": 90, "fontsize": 7}
    props |= {"xycoords": axes.get_xaxis_transform(), "color": canvas.FAILED_COLOUR}
    missed_seeds = scaling.rows[scaling.rows["reached"] == 0].groupby("batch_size").size()
    for size, count in missed_seeds.items():
        canvas.annotate(axes, f"{count} never", (math.log2(size), 1.0), (0, -2), **props)
    if scaling.value("points") and (values := _curve(scaling, axis)):
        axes.plot(*values, zorder=2, **_CURVE)
        entries["fit"] = _CURVE
    bottom, top = axes.get_ylim()
    canvas.set_log_labels(axes.yaxis, top / bottom)
    for label, colour, *ends in _shades(scaling, axis):
        low, high = np.clip(np.log2(ends), *axes.get_xlim())
        if high > low:
            shade = {"color": colour, "alpha": 0.12, "linewidth": 0}
            axes.axvspan(low, high, zorder=0, **shade)
            entries[label] = Patch(**shade)
    return entries | _draw_marks(axes, scaling, axis)


def _curve(scaling: ScalingRows, axis: str) -> tuple[np.ndarray, np.ndarray] | None:
    """Return the fitted updates or examples, or the closed form of the seconds."""
    sizes, is_time = scaling.batch_sizes, axis == "seconds"
    if not is_time:  # The fit uses only sizes with all seeds at the target.
        is_usable = to_target_tables.is_usable(scaling.costs("updates").to_numpy())
        sizes = list(compress(sizes, is_usable))
    fitted = scaling.value("fastest_batch_size" if is_time else _UPDATES[0])
    if len(sizes) < 3 or math.isnan(fitted):
        return None
    grid = np.geomspace(min(sizes), max(sizes), 40)
    constants = [scaling.value(name) for name in (_UPDATES + _STEP if is_time else _UPDATES)]
    if is_time:
        return np.log2(grid), to_target_tables.seconds_to_target(grid, *constants)
    values = critical_batch_size.updates(grid, *constants)
    return np.log2(grid), values * (grid if axis == "examples" else 1.0)


def _shades(scaling: ScalingRows, axis: str) -> Iterator[tuple[str, str, float, float]]:
    """Yield label, colour and ends of the shaded ranges of batch sizes."""
    if critical_batch_size.is_significant(scaling.value("lack_of_fit")):
        return
    critical = scaling.value("critical_batch_size")
    if axis == "seconds":
        low, high = scaling.value("fastest_from"), scaling.value("fastest_to")
        if math.isfinite(low):
            yield "within 10 % of its time", _FASTEST, low, high
    elif math.isfinite(critical):
        below = critical * critical_batch_size.PERFECT_BELOW
        yield critical_batch_size.PERFECT, _PERFECT, _MIN_SIZE, below
        above = critical * critical_batch_size.MAXIMAL_ABOVE
        yield critical_batch_size.MAXIMAL, _CRITICAL, above, _MAX_SIZE


def _draw_marks(axes: Axes, scaling: ScalingRows, axis: str) -> Entries:
    """Draw fitted batch sizes with their intervals below the curve; an open end is an arrow."""
    marks = []
    for column, *mark in _MARKS[axis]:
        ends = [scaling.value(f"{column}{end}") for end in intervals.SUFFIXES]
        marks += [(*mark, *ends)] if np.isfinite(ends).any() else []
    bottom, top = np.log(axes.get_ylim())
    step = 0.075 * (top - bottom)
    axes.set_ylim(math.exp(bottom - step * len(marks)), math.exp(top))
    left, right = axes.get_xlim()
    margin = 0.015 * (right - left)
    left, right = left + margin, right - margin
    for row, (_, colour, marker, value, low, high) in enumerate(marks):
        height = math.exp(bottom - step * (row + 0.5))
        props = {"color": colour, "zorder": 5, "markersize": 5}
        ends = np.log2([low if low > 0 else _MIN_SIZE, high if high > 0 else _MAX_SIZE])
        x = math.log2(value) if value > 0 else math.nan
        axes.plot(np.clip(ends, left, right), [height] * 2, lw=1.6, **props)
        if np.nanmin([x, ends[0]]) < left:
            axes.plot(left, height, marker="<", **props)
        if np.nanmax([x, ends[1]]) > right:
            axes.plot(right, height, marker=">", **props)
        if left <= x <= right:
            axes.plot(x, height, marker=marker, **props)
    return {
        label: {"color": colour, "marker": marker, "markersize": 5}
        for label, colour, marker, *_ in marks
    }
