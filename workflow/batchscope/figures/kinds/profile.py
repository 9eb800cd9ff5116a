"""Where the time of training steps goes: bars of shares, or samples of utilisation over time.

The table of the specification decides: samples.csv has samples, profiles.csv has shares.
"""

import math
from typing import Any

import numpy as np
import pandas
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Patch

from batchscope.analysis import run_series
from batchscope.core import display
from batchscope.figures import FigureTables, canvas, figure_rows
from batchscope.study import specifications

# Column -> words and colour of its bars. The colours also differ in grey.
_TIME_PARTS = {
    "compute": ("compute", "#0072B2"),
    "input": ("waiting for input", "#E69F00"),
    "host": ("neither", "#d0d0d0"),
}
_HEADING_FACTORS = ("loop", "input_pipeline")  # All headings state these factors.
# Columns of numbers at the right of the bars -> their headings.
_NUMBERS = {"steps_per_second": "steps/s", "process_percent": "CPU %", "gpu_percent": "GPU %"}
_BAR_HEIGHT, _ROW_HEIGHT, _WIDTH = 0.78, 0.22, 7.6  # in rows, inches and inches
_MIN_WRITTEN_SHARE = 0.055  # Smaller shares have no room for their percentage.
_MAX_BARS, _MAX_SERIES = 60, 4
_NUMBER_WIDTH = 44  # points of a column of numbers
_SAMPLES = "samples"
_PANEL_HEIGHTS = (2.0, 1.25)  # inches of the two panels of a series of samples
_DIGIT_WIDTH, _TIME_AXIS_WIDTH = 6.0, 560.0  # approximate, in points
_PROCESS: dict[str, Any] = {"color": canvas.INK, "linewidth": 1.0}
_GPU: dict[str, Any] = {**_PROCESS, "linestyle": (0, (4, 1.2))}
# Column -> props of its line.
_UTILISATION: dict[str, dict[str, Any]] = {
    "machine_percent": {"color": canvas.MUTED, "linewidth": 0.6},
    "process_percent": _PROCESS,
    "gpu_percent": _GPU,
}
_MEMORY = {"memory_mb": _PROCESS, "gpu_memory_mb": _GPU}
_LABELS = ("CPU of the whole machine", "CPU of the process, and its memory", "GPU, and its memory")


def select(tables: FigureTables, spec: specifications.Figure) -> pandas.DataFrame:
    """Return one row per series and sample, or per configuration and batch size.

    Speed and utilisation of a configuration were measured without the profiler.
    """
    rows = figure_rows.usable_timings(getattr(tables, spec.table))
    if rows.empty:
        return rows
    columns = ["batch_size", "phase", "seconds", *_UTILISATION, *_MEMORY]
    if spec.table != _SAMPLES:
        rows = rows if rows["compute"].notna().any() else rows.iloc[:0]
        columns = [*_HEADING_FACTORS, "batch_size", "status", *_TIME_PARTS, "steps", *_NUMBERS]
    columns = dict.fromkeys(["machine", *run_series.varying_factors(rows), *columns])
    return rows[list(columns)].reset_index(drop=True)


def draw(frame: pandas.DataFrame, spec: specifications.Figure) -> Figure:
    return _draw_samples(frame) if spec.table == _SAMPLES else _draw_bars(frame, spec)


def _draw_bars(frame: pandas.DataFrame, spec: specifications.Figure) -> Figure:
    """Return one bar per batch size, below a heading for each configuration."""
    numbers = [name for name in _NUMBERS if frame[name].notna().any()]
    factors = [*run_series.varying_factors(frame), *_HEADING_FACTORS]
    lines: list[str | pandas.Series] = []  # headings, and rows with a bar
    for group in figure_rows.sweep_series(frame):
        shared = [name for name in factors if group.frame[name].nunique() == 1]
        heading = run_series.describe({name: group.frame[name].iloc[0] for name in shared})
        lines += [display.capital(heading), *(row for _, row in group.frame.iterrows())]
    lines, sizes = lines[:_MAX_BARS], {}
    figure, (axes,) = canvas.panels(1, 1, _WIDTH, 0.75 + _ROW_HEIGHT * max(len(lines), 4))
    for y, content in enumerate(lines):
        if isinstance(content, str):
            axes.text(0.0, y, content, va="center", fontweight="bold", in_layout=False)
        else:
            sizes[y] = str(content["batch_size"])
            _draw_bar(axes, y, content, numbers)
    axes.set_yticks(list(sizes), list(sizes.values()))
    axes.set(xlim=(0, 1), ylim=(len(lines) - 0.4, -0.6), title=spec.title, ylabel="batch size")
    axes.xaxis.set_major_formatter(canvas.percent_tick)
    axes.set_xlabel("share of wall time (%)")
    axes.tick_params(axis="y", length=0)
    axes.grid(visible=False)
    axes.spines["left"].set_visible(False)
    for column, name in enumerate(numbers, 1):
        _write_number(axes, column, 0.0, _NUMBERS[name])
    edge = {"edgecolor": canvas.MUTED, "linewidth": 0.5}
    patches = [(Patch(facecolor=colour, **edge), text) for text, colour in _TIME_PARTS.values()]
    canvas.draw_legend(figure, patches)
    return figure


def _draw_bar(axes: Axes, y: float, row: pandas.Series, numbers: list[str]) -> None:
    shares = np.array([row[name] for name in _TIME_PARTS], float)
    if not np.isfinite(shares).all():
        props = {"va": "center", "fontsize": 8, "color": canvas.FAILED_COLOUR}
        axes.text(0.01, y, str(row["status"]).replace("_", " "), **props)
        return
    starts = np.cumsum(shares) - shares
    for (_, colour), start, share in zip(_TIME_PARTS.values(), starts, shares, strict=True):
        bars = axes.barh(
            y, share, _BAR_HEIGHT, left=start, color=colour, edgecolor=canvas.PAPER, zorder=2
        )
        if share >= _MIN_WRITTEN_SHARE:
            props = {"fontsize": 7.5, "color": canvas.PAPER if start == 0 else "#000000"}
            axes.bar_label(bars, [display.percent(share, 0)], label_type="center", **props)
    for column, name in enumerate(numbers, 1):
        if math.isfinite(value := float(row[name])):
            _write_number(axes, column, y, display.grouped(value))


def _write_number(axes: Axes, column: int, y: float, text: str) -> None:
    props = {"ha": "right", "va": "center", "fontsize": 8.5, "annotation_clip": False}
    canvas.annotate(axes, text, (1.0, y), (_NUMBER_WIDTH * column, 0), **props)


def _draw_samples(frame: pandas.DataFrame) -> Figure:
    """Return a panel of utilisation above a panel of memory for each series, over time."""
    groups = figure_rows.sweep_series(frame)[:_MAX_SERIES]
    figure = canvas.new_figure(8.8, 0.4 + sum(_PANEL_HEIGHTS) * len(groups))
    ratios = _PANEL_HEIGHTS * len(groups)
    grid = figure.subplots(2 * len(groups), 1, squeeze=False, height_ratios=ratios)[:, 0]
    for upper, lower, group in zip(grid[::2], grid[1::2], groups, strict=True):
        # The frame is in order of batch size; samples between trainings, without one, are last.
        rows = group.frame.sort_index().sort_values("seconds", kind="stable")
        trainings, seconds = training_phases(rows), rows["seconds"].to_numpy(float)
        for axes, columns in ((upper, _UTILISATION), (lower, _MEMORY)):
            for _, start, end in trainings:
                shade = {"color": canvas.MUTED, "alpha": 0.15, "linewidth": 0, "zorder": 0}
                axes.axvspan(start, end, **shade)
            measured = [name for name in columns if rows[name].notna().any()]
            for name in measured:
                axes.plot(seconds, rows[name], drawstyle="steps-pre", **columns[name])
            canvas.set_axis_from_zero(axes, rows[measured].to_numpy(float), is_linear=True)
            axes.set_xlim(seconds.min(), max(seconds.max(), seconds.min() + 1e-3))
        upper.set_ylabel("utilisation (%)")
        lower.set_ylabel("memory (MB)")
        upper.set_title(display.titled("Utilisation", group.label), pad=16)
        upper.tick_params(labelbottom=False)
        _label_trainings(upper, trainings, float(np.ptp(seconds)))
    grid[-1].set_xlabel("time (s)")
    entries = zip(_UTILISATION.items(), _LABELS, strict=True)
    has_values = frame.notna().any()
    entries = [(props, label) for (name, props), label in entries if has_values[name]]
    canvas.draw_legend(figure, entries)
    return figure


def training_phases(rows: pandas.DataFrame) -> list[tuple[int, float, float]]:
    """Return batch size, start and end of the trainings of a series of samples, in seconds.

    A sample represents the time since the previous one, so a training starts at the last sample
    before its own.
    """
    rows = rows.astype({"batch_size": float, "seconds": float})
    rows["start"] = rows["seconds"].shift().fillna(rows["seconds"])
    changes = rows["batch_size"].ne(rows["batch_size"].shift()).cumsum()
    trainings = rows[rows["batch_size"].notna()].groupby(changes)
    ends = trainings.agg({"batch_size": "first", "start": "first", "seconds": "last"})
    return [(int(size), start, end) for size, start, end in ends.to_numpy(float)]


def _label_trainings(axes: Axes, trainings: list[tuple[int, float, float]], seconds: float) -> None:
    """Write the batch sizes above their trainings if there is room."""
    props = {"xycoords": axes.get_xaxis_transform(), "ha": "center", "fontsize": 8}
    last_end = -math.inf
    for size, start, end in trainings:
        middle = (start + end) / 2
        room = _DIGIT_WIDTH * len(str(size)) / 2 * seconds / _TIME_AXIS_WIDTH
        if middle - room > last_end:
            last_end = middle + room
            canvas.annotate(axes, str(size), (middle, 1.0), (0, 3), **props)
    left = {"xycoords": "axes fraction", "ha": "right", "fontsize": 8}
    canvas.annotate(axes, "batch size", (0.0, 1.0), (-4, 3), **left)
