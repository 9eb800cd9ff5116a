"""What the wall time of training steps goes to: compute, waiting for input, or neither."""

from __future__ import annotations

import math

import numpy as np
import pandas
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Patch

from batchscope import wording
from batchscope.analysis import run_series
from batchscope.figures import FigureTables
from batchscope.figures.drawing import canvas, timings
from batchscope.study import specifications

# Column -> words, and the colour of its bars: dark, middle and light, so that they differ in grey.
PARTS = {
    "compute": ("compute", "#0072B2"),
    "input": ("waiting for input", "#E69F00"),
    "host": ("neither", "#d0d0d0"),
}
_ALWAYS = ("loop", "input_pipeline")  # in a heading even where all bars share them
# Columns at the right of the bars -> their headings; those without a value are left out.
_BESIDE = {"steps_per_second": "steps/s", "process_percent": "CPU %", "gpu_percent": "GPU %"}
_BAR, _ROW, _WIDTH = 0.78, 0.22, 7.6  # height of a bar in rows, of a row and the figure in inches
_LEAST_WRITTEN = 0.055  # share of a bar that has room for its percentage
_MOST_BARS = 60
_COLUMN = 44  # width of a column of numbers beside the bars, points


def select(tables: FigureTables, spec: specifications.Figure) -> pandas.DataFrame:
    """Returns one row per configuration and batch size: shares of the wall time, and speed.

    The speed is that without the profiler, and so is how busy CPU and GPU were meanwhile.
    """
    rows = timings.here(getattr(tables, spec.table))
    if rows.empty or rows["compute"].isna().all():
        return rows.iloc[:0]
    names = [*timings.factor_columns(rows), *_ALWAYS, "batch_size", "status", *PARTS, "steps"]
    return rows[list(dict.fromkeys([*names, *_BESIDE]))].reset_index(drop=True)


def draw(frame: pandas.DataFrame, spec: specifications.Figure) -> Figure:
    """Returns the figure: one bar per configuration and batch size, under their headings."""
    bars = _bars(frame)[:_MOST_BARS]
    figure, (axes,) = canvas.panels(1, 1, _WIDTH, 0.75 + _ROW * max(len(bars), 4))
    beside, sizes = [name for name in _BESIDE if frame[name].notna().any()], {}
    for at, (heading, row) in enumerate(bars):
        if row is None:
            axes.text(0.0, at, heading, va="center", fontweight="bold", in_layout=False)
        else:
            _draw_bar(axes, at, row, beside)
            sizes[at] = str(row["batch_size"])
    axes.set_yticks([*sizes], [*sizes.values()])
    axes.set(xlim=(0, 1), ylim=(len(bars) - 0.4, -0.6), title=spec.title, ylabel="batch size")
    axes.xaxis.set_major_formatter(canvas.percent_tick)
    axes.set_xlabel("share of wall time (%)")
    axes.tick_params(axis="y", length=0)
    axes.grid(visible=False)
    axes.spines["left"].set_visible(False)
    for column, name in enumerate(beside, 1):
        _write(axes, column, 0.0, _BESIDE[name])
    edge = {"edgecolor": canvas.MUTED, "linewidth": 0.5}
    patches = [(Patch(facecolor=colour, **edge), word) for word, colour in PARTS.values()]
    canvas.legend(figure, patches)
    return figure


def _bars(frame: pandas.DataFrame) -> list[tuple[str, pandas.Series | None]]:
    """Returns the rows from top to bottom: a heading without a bar, or a bar."""
    factors = [*run_series.varying(frame), *_ALWAYS]
    found: list[tuple[str, pandas.Series | None]] = []
    for group in timings.series(frame):
        same = [name for name in factors if group.frame[name].nunique() == 1]
        heading = run_series.describe({name: group.frame[name].iloc[0] for name in same})
        found.append((wording.capital(heading), None))
        found += [("", row) for _, row in group.frame.iterrows()]
    return found


def _draw_bar(axes: Axes, at: float, row: pandas.Series, beside: list[str]) -> None:
    shares = np.array([row[name] for name in PARTS], float)
    if not np.isfinite(shares).all():
        look = {"va": "center", "fontsize": 8, "color": canvas.FAILED_COLOUR}
        axes.text(0.01, at, str(row["status"]).replace("_", " "), **look)
        return
    starts = np.cumsum(shares) - shares
    for (_, colour), start, share in zip(PARTS.values(), starts, shares, strict=True):
        axes.barh(at, share, _BAR, left=start, color=colour, edgecolor=canvas.PAPER, zorder=2)
        if share >= _LEAST_WRITTEN:
            ink = canvas.PAPER if start == 0 else "#000000"
            look = {"ha": "center", "va": "center", "fontsize": 7.5, "zorder": 3, "color": ink}
            axes.text(start + share / 2, at, wording.percent(share, 0), **look)
    for column, name in enumerate(beside, 1):
        value = float(row[name])
        if math.isfinite(value):
            _write(axes, column, at, wording.grouped(value))


def _write(axes: Axes, column: int, at: float, text: str) -> None:
    look = {"ha": "right", "va": "center", "fontsize": 8.5, "annotation_clip": False}
    canvas.annotate(axes, text, (1.0, at), (_COLUMN * column, 0), **look)
