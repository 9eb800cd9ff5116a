"""How busy CPU and GPU are, what memory is held, and what an epoch costs, against batch size."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import pandas
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from batchscope import wording
from batchscope.analysis import run_series
from batchscope.catalogue.timing_columns import QUARTILES
from batchscope.figures import Tables
from batchscope.figures.drawing import canvas, timings, words

_MOST_SHOWN = 4  # series in a sentence
_WIDTH, _HEIGHT = 3.6, 2.9  # of a panel, inches
_MAIN: dict[str, Any] = {"linestyle": "-"}
_SECOND: dict[str, Any] = {"linestyle": (0, (5, 2)), "markersize": 3.5}
_THIRD: dict[str, Any] = {"linestyle": (0, (1, 1.4)), "markersize": 2.5}
_THIN: dict[str, Any] = {"linestyle": "-", "marker": "", "linewidth": 0.8, "alpha": 0.75}
_GREY = "#555555"


class Line(NamedTuple):
    """A column of utilisation.csv, as one line of every series."""

    column: str  # beside which its quartiles stand, where it has some
    word: str  # what distinguishes it from the panel's other lines
    look: dict[str, Any]  # line style and marker; the series gives the rest


class Panel(NamedTuple):
    """What one panel shows."""

    title: str
    label: str  # words on its vertical axis, with the unit
    lines: tuple[Line, ...]  # what it shows, where known
    scale: float = 1.0  # factor from the table's unit to the axis'
    share: bool = False  # whether the axis is of percentages, always linear


_CPU = (
    Line("process_percent", "this process", _MAIN),
    Line("machine_percent", "whole machine", _THIN),
)
_GPU = (
    Line("gpu_percent", "kernels", _MAIN),
    Line("gpu_bandwidth_percent", "memory traffic", _SECOND),
)
_HELD = (
    Line("memory_peak_mb", "resident", _MAIN),
    Line("tensorflow_peak_mb", "tensors", _SECOND),
    Line("gpu_memory_peak_mb", "whole GPU", _THIRD),
)
_IDLE = (Line("process_zero_share", "CPU", _MAIN), Line("gpu_zero_share", "GPU", _SECOND))
_AT_ZERO = Panel("Time at zero", "share of time (%)", _IDLE, scale=100.0, share=True)
PANELS = (
    Panel("CPU", "CPU utilisation (%)", _CPU, share=True),
    Panel("GPU", "GPU utilisation (%)", _GPU, share=True),
    Panel("Peak memory", "peak memory (MB)", _HELD),
    _AT_ZERO,
    Panel("Energy per epoch", "GPU energy (J)", (Line("joules_per_epoch", "", _MAIN),)),
)
# What memory per example may be read from, best first.
_MEMORY = {
    "tensorflow_peak_mb": "what TensorFlow's tensors hold at most",
    "gpu_memory_peak_mb": "peak memory of the GPU",
    "memory_peak_mb": "peak resident memory",
}
_SLOPE = ("memory_mb_per_image", "memory_mb_per_image_low", "memory_mb_per_image_high")


def select(tables: Tables) -> pandas.DataFrame:
    """Returns one row per series and batch size: utilisations, peaks of memory, and energy."""
    rows = timings.at_most_all(timings.timed_here(tables.utilisation))
    columns = [line.column for panel in PANELS for line in panel.lines]
    quartiles = [f"{column}{end}" for column in columns for end in QUARTILES[1:]]
    columns += [name for name in quartiles if name in rows]
    columns += [*_SLOPE, "memory_of"]
    first = [*timings.factor_columns(rows), "batch_size", "status", "disturbed"]
    return rows[first + columns].reset_index(drop=True)


def draw(frame: pandas.DataFrame) -> Figure:
    """Returns the figure: one panel for each quantity that is known."""
    groups = timings.series(frame)
    shown = [panel for panel in PANELS if _known(frame, panel)]
    if not shown:
        figure, grid = canvas.panels(1, 1, 1.5 * _WIDTH, _HEIGHT)
        canvas.empty(grid[0, 0], timings.EMPTY)
        grid[0, 0].set(title=PANELS[0].title, ylabel=PANELS[0].label)
        canvas.write(figure, timings.machine_note(frame), timings.memory_note(frame))
        return figure
    figure, grid = canvas.some_panels(len(shown), None, _WIDTH, _HEIGHT)
    for axes, panel in zip(grid, shown, strict=True):
        _draw_panel(axes, frame, panel, groups)
    looks = [{**canvas.line_style(index), "linestyle": "-"} for index in range(len(groups))]
    handles = [Line2D([], [], **look) for look in looks]
    canvas.legend(figure, handles, [group.label for group in groups])
    shares = _zero_shares(frame)
    canvas.write(
        figure,
        timings.machine_note(frame),
        "Utilisation: medians and quartiles of samples within one training. 100 %: the cores that "
        "the process was given; for the whole machine, all of its cores. More is cut there.",
        "No sample was at zero." if len(shares) and not shares.any() else "",
        timings.disturbed_trainings_note(frame),
        _memory_words(frame),
        timings.memory_note(frame),
    )
    return figure


def found(frame: pandas.DataFrame) -> str:
    """Returns utilisation at both ends of the batch sizes, and resolved memory per example."""
    parts = (
        _ends_sentence(frame, "process_percent", "Median CPU utilisation", wording.Unit(" %")),
        _ends_sentence(frame, "gpu_percent", "Median GPU utilisation", wording.Unit(" %")),
        _ends_sentence(frame, "joules_per_epoch", "GPU energy per epoch", wording.Unit(" J")),
        _left_out(timings.disturbed_sizes(frame)),
        _memory_sentence(frame),
    )
    return " ".join(filter(None, parts))


def _left_out(sizes: str) -> str:
    """Returns which batch sizes were disturbed, from their text; empty without any."""
    several = re.search(r"[,;]| to ", sizes)
    noun, them = ("batch sizes", "them") if several else ("batch size", "it")
    return f"Left out, since other processes disturbed {them}: {noun} {sizes}." if sizes else ""


def _known(frame: pandas.DataFrame, panel: Panel) -> list[Line]:
    """Returns the lines of a panel that have a value; none of a time at zero that never was."""
    known = [line for line in panel.lines if len(timings.timed(frame, line.column))]
    return [] if panel is _AT_ZERO and not _zero_shares(frame).any() else known


def _zero_shares(frame: pandas.DataFrame) -> np.ndarray:
    shares = frame[[line.column for line in _IDLE]].to_numpy(float)
    return shares[np.isfinite(shares)]


def _draw_panel(
    axes: Axes, frame: pandas.DataFrame, panel: Panel, groups: list[run_series.Series]
) -> None:
    at = timings.batch_axis(axes, frame["batch_size"])
    drawn = [
        _draw_line(axes, at, group.frame, line, canvas.line_style(index), panel.scale)
        for line in _known(frame, panel)
        for index, group in enumerate(groups)
    ]
    if panel.share:
        timings.percent_axis(axes, drawn)
    else:
        timings.value_axis(axes, drawn, by_peaks=False)
    axes.set_ylabel(panel.label)
    timings.mark_out_of_memory(axes, at, frame)
    _title(axes, panel, _known(frame, panel))


def _draw_line(
    axes: Axes,
    at: timings.Transform,
    rows: pandas.DataFrame,
    line: Line,
    style: dict[str, Any],
    scale: float,
) -> np.ndarray:
    """Draws a column of a series with its quartiles; returns all that is drawn."""
    rows = timings.timed(rows, line.column)
    middle, low, high = (scale * each for each in timings.with_quartiles(rows, line.column))
    bars = np.nan_to_num([middle - low, high - middle])
    thin = line.look is _THIN
    axes.errorbar(
        at(rows["batch_size"]),
        middle,
        yerr=bars if f"{line.column}_q1" in rows else None,
        elinewidth=1.0,
        capsize=0 if len(rows) > 16 else 3,
        zorder=2 if thin else 3,
        **{**timings.points_look(len(rows)), **style, **line.look},
    )
    if not thin:  # which has no markers
        timings.mark_disturbed(axes, at, rows, middle, style, "disturbed")
    return middle + bars[1]


def _title(axes: Axes, panel: Panel, lines: list[Line]) -> None:
    """Writes a panel's title and, below it, the legend of its lines."""
    axes.set_title(panel.title, pad=22)  # beside the others, with a legend below or without
    if len(panel.lines) < 2:
        return
    base = {"color": _GREY, "marker": "o", "markersize": 4, "markeredgecolor": _GREY}
    handles = [Line2D([], [], **{**base, "linewidth": 1.2, **line.look}) for line in lines]
    look = {"loc": "lower left", "bbox_to_anchor": (-0.02, 1.02), "fontsize": 8}
    look |= {"borderaxespad": 0.2, "borderpad": 0.1, "ncols": len(lines)}
    look |= {"handlelength": 2.2, "handletextpad": 0.5, "columnspacing": 1.2}
    axes.legend(handles, [line.word for line in lines], **look)


def _memory_words(frame: pandas.DataFrame) -> str:
    texts = ("of the process", "what TensorFlow's tensors held", "of all processes on the GPU")
    clauses = [
        f"{line.word}: {text}"
        for line, text in zip(_HELD, texts, strict=True)
        if len(timings.timed(frame, line.column))
    ]
    return f"Memory in MB of 10⁶ bytes; {'; '.join(clauses)}." if clauses else ""


def _ends_sentence(frame: pandas.DataFrame, column: str, what: str, unit: wording.Unit) -> str:
    """Returns a quantity at the smallest and the largest batch size, for every series.

    What other processes disturbed is left out.
    """

    def describe(rows: pandas.DataFrame) -> str:
        known = timings.timed(rows[~timings.is_disturbed(rows, "disturbed")], column)
        if not len(known):
            return ""
        ends = known.iloc[[0, -1]] if len(known) > 1 else known
        quartiles = [name for name in (f"{column}_q1", f"{column}_q3") if name in ends]
        rows = ends.set_index("batch_size")[[column, *quartiles]].astype(float)
        if quartiles:
            values = [timings.by_quartiles(*row, unit) for row in rows.to_numpy()]
        else:
            values = wording.alike([(value, math.nan, math.nan) for value in rows[column]], unit)
        parts = [f"{value} at {size}" for size, value in zip(rows.index, values, strict=True)]
        return wording.listed(parts).replace(" at ", " at batch size ", 1)

    return by_series(frame, what, "was", describe)


def _memory_sentence(frame: pandas.DataFrame) -> str:
    """Returns memory per example, from the best count that is resolved for any series."""
    best = next((column for column in _MEMORY if (frame["memory_of"] == column).any()), "")

    def describe(rows: pandas.DataFrame) -> str:
        if timings.one(rows, "memory_of") != best:
            return ""
        ends = (timings.one_number(rows, name) for name in _SLOPE)
        return wording.estimated(*ends, wording.Unit(" MB"))

    named = f"Memory per example ({_MEMORY.get(best)}, slope over batch size)"
    return by_series(frame, named, "was", describe) if best else ""


def by_series(
    frame: pandas.DataFrame, what: str, verb: str, describe: Callable[[pandas.DataFrame], str]
) -> str:
    """Returns one sentence about a quantity, with what every series has to say, if anything."""
    described = [(group.label, describe(group.frame)) for group in timings.series(frame)]
    parts = [text + wording.aside(label) for label, text in described if text]
    shown = [*parts[:_MOST_SHOWN], *words.further(len(parts) - _MOST_SHOWN)]
    return f"{what} {verb} {'; '.join(shown)}." if shown else ""
