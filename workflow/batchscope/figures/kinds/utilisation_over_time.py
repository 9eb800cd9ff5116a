"""How busy CPU and GPU are and what memory is held, through consecutive trainings."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import pandas
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from batchscope import wording
from batchscope.analysis import run_series
from batchscope.figures import FigureTables
from batchscope.figures.drawing import canvas, timings
from batchscope.study import specifications

_MOST_SERIES = 4
_WIDTH, _HEIGHTS = 8.8, (2.0, 1.25)  # inches, of both panels of a series
_LETTER, _POINTS = 6.0, 560.0  # width of a digit, and of the time axis, about
_SHADE = {"color": canvas.MUTED, "alpha": 0.15, "linewidth": 0, "zorder": 0}
_PROCESS: dict[str, Any] = {"color": canvas.INK, "linewidth": 1.0}
_GPU: dict[str, Any] = {**_PROCESS, "linestyle": (0, (4, 1.2))}
# Column -> look, panel by panel.
_UPPER = {
    "machine_percent": {"color": canvas.MUTED, "linewidth": 0.6},
    "process_percent": _PROCESS,
    "gpu_percent": _GPU,
}
_LOWER = {"memory_mb": _PROCESS, "gpu_memory_mb": _GPU}
_WORDS = {
    "machine_percent": "CPU of the whole machine",
    "process_percent": "CPU of the process, and its memory",
    "gpu_percent": "GPU, and its memory",
}


class TracePhase(NamedTuple):
    """A training, with its start and its end in seconds."""

    batch_size: int
    start: float
    stop: float


def select(tables: FigureTables, spec: specifications.Figure) -> pandas.DataFrame:
    """Returns one row per series and sample: batch size, seconds, utilisations and memory."""
    rows = timings.here(getattr(tables, spec.table))
    if rows.empty:
        return rows
    columns = ["batch_size", "phase", "seconds", *_UPPER, *_LOWER]
    return rows[[*timings.factor_columns(rows), *columns]].reset_index(drop=True)


def draw(frame: pandas.DataFrame, _: specifications.Figure) -> Figure:
    """Returns the figure: for each series utilisation over memory."""
    groups = timings.series(frame)[:_MOST_SERIES]
    ratios, height = _HEIGHTS * len(groups), 0.4 + sum(_HEIGHTS) * len(groups)
    figure = Figure(figsize=(canvas.page_width(_WIDTH), height), layout="constrained")
    grid = figure.subplots(2 * len(groups), 1, squeeze=False, height_ratios=ratios)[:, 0]
    for upper, lower, group in zip(grid[::2], grid[1::2], groups, strict=True):
        _draw_series(upper, lower, group)
    grid[-1].set_xlabel("time (s)")
    known = [name for name in _UPPER if frame[name].notna().any()]
    canvas.legend(figure, [(_UPPER[name], _WORDS[name]) for name in known])
    return figure


def phases(rows: pandas.DataFrame) -> list[TracePhase]:
    """Returns the trainings behind samples of a series, in order.

    A sample stands for the time since the one before it, so that a training begins with the
    last sample before its own.
    """
    rows = rows.astype({"batch_size": float, "seconds": float})
    rows["start"] = rows["seconds"].shift().fillna(rows["seconds"])
    changes = rows["batch_size"].ne(rows["batch_size"].shift()).cumsum()
    trainings = rows[rows["batch_size"].notna()].groupby(changes)
    found = trainings.agg({"batch_size": "first", "start": "first", "seconds": "last"})
    return [TracePhase(int(size), start, stop) for size, start, stop in found.to_numpy(float)]


def _draw_series(upper: Axes, lower: Axes, group: run_series.Series) -> None:
    # The series have samples by batch size, rests last.
    rows = group.frame.sort_index().sort_values("seconds", kind="stable")
    seconds, trainings = rows["seconds"].to_numpy(float), phases(rows)
    for axes, looks in ((upper, _UPPER), (lower, _LOWER)):
        for phase in trainings:
            axes.axvspan(phase.start, phase.stop, **_SHADE)
        values = {name: rows[name].to_numpy(float) for name in looks if rows[name].notna().any()}
        for name, each in values.items():
            axes.plot(seconds, each, drawstyle="steps-pre", **looks[name])
        timings.value_axis(axes, [*values.values()], linear=True)
        axes.set_xlim(seconds.min(), max(seconds.max(), seconds.min() + 1e-3))
    upper.set_ylabel("utilisation (%)")
    lower.set_ylabel("memory (MB)")
    upper.set_title(wording.titled("Utilisation", group.label), pad=16)
    upper.tick_params(labelbottom=False)
    _label(upper, trainings, float(np.ptp(seconds)))


def _label(axes: Axes, trainings: Sequence[TracePhase], seconds: float) -> None:
    """Writes batch sizes over their trainings, where there is room beside the one before."""
    look = {"xycoords": axes.get_xaxis_transform(), "ha": "center", "fontsize": 8}
    taken = -math.inf
    for phase in trainings:
        middle = (phase.start + phase.stop) / 2
        room = _LETTER * len(str(phase.batch_size)) / 2 * seconds / _POINTS
        if middle - room > taken:
            taken = middle + room
            canvas.annotate(axes, str(phase.batch_size), (middle, 1.0), (0, 3), **look)
    beside = {"xycoords": "axes fraction", "ha": "right", "fontsize": 8}
    canvas.annotate(axes, "batch size", (0.0, 1.0), (-4, 3), **beside)
