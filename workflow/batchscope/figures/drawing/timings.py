"""What figures of times share: batch sizes on an axis, series, and medians of blocks.

A series is a sweep on a machine: all its batch sizes were timed in turns by one job.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pandas
from matplotlib.axes import Axes
from matplotlib.lines import Line2D
from matplotlib.ticker import FixedLocator, NullLocator

from batchscope.analysis import run_series
from batchscope.catalogue.tables import QUARTILES, possible
from batchscope.figures.drawing import canvas
from batchscope.host import absence
from batchscope.store import records

_DENSE_SIZES, _DENSE_LARGEST = 12, 128  # so many sizes up to this one show steps at multiples
_LOG_SPAN = 12.0  # ratio of the series' highest values from which one would be squashed
_LOST = {"linestyle": "none", "marker": "x", "markersize": 4.5, "color": canvas.FAILED_COLOUR}
_DISTURBED = {"linestyle": "none", "marker": "o", "markersize": 8, "fillstyle": "none"}
_DISTURBED |= {"color": canvas.FAILED_COLOUR, "markeredgewidth": 0.5}
FLAGS = ("disturbed_blocks", "disturbed")  # above 0 where other processes disturbed

Transform = Callable[[Any], np.ndarray]


def is_dense(sizes: Any) -> bool:
    """Returns whether batch sizes stand on a linear axis."""
    different = {int(size) for size in sizes}
    return len(different) >= _DENSE_SIZES and max(different) <= _DENSE_LARGEST


def batch_axis(axes: Axes, sizes: Any) -> Transform:
    """Sets up a horizontal axis of all batch sizes; returns what turns them into positions on it.

    Log2 as everywhere, but linear for a dense range, since steps at multiples show only there.
    """
    sizes = sorted({int(size) for size in sizes})
    if not is_dense(sizes):
        canvas.batch_size_axis(axes, sizes)
        return lambda values: np.log2(np.asarray(values, float))
    step = 2 ** max(0, math.ceil(math.log2(sizes[-1] / 9)))
    axes.xaxis.set_major_locator(FixedLocator(range(0, sizes[-1] + 1, step)))
    axes.xaxis.set_minor_locator(NullLocator())
    axes.grid(True, axis="x")
    axes.set_xlim(0, 1.03 * sizes[-1])
    axes.set_xlabel("batch size")
    return lambda values: np.asarray(values, float)


def factor_columns(frame: pandas.DataFrame) -> list[str]:
    """Returns the columns that distinguish series: the machine always, and what varies."""
    return ["machine", *(name for name in run_series.varying(frame) if name != "machine")]


def timed_here(rows: pandas.DataFrame) -> pandas.DataFrame:
    """Returns the rows of a table but those that need a framework or a device that is not here."""
    return rows[~rows["status"].isin(absence.WORDS)] if "status" in rows else rows


def at_most_all(rows: pandas.DataFrame) -> pandas.DataFrame:
    """Returns rows in which no utilisation is above 100 %, which short samples can show."""
    shares = rows.filter(like="_percent")
    return rows.assign(**{name: shares[name].clip(*possible(name)) for name in shares})


def series(frame: pandas.DataFrame) -> list[run_series.Series]:
    """Returns the series, each in order of batch size.

    A factor that the batch size settles still distinguishes two sweeps here, since each has fits
    of its own.
    """
    frame = frame.reset_index(drop=True)
    found = run_series.series(frame.assign(batch_size=0))
    return [
        replace(group, frame=frame.loc[group.frame.index].sort_values("batch_size", kind="stable"))
        for group in found
    ]


def one(rows: pandas.DataFrame, column: str) -> float:
    """Returns a number that stands on every row of a series; NaN where none does."""
    known = rows[column].dropna() if column in rows else ()
    return float(known.iloc[0]) if len(known) else math.nan


def timed(rows: pandas.DataFrame, column: str) -> pandas.DataFrame:
    """Returns the rows that have a value."""
    return rows[np.isfinite(rows[column].to_numpy(float))]


def draw_medians(
    axes: Axes, at: Transform, rows: pandas.DataFrame, column: str, style: dict[str, Any], flag: str
) -> np.ndarray:
    """Draws medians with their quartiles, where there are some; returns all that is drawn.

    What other processes disturbed, where `flag` is above 0, has a ring.
    """
    rows = timed(rows, column)
    ends = (f"{column}{end}" for end in QUARTILES)
    middle, low, high = (rows[name if name in rows else column].to_numpy(float) for name in ends)
    look = {"linewidth": 1.2, "elinewidth": 1.0, "markersize": 3 if len(rows) > 16 else 5}
    place, look = at(rows["batch_size"]), look | canvas.line_look(style, len(rows))
    canvas.error_bars(axes, place, middle, low, high, zorder=3, **look)
    if flag in rows:
        disturbed = rows[flag].to_numpy(float, na_value=0.0) > 0
        if disturbed.any():
            axes.plot(place[disturbed], middle[disturbed], zorder=4, **_DISTURBED)
    return np.concatenate([middle, low, high])


def value_axis(
    axes: Axes, values: Sequence[np.ndarray], linear: bool = False, dense: bool = False
) -> None:
    """Scales the vertical axis: from zero, or logarithmic where values span much.

    Args:
        linear: Whether it is from zero whatever they span.
        dense: Whether only the series' highest values decide, so that a linear axis shows steps
            of one series undistorted unless another would be squashed.
    """
    finite = [part[np.isfinite(part)] for part in values]
    peaks = [part.max() for part in finite if len(part)]
    if not peaks:
        return
    if linear or (dense and max(peaks) < _LOG_SPAN * min(peaks)):
        canvas.linear_ticks(axes.yaxis)
    else:
        canvas.value_axis(axes, np.concatenate(finite))
    if axes.get_yscale() == "linear":
        axes.set_ylim(0, 1.08 * max(peaks) or 1.0)


def mark_out_of_memory(axes: Axes, at: Transform, frame: pandas.DataFrame) -> None:
    """Marks at the upper edge where a series ran out of memory."""
    sizes = frame.loc[frame["status"] == records.OUT_OF_MEMORY, "batch_size"].unique()
    if len(sizes):
        edge = {"transform": axes.get_xaxis_transform(), "clip_on": False, "zorder": 5}
        axes.plot(at(sizes), np.ones(len(sizes)), **edge, **_LOST)


def mark_entries(frame: pandas.DataFrame) -> list[tuple[Any, str]]:
    """Returns the entries of a legend for what was disturbed or failed, where something was."""
    flags = [name for name in FLAGS if name in frame]
    disturbed = (frame[flags].fillna(0).astype(float) > 0).any(axis=None)
    lost = (frame["status"] == records.OUT_OF_MEMORY).any()
    marks = ((disturbed, _DISTURBED, "disturbed"), (lost, _LOST, "out of memory"))
    return [(Line2D([], [], **look), label) for shown, look, label in marks if shown]
