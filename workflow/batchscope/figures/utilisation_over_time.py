"""How busy CPU and GPU are and what memory is held, through consecutive trainings."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import pandas
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from batchscope import wording
from batchscope.analysis import run_series
from batchscope.figures import Tables, utilisation
from batchscope.figures.drawing import canvas, timings

_MOST_SERIES = 4  # that are drawn
_WIDTH = 8.8  # inches
_HEIGHTS = (2.0, 1.25)  # of both panels of a series, inches
_POINTS = 72 * (_WIDTH - 0.9)  # of the time axis, about
_LETTER, _LINE = 5.3, 9.5  # width of a letter and height of a line of labels, points
_CPU = {"color": canvas.COLOURS[0], "linewidth": 1.0}
_GPU = {"color": canvas.COLOURS[1], "linewidth": 1.0, "linestyle": (0, (4, 1.2))}
_MACHINE = {"color": "#777777", "linewidth": 0.7}
_SHADES = ("#E3E3E3", "#F3F3F3")
_CPU_COLUMNS, _GPU_COLUMNS = ("process_percent", "memory_mb"), ("gpu_percent", "gpu_memory_mb")


class Phase(NamedTuple):
    """A training, with its start and its end in seconds."""

    batch_size: int
    start: float
    stop: float


def select(tables: Tables) -> pandas.DataFrame:
    """Returns one row per series and sample: batch size, seconds, utilisations and memory."""
    rows = tables.samples
    columns = ["batch_size", "phase", "seconds", "machine_percent", *_CPU_COLUMNS, *_GPU_COLUMNS]
    return rows[[*timings.factor_columns(rows), *columns]].reset_index(drop=True)


def draw(frame: pandas.DataFrame) -> Figure:
    """Returns the figure: for each series utilisation over memory."""
    groups = [replace(each, frame=_in_time(each.frame)) for each in timings.series(frame)]
    shown = groups[:_MOST_SERIES]
    figure = Figure(figsize=(_WIDTH, 0.4 + sum(_HEIGHTS) * len(shown)), layout="constrained")
    figure.get_layout_engine().set(w_pad=0.08, h_pad=0.04, wspace=0.03, hspace=0.02)
    ratios = _HEIGHTS * len(shown)
    grid = figure.subplots(2 * len(shown), 1, squeeze=False, height_ratios=ratios)[:, 0]
    memory = [group.frame[["memory_mb", "gpu_memory_mb"]].to_numpy(float) for group in shown]
    canvas.alike_scales(grid[1::2], memory)
    for group, upper, lower in zip(shown, grid[::2], grid[1::2], strict=True):
        lower.sharex(upper)
        _draw_series(upper, lower, group)
        if group is not shown[-1]:
            lower.set_xlabel("")
    _legend(figure, pandas.concat([group.frame for group in shown]))
    canvas.write(
        figure,
        timings.machine_note(frame),
        "100 % of the CPU are the cores that the process was given; of the whole machine, all of "
        "its cores. Memory in 10⁶ bytes.",
        canvas.first_note(len(shown), len(groups)),
    )
    return figure


def found(frame: pandas.DataFrame) -> str:
    """Returns the mean utilisation while training and between two trainings."""
    parts = (
        utilisation.by_series(frame, f"Mean {name} utilisation", "was", _means(column))
        for name, column in (("CPU", "process_percent"), ("GPU", "gpu_percent"))
    )
    return " ".join(filter(None, parts))


def phases(rows: pandas.DataFrame) -> list[Phase]:
    """Returns the trainings behind samples of a series, in order.

    A sample stands for the time since the one before it, so that a training begins with the
    last sample before its own.
    """
    sizes = rows["batch_size"].to_numpy(float, na_value=math.nan)
    seconds = rows["seconds"].to_numpy(float)
    found_phases = []
    for index, size in enumerate(sizes):
        if math.isnan(size):
            continue
        if index and sizes[index - 1] == size:
            found_phases[-1] = found_phases[-1]._replace(stop=float(seconds[index]))
        else:
            start = seconds[max(index - 1, 0)]
            found_phases.append(Phase(int(size), float(start), float(seconds[index])))
    return found_phases


def _in_time(rows: pandas.DataFrame) -> pandas.DataFrame:
    """Returns samples in order of time; those of one millisecond as they were taken.

    The series have them by batch size, rests last.
    """
    return rows.sort_index().sort_values("seconds", kind="stable")


def _means(column: str) -> Callable[[pandas.DataFrame], str]:
    """Returns a function that describes a column's means while training and in between."""

    def describe(rows: pandas.DataFrame) -> str:
        rows = _in_time(rows)
        values = rows[column].to_numpy(float)
        seconds = rows["seconds"].to_numpy(float)
        weights = np.diff(seconds, prepend=seconds[:1])
        training = rows["batch_size"].notna().to_numpy()
        resting = ~training & rows["phase"].isna().to_numpy()
        known = np.isfinite(values) & (weights > 0)
        parts = []
        for chosen, when in ((known & training, "training"), (known & resting, "resting")):
            if chosen.any():
                mean = np.average(values[chosen], weights=weights[chosen])
                parts.append(f"{wording.fixed(mean, 1)} % while {when}")
        return wording.listed(parts) if parts and (known & training).any() else ""

    return describe


def _draw_series(upper: Axes, lower: Axes, group: run_series.Series) -> None:
    rows = group.frame
    upper.tick_params(labelbottom=False)
    title = wording.titled("Utilisation", group.label)
    upper.set(title=title, ylabel="utilisation (%)")
    lower.set(title="Memory", ylabel="memory (MB)", xlabel="time (s)")
    if rows.empty:
        canvas.empty(upper, timings.EMPTY)
        canvas.empty(lower, "")
        return
    trainings = phases(rows)
    seconds = rows["seconds"].to_numpy(float)
    for axes in (upper, lower):
        for index, phase in enumerate(trainings):
            colour = _SHADES[index % len(_SHADES)]
            axes.axvspan(phase.start, phase.stop, color=colour, linewidth=0, zorder=0)
        axes.set_xlim(seconds.min(), max(seconds.max(), seconds.min() + 1e-3))
    busy = {"machine_percent": _MACHINE, "process_percent": _CPU, "gpu_percent": _GPU}
    timings.percent_axis(upper, _draw_samples(upper, timings.at_most_all(rows), busy), 1.05)
    held = {"memory_mb": _CPU, "gpu_memory_mb": _GPU}
    timings.value_axis(lower, _draw_samples(lower, rows, held), by_peaks=False)
    height = _label_phases(upper, trainings)
    upper.set_title(title, pad=6 + height)


def _draw_samples(
    axes: Axes, rows: pandas.DataFrame, styles: dict[str, dict[str, Any]]
) -> list[np.ndarray]:
    """Draws columns, each sample over the time that it stands for; returns the known values."""
    drawn = []
    for column, style in styles.items():
        values = rows[column].to_numpy(float)
        known = np.isfinite(values)
        if known.any():
            axes.plot(rows["seconds"].to_numpy(float), values, drawstyle="steps-pre", **style)
        drawn.append(values[known])
    return drawn


def _label_phases(axes: Axes, trainings: list[Phase]) -> float:
    """Writes batch sizes over the trainings; returns how high that is, in points.

    Upright where they have no room side by side, and not all of them where there is none either.
    """
    if not trainings:
        return 0.0
    low, high = axes.get_xlim()
    at = [(phase.start + phase.stop) / 2 for phase in trainings]
    places = np.array(at) * _POINTS / (high - low)
    widths = np.array([_LETTER * len(str(phase.batch_size)) for phase in trainings])
    gaps = np.diff(places)
    upright = bool((gaps < (widths[1:] + widths[:-1]) / 2 + 3).any())
    every = max(1, math.ceil(_LINE / gaps.min())) if upright else 1
    look = {"va": "bottom", "fontsize": 8}
    beside = {**look, "xycoords": "axes fraction", "ha": "right"}
    look |= {"xycoords": axes.get_xaxis_transform(), "ha": "center"}
    look |= {"rotation": 90 if upright else 0}
    for place, phase in list(zip(at, trainings, strict=True))[::every]:
        canvas.annotate(axes, str(phase.batch_size), (place, 1.0), (0, 3), **look)
    canvas.annotate(axes, "batch size", (0.0, 1.0), (-4, 3), **beside)
    return float(widths.max()) + 3 if upright else 11.0


def _legend(figure: Figure, frame: pandas.DataFrame) -> None:
    entries = [
        (Line2D([], [], **{**style, "linewidth": 1.6}), word)
        for columns, style, word in (
            (_CPU_COLUMNS, _CPU, "CPU of the process, and its resident memory"),
            (("machine_percent",), _MACHINE, "CPU of the whole machine"),
            (_GPU_COLUMNS, _GPU, "GPU, and its memory"),
        )
        if any(len(timings.timed(frame, column)) for column in columns)
    ]
    canvas.legend_of(figure, entries)
