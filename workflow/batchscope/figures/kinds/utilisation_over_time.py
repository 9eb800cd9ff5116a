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
from batchscope.catalogue import entries
from batchscope.figures import Tables
from batchscope.figures.drawing import canvas, timings

_MOST_SERIES = 4
_WIDTH, _HEIGHTS = 8.8, (2.0, 1.25)  # inches, of both panels of a series
_LETTER, _POINTS = 6.0, 560.0  # width of a digit, and of the time axis, about
_SHADE = {"color": canvas.MUTED, "alpha": 0.15, "linewidth": 0, "zorder": 0}
_PROCESS: dict[str, Any] = {"color": canvas.INK, "linewidth": 1.0}
_GPU: dict[str, Any] = {"color": canvas.INK, "linewidth": 1.0, "linestyle": (0, (4, 1.2))}
_MACHINE: dict[str, Any] = {"color": canvas.MUTED, "linewidth": 0.6}
# Column -> look and words, panel by panel.
_PANELS: tuple[dict[str, tuple[dict[str, Any], str]], ...] = (
    {
        "machine_percent": (_MACHINE, "CPU of the whole machine"),
        "process_percent": (_PROCESS, "CPU of the process, and its memory"),
        "gpu_percent": (_GPU, "GPU, and its memory"),
    },
    {"memory_mb": (_PROCESS, ""), "gpu_memory_mb": (_GPU, "")},
)
_LABELS = (("Utilisation", "utilisation (%)"), ("Memory", "memory (MB)"))


class Phase(NamedTuple):
    """A training, with its start and its end in seconds."""

    batch_size: int
    start: float
    stop: float


def select(tables: Tables, spec: entries.Figure) -> pandas.DataFrame:
    """Returns one row per series and sample: batch size, seconds, utilisations and memory."""
    rows = timings.here(getattr(tables, spec.table))
    if rows.empty:
        return rows
    columns = ["batch_size", "phase", "seconds", *_PANELS[0], *_PANELS[1]]
    return rows[[*timings.factor_columns(rows), *columns]].reset_index(drop=True)


def draw(frame: pandas.DataFrame, _: entries.Figure) -> Figure:
    """Returns the figure: for each series utilisation over memory."""
    groups = timings.series(frame)[:_MOST_SERIES]
    size, ratios = (_WIDTH, 0.4 + sum(_HEIGHTS) * len(groups)), _HEIGHTS * len(groups)
    figure = Figure(figsize=size, layout="constrained")
    grid = figure.subplots(2 * len(groups), 1, squeeze=False, height_ratios=ratios)[:, 0]
    for index, group in enumerate(groups):
        _draw_series(grid[2 * index : 2 * index + 2], group)
    grid[-1].set_xlabel("time (s)")
    known = [line for name, line in _PANELS[0].items() if frame[name].notna().any()]
    canvas.legend(figure, known)
    return figure


def phases(rows: pandas.DataFrame) -> list[Phase]:
    """Returns the trainings behind samples of a series, in order.

    A sample stands for the time since the one before it, so that a training begins with the
    last sample before its own.
    """
    sizes = rows["batch_size"].to_numpy(float, na_value=math.nan)
    seconds = rows["seconds"].to_numpy(float)
    found: list[Phase] = []
    for index, size in enumerate(sizes):
        if index and sizes[index - 1] == size:
            found[-1] = found[-1]._replace(stop=float(seconds[index]))
        elif not math.isnan(size):
            found.append(Phase(int(size), float(seconds[max(index - 1, 0)]), float(seconds[index])))
    return found


def _draw_series(both: Sequence[Axes], group: run_series.Series) -> None:
    # The series have samples by batch size, rests last.
    rows = group.frame.sort_index().sort_values("seconds", kind="stable")
    seconds, trainings = rows["seconds"].to_numpy(float), phases(rows)
    for axes, columns, (title, label) in zip(both, _PANELS, _LABELS, strict=True):
        for phase in trainings:
            axes.axvspan(phase.start, phase.stop, **_SHADE)
        drawn = []
        for column, (look, _) in columns.items():
            values = rows[column].to_numpy(float)
            if np.isfinite(values).any():
                axes.plot(seconds, values, drawstyle="steps-pre", **look)
                drawn.append(values)
        timings.value_axis(axes, drawn, linear=True)
        axes.set_xlim(seconds.min(), max(seconds.max(), seconds.min() + 1e-3))
        axes.set_ylabel(label)
        axes.set_title(wording.titled(title, group.label) if axes is both[0] else "", pad=16)
    both[0].tick_params(labelbottom=False)
    _label(both[0], trainings, float(np.ptp(seconds)))


def _label(axes: Axes, trainings: Sequence[Phase], seconds: float) -> None:
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
