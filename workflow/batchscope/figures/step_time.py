"""Seconds per step against batch size, its fixed cost and its cost per example."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Iterator

import numpy as np
import pandas
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, MaxNLocator, NullLocator

from batchscope import wording
from batchscope.analysis import run_series, step_cost
from batchscope.analysis.intervals import ENDS
from batchscope.catalogue import value_ranges
from batchscope.catalogue.timing_columns import QUARTILES
from batchscope.figures import Tables
from batchscope.figures.drawing import canvas, timings

_STEP = "seconds_per_step"
_FIXED, _PER_IMAGE = "fixed_seconds", "seconds_per_image"
_COSTS = {_FIXED: "The fixed cost per step", _PER_IMAGE: "The cost per example"}
_MS = 1e3
_SYMLOG = "Costs that span much: linear around zero, up to the least of them, then logarithmic."
_WIDE = 12.0  # ratio of the farthest end to the least cost from which an axis is not linear
_MOST_SHOWN = 2  # series whose costs are described one by one
_MOST_BESIDE = 4  # series beside the first whose ratios are
_LABEL_WIDTH = 26  # letters of a row's label before it is broken


def select(tables: Tables) -> pandas.DataFrame:
    """Returns one row per series and batch size: medians and quartiles, beside the fitted line."""
    fits = [f"{name}{end}" for name in _COSTS for end in ENDS]
    columns = ["status", "steps", "blocks", "disturbed_blocks"]
    columns += [f"{_STEP}{end}" for end in QUARTILES]
    more = [*fits, "half_batch", "line_residual", "noise_floor"]
    return timings.with_sweeps(tables.throughput, tables.sweeps, columns, more)


def draw(frame: pandas.DataFrame) -> Figure:
    """Returns the figure."""
    groups = timings.series(frame)
    labels = [textwrap.fill(group.label, _LABEL_WIDTH) for group in groups]
    rows = sum(0.16 + 0.16 * (label.count("\n") + 1) for label in labels)
    figure = Figure(figsize=(10.6, max(3.2, 0.9 + rows)), layout="constrained")
    figure.get_layout_engine().set(w_pad=0.08, h_pad=0.06, wspace=0.03, hspace=0.04)
    # Exact in binary: with 1.55 the layout, and so the files, differed in the last bit.
    left, fixed, per_image = figure.subplots(1, 3, width_ratios=(1.5, 1, 1))
    _draw_steps(left, frame, groups)
    _draw_costs(fixed, groups, _FIXED, labels)
    _draw_costs(per_image, groups, _PER_IMAGE, [""] * len(groups))
    left.set(title="Time per step", ylabel="time per step (ms)")
    fixed.set(title="Fixed cost per step", xlabel="a (ms)")
    per_image.set(title="Cost per example", xlabel="b (ms)")
    canvas.write(
        figure,
        timings.machine_note(frame),
        "Left: points are medians of timed blocks, bars quartiles of these blocks (of the jobs "
        "where these were repeated), lines the fit a + b × batch size. Right: bars are 95 % "
        "intervals (Student's t over batch sizes, and over rounds or jobs).",
        _SYMLOG if "symlog" in (fixed.get_xscale(), per_image.get_xscale()) else "",
        _cut_note(groups),
        _residual_note(groups),
        timings.noise_note(groups),
        timings.disturbed_note(frame),
        timings.memory_note(frame),
    )
    return figure


def found(frame: pandas.DataFrame) -> str:
    """Returns both costs of a step, and how series differ in them."""
    groups = timings.series(frame)
    fitted = [group for group in groups if timings.one(group.frame, _FIXED) is not None]
    parts: list[str] = []
    if len(fitted) > _MOST_SHOWN:
        parts += [_extremes(fitted, column, what) for column, what in _COSTS.items()]
    elif fitted:
        parts += _costs(fitted)
    return " ".join([*parts, *_beside_first(groups)])


def _beside_first(groups: list[run_series.Series]) -> Iterator[str]:
    """Yields how many times as long as the first series' steps those of the others take.

    At the largest and the smallest batch size that all have; of many series the least and the most.
    """
    tables = [timings.timed(group.frame, _STEP).set_index("batch_size") for group in groups]
    first, *others = tables
    shared = set.intersection(*(set(table.index) for table in tables))
    if not others or not shared:
        return
    for size in dict.fromkeys((max(shared), min(shared))):
        ratios = [
            (*timings.ratio(table.loc[size], first.loc[size], _STEP), group.label)
            for table, group in zip(others, groups[1:], strict=True)
        ]
        base = groups[0].label
        if len(ratios) == 1:
            ((*ratio, label),) = ratios
            times = f"takes {timings.by_quartiles(*ratio)} times as long as with {base}"
            yield f"With {label} a step at batch size {int(size)} {times}."
            continue
        if len(ratios) > _MOST_BESIDE:
            ratios = [min(ratios), max(ratios)]
        parts = [
            timings.by_quartiles(*ratio, wording.Unit(" times"), f"{label}; ")
            for *ratio, label in ratios
        ]
        text = wording.listed(parts, "to" if len(ratios) < len(others) else "and")
        yield f"At batch size {int(size)} a step takes {text} as long as with {base}."


def _estimate(rows: pandas.DataFrame, name: str) -> step_cost.Estimate:
    return step_cost.Estimate(*(timings.one_number(rows, f"{name}{end}") for end in ENDS))


def _cost(rows: pandas.DataFrame, name: str) -> step_cost.Estimate:
    """Returns a cost as it can be: no step takes less than no time; the line keeps what fits."""
    return step_cost.Estimate(*value_ranges.clipped(name, _estimate(rows, name)))


def _costs(groups: list[run_series.Series]) -> Iterator[str]:
    """Yields a sentence each for both costs and for the batch size at which they are equal."""
    for column, what in _COSTS.items():
        costs = [(_cost(group.frame, column), wording.aside(group.label)) for group in groups]
        if len(groups) == 1 and costs[0][0].value > 0:
            ((cost, whose),) = costs
            yield f"{what} was {_duration(cost)}{whose}."
            continue
        values = [wording.cost(*cost) + whose for cost, whose in costs]
        yield f"{what} was {wording.listed(values)}{_level(values)}."
    halves = [(timings.one_number(group.frame, "half_batch"), group.label) for group in groups]
    # Below one example none that can be taken is meant: a step is hardly fixed cost at all.
    known = [wording.batch_size(half) + wording.aside(label) for half, label in halves if half >= 1]
    if known:
        yield f"Half of a step is fixed cost at batch size {wording.listed(known)}."


def _level(values: list[str]) -> str:
    return ", with 95 % intervals" if any("[" in value for value in values) else ""


def _extremes(groups: list[run_series.Series], column: str, what: str) -> str:
    """Returns the lowest and the highest cost among many series."""
    ordered = sorted(groups, key=lambda group: timings.one_number(group.frame, column))
    values = [
        f"{wording.cost(*_cost(group.frame, column))} ({group.label})"
        for group in (ordered[0], ordered[-1])
    ]
    return f"{what} was lowest at {values[0]} and highest at {values[1]}{_level(values)}."


def _duration(estimate: step_cost.Estimate) -> str:
    """Returns a time with its interval."""
    return wording.estimated(*estimate, unit=wording.Unit(" ms", _MS))


def _draw_steps(axes: Axes, frame: pandas.DataFrame, groups: list[run_series.Series]) -> None:
    """Draws medians and fitted lines: linear where batch sizes are, else both logarithmic."""
    dense = timings.is_dense(frame["batch_size"])
    at = timings.batch_axis(axes, frame["batch_size"])
    values = [_MS * group.frame[_STEP].to_numpy(float) for group in groups]
    timings.value_axis(axes, values, by_peaks=dense)
    timed_sizes = timings.timed(frame, _STEP)["batch_size"].nunique()
    if not dense and timed_sizes > 1:
        _log_axis(axes, np.concatenate(values))
    timings.mark_out_of_memory(axes, at, frame)
    for index, group in enumerate(groups):
        style = canvas.line_style(index)
        points = {**style, "linestyle": "none"}
        names = [f"{_STEP}{end}" for end in QUARTILES]
        in_ms = group.frame.assign(**{name: _MS * group.frame[name] for name in names})
        timings.draw_medians(axes, at, in_ms, _STEP, points)
        fit = [timings.one_number(group.frame, name) for name in _COSTS]
        sizes = timings.timed(group.frame, _STEP)["batch_size"].to_numpy(float)
        if not np.isfinite(fit).all() or not len(sizes):
            continue
        # Where the axis starts at no example, so does the line: it begins at the fixed cost.
        places = np.linspace(0, sizes[-1], 200) if dense else np.geomspace(*sizes[[0, -1]], 200)
        line = _MS * (fit[0] + fit[1] * places)
        if axes.get_yscale() == "log":
            line[line <= 0] = math.nan
        axes.plot(at(places), line, **{**style, "marker": "", "linewidth": 1.1})


def _log_axis(axes: Axes, values: np.ndarray) -> None:
    """Makes the vertical axis logarithmic however little values span: as the batch sizes are."""
    values = values[np.isfinite(values)]
    low, high = values.min(), values.max()
    axes.set_yscale("log")
    canvas.few_log_labels(axes.yaxis, high / low)
    margin = max((high / low) ** 0.06, 1.05)
    axes.set_ylim(low / margin, high * margin)


def _draw_costs(
    axes: Axes, groups: list[run_series.Series], column: str, labels: list[str]
) -> None:
    """Draws one row per series: the cost, its interval, and its number."""
    axes.set_yticks(range(len(groups)), labels)
    axes.tick_params(axis="y", length=0)
    axes.set_ylim(len(groups) - 0.5, -0.6)
    axes.grid(True, axis="x")
    axes.grid(False, axis="y")
    shown, values = [], []
    for row, group in enumerate(groups):
        value, low, high = (_MS * end for end in _cost(group.frame, column))
        if not math.isfinite(value):
            look = {"xycoords": axes.get_yaxis_transform(), "fontsize": 8, "va": "center"}
            axes.annotate("no fit", (0.03, row), **look)
            continue
        values.append(value)
        shown += [value, *(end for end in (low, high) if math.isfinite(end))]
        style = {**canvas.line_style(row), **canvas.EDGED, "linestyle": "none", "zorder": 3}
        bars = np.nan_to_num([[value - low], [high - value]])
        axes.errorbar(value, row, xerr=bars, elinewidth=1.4, **style)
        look = {"ha": "center", "va": "bottom", "fontsize": 7.5, "color": "#333333"}
        text = wording.estimate(value, low, high).value
        canvas.annotate(axes, text, (value, row), (0, 5), **look)
    _cost_scale(axes, np.array(shown), np.array(values))


def _cost_scale(axes: Axes, shown: np.ndarray, values: np.ndarray) -> None:
    """Scales the horizontal axis of costs: with zero, or logarithmic where they span much."""
    axes.xaxis.set_major_locator(MaxNLocator(nbins=4, steps=(1, 2, 2.5, 5, 10)))
    if not len(shown):
        axes.set_xticks([])
        return
    low, high = shown.min(), shown.max()
    if low > 0 and high >= 12 * low:
        axes.set_xscale("log")
        canvas.few_log_labels(axes.xaxis, 1e3)
        margin = (high / low) ** 0.12
        axes.set_xlim(low / margin, high * margin)
        return
    small = values[values > 0]
    if len(small) > 1 and high >= _WIDE * small.min():
        # Linear around zero, up to the least cost: one large cost would squeeze all others there.
        axes.set_xscale("symlog", linthresh=small.min(), linscale=0.6)
        beyond, more = (
            [end for power in range(-6, 7) if small.min() <= (end := first * 10.0**power) <= high]
            for first in (1, 3)
        )
        axes.set_xticks(sorted([0.0, *beyond, *(more if len(beyond) < 2 else [])]))
        axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: wording.tick(value)))
        axes.xaxis.set_minor_locator(NullLocator())
        axes.set_xlim(0, 1.6 * high)
        return
    axes.set_xlim(0, 1.12 * high if high > 0 else 1)


def _cut_note(groups: list[run_series.Series]) -> str:
    """Returns that costs were cut at 0, or an empty string."""
    fitted = [_estimate(group.frame, name) for group in groups for name in _COSTS]
    below = any(end < 0 for estimate in fitted for end in estimate)
    return "Costs are not negative: what was fitted below 0 stands at 0." if below else ""


def _residual_note(groups: list[run_series.Series]) -> str:
    """Returns how far the medians lie off their lines, or an empty string."""
    # Through two batch sizes a line always goes.
    fitted = [group for group in groups if len(timings.timed(group.frame, _STEP)) > 2]
    if not fitted and any(len(timings.timed(group.frame, _STEP)) == 2 for group in groups):
        return "Through two batch sizes a line always goes: how well it fits is not known."
    residuals = [timings.one_number(group.frame, "line_residual") for group in fitted]
    known = [value for value in residuals if math.isfinite(value)]
    if not known:
        return ""
    ends = dict.fromkeys(wording.percent(value) for value in (min(known), max(known)))
    return f"Medians lie off the line by {' to '.join(ends)} (root mean square)."
