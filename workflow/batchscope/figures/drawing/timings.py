"""Rows, series and vertical axes of the figures of timings.

A series is a sweep on a machine: all its batch sizes were timed in turns by one job.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pandas
from matplotlib.axes import Axes

from batchscope.analysis import run_series
from batchscope.figures.drawing import canvas
from batchscope.host import requirements
from batchscope.study.tables import possible


def here(rows: pandas.DataFrame) -> pandas.DataFrame:
    """Return the rows with met requirements, with utilisations of at most 100 %.

    Short samples can be above 100 %.
    """
    rows = rows[~rows["status"].isin(requirements.LABELS)] if "status" in rows else rows
    shares = rows.filter(like="_percent")
    return rows.assign(**{name: shares[name].clip(*possible(name)) for name in shares})


def factor_columns(frame: pandas.DataFrame) -> list[str]:
    return ["machine", *(name for name in run_series.varying(frame) if name != "machine")]


def series(frame: pandas.DataFrame) -> list[run_series.Series]:
    """Return the series in order of batch size.

    Two sweeps are distinguished by a factor that follows the batch size too, since they have
    different fits.
    """
    frame = frame.reset_index(drop=True)
    return [
        replace(group, frame=frame.loc[group.frame.index].sort_values("batch_size", kind="stable"))
        for group in run_series.series(frame.assign(batch_size=0))
    ]


def one(rows: pandas.DataFrame, column: str) -> float:
    """Return the number that all rows of a series have, or NaN."""
    known = rows[column].dropna() if column in rows else ()
    return float(known.iloc[0]) if len(known) else math.nan


def value_axis(
    axes: Axes, values: Sequence[np.ndarray], linear: bool = False, dense: bool = False
) -> None:
    """Scale the vertical axis: linear from zero, or logarithmic if values span much.

    Args:
        linear: Whether the axis is linear in any case.
        dense: Whether it is linear if the highest values of the series are similar.
    """
    finite = [part[np.isfinite(part)] for part in values]
    peaks = [part.max() for part in finite if len(part)]
    if not peaks:
        return
    if linear or (dense and max(peaks) < canvas.LOG_SPAN * min(peaks)):
        canvas.linear_ticks(axes.yaxis)
    else:
        canvas.value_axis(axes, np.concatenate(finite))
    if axes.get_yscale() == "linear":
        axes.set_ylim(0, 1.08 * max(peaks) or 1.0)
