"""What the wall time of training steps goes to: compute, waiting for input, or neither."""

from __future__ import annotations

import itertools
import math
from typing import NamedTuple

import numpy as np
import pandas
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Patch
from matplotlib.ticker import FuncFormatter

from batchscope import wording
from batchscope.analysis import run_series
from batchscope.figures import Tables
from batchscope.figures.drawing import canvas, timings
from batchscope.store import records


class Part(NamedTuple):
    """A part of the wall time."""

    word: str  # in a legend
    verb: str  # in a sentence
    colour: str  # of its bars
    text: str  # colour of percentages in its bars


# Dark, middle and light, so that they differ in grey too.
PARTS = {
    "compute": Part("compute", "was computing", "#0072B2", "white"),
    "input": Part("waiting for input", "was waiting for input", "#E69F00", "black"),
    "host": Part("neither", "was neither", "#DDDDDD", "black"),
}
_ALWAYS = ("loop", "input_pipeline")  # in a bar's label even where all bars share them
_BAR, _HEADING, _GAP = 0.78, 0.95, 0.45  # height of a bar, of a heading, and below a group, rows
_ROW = 0.22  # inches
_WIDTH = 7.6  # inches
_LEAST_WRITTEN = 0.055  # share of a bar that has room for its percentage
_MOST_BARS = 60
_COLUMN = 44  # width of a column of numbers beside the bars, points
_SAMPLED = {"CPU": "process_percent", "GPU": "gpu_percent"}
# Columns at the right of the bars -> their headings; those without a value are left out.
_BESIDE = {"steps_per_second": "steps/s", "process_percent": "CPU %", "gpu_percent": "GPU %"}


def select(tables: Tables) -> pandas.DataFrame:
    """Returns one row per configuration and batch size: shares of the wall time, and speed.

    The speed is that without the profiler, and so is how busy CPU and GPU were meanwhile.
    """
    rows = timings.at_most_all(timings.timed_here(tables.profiles))
    varying = timings.factor_columns(rows)
    columns = [*varying, *_ALWAYS, "batch_size", "status", *PARTS, "steps", *_BESIDE]
    return rows[list(dict.fromkeys(columns))].reset_index(drop=True)


def draw(frame: pandas.DataFrame) -> Figure:
    """Returns the figure: one bar per configuration and batch size."""
    groups = timings.series(frame)
    shown = _shown(groups)
    height = sum(_HEADING + len(group.frame) + _GAP for group in shown)
    figure = Figure(figsize=(_WIDTH, 0.75 + _ROW * max(height, 4)), layout="constrained")
    figure.get_layout_engine().set(w_pad=0.08, h_pad=0.06)
    axes = figure.subplots()
    axes.set_title("Share of wall time")
    if frame.empty:
        canvas.empty(axes, "nothing profiled")
    else:
        _draw_bars(axes, shown, frame)
    axes.set_xlim(0, 1)
    axes.xaxis.set_major_formatter(FuncFormatter(canvas.percent_tick))
    axes.set_xlabel("share of wall time (%)")
    edge = {"edgecolor": "#777777", "linewidth": 0.5}
    parts = PARTS.values()
    canvas.legend_of(figure, [(Patch(facecolor=part.colour, **edge), part.word) for part in parts])
    lost = (frame["status"] == records.OUT_OF_MEMORY).any()
    canvas.write(
        figure,
        timings.machine_note(frame),
        _beside_note(frame),
        "Where a batch size ran out of memory there is nothing to divide." if lost else "",
        canvas.first_note(len(shown), len(groups), "configurations"),
    )
    return figure


def found(frame: pandas.DataFrame) -> str:
    """Returns the parts of the wall time at both ends of the batch sizes; of series, the ends."""
    every = ((each.label, timings.timed(each.frame, "compute")) for each in timings.series(frame))
    known = [(label, rows.set_index("batch_size")) for label, rows in every if len(rows)]
    shared = set.intersection(*(set(rows.index) for _, rows in known)) if known else ()
    ends = dict.fromkeys((min(shared), max(shared))) if shared else ()
    return " ".join(_shares(known, size) for size in ends)


def _shares(known: list[tuple[str, pandas.DataFrame]], size: int) -> str:
    """Returns what a step's time goes into at a batch size: the lowest and the highest share."""
    parts = []
    for column, part in PARTS.items():
        ordered = sorted((rows.loc[size, column], label) for label, rows in known)
        ends = [
            wording.percent(share) + (f" ({label})" if len(known) > 1 else "")
            for share, label in dict.fromkeys((ordered[0], ordered[-1]))
        ]
        parts.append(f"{' to '.join(ends)} {part.verb}")
    return f"Of a step's time at batch size {int(size)}, {wording.listed(parts)}."


def _shown(groups: list[run_series.Series]) -> list[run_series.Series]:
    """Returns the first series, with no more bars than a page has room for."""
    bars = itertools.accumulate(len(group.frame) for group in groups)
    count = sum(number <= _MOST_BARS for number in bars)
    return groups[: max(count, 1)]


def _draw_bars(axes: Axes, groups: list[run_series.Series], frame: pandas.DataFrame) -> None:
    """Draws configurations from top to bottom, each under its heading."""
    place, ticks = 0.0, []
    beside = [name for name in _BESIDE if frame[name].notna().any()]
    factors = [*run_series.varying(frame), *_ALWAYS]
    for group in groups:
        heading = timings.constant_words(group.frame, factors)
        axes.text(0.0, place, heading, va="center", fontweight="bold")
        place += _HEADING
        for _, row in group.frame.iterrows():
            _draw_bar(axes, place, row, beside)
            ticks.append((place, str(row["batch_size"])))
            place += 1
        place += _GAP
    axes.set_ylim(place - _GAP - 0.4, -0.6)  # from top to bottom
    axes.set_yticks([at for at, _ in ticks], [text for _, text in ticks])
    axes.tick_params(axis="y", length=0)
    axes.grid(False)
    axes.spines["left"].set_visible(False)
    _write_beside(axes, 0, 0.0, "batch size")
    for column, name in enumerate(beside, 1):
        _write_beside(axes, column, 0.0, _BESIDE[name])


def _draw_bar(axes: Axes, place: float, row: pandas.Series, beside: list[str]) -> None:
    shares = np.array([row[name] for name in PARTS], float)
    if not np.isfinite(shares).all():
        status = str(row["status"]).replace("_", " ")
        text = "unknown" if status == canvas.FINISHED else status
        axes.text(0.01, place, text, va="center", fontsize=8, color=canvas.FAILED_COLOUR)
        return
    starts = np.cumsum(shares) - shares
    for part, start, share in zip(PARTS.values(), starts, shares, strict=True):
        look = {"color": part.colour, "edgecolor": "white", "linewidth": 0.6, "zorder": 2}
        axes.barh(place, share, _BAR, left=start, **look)
        if share >= _LEAST_WRITTEN:
            look = {"ha": "center", "va": "center", "fontsize": 7.5, "zorder": 3}
            percent = wording.percent(share, 0)
            axes.text(start + share / 2, place, percent, color=part.text, **look)
    for column, name in enumerate(beside, 1):
        value = float(row[name])
        if math.isfinite(value):
            _write_beside(axes, column, place, wording.grouped(value))


def _write_beside(axes: Axes, column: int, place: float, text: str) -> None:
    """Writes into the column at the left of the bars (0), or into one at their right (from 1)."""
    look = {"ha": "right", "va": "center", "fontsize": 8.5, "annotation_clip": False}
    offset = (_COLUMN * column if column else -4, 0)
    canvas.annotate(axes, text, (float(column > 0), place), offset, **look)


def _beside_note(frame: pandas.DataFrame) -> str:
    busy = [name for name in ("CPU", "GPU") if frame[_SAMPLED[name]].notna().any()]
    utilisation = f" and {wording.listed(busy)} utilisation" if busy else ""
    cores = "; 100 % of the CPU are the cores that the process was given" if busy else ""
    return f"Steps per second{utilisation}: without the profiler{cores}."
