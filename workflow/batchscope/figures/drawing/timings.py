"""What figures of times share: rows, series, numbers of a series, and the vertical axis.

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
    """Returns the rows of a table but those that wait for a device.

    No utilisation in them is above 100 %, which short samples can show.
    """
    rows = rows[~rows["status"].isin(requirements.LABELS)] if "status" in rows else rows
    shares = rows.filter(like="_percent")
    return rows.assign(**{name: shares[name].clip(*possible(name)) for name in shares})


def factor_columns(frame: pandas.DataFrame) -> list[str]:
    return ["machine", *(name for name in run_series.varying(frame) if name != "machine")]


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
    if linear or (dense and max(peaks) < canvas.LOG_SPAN * min(peaks)):
        canvas.linear_ticks(axes.yaxis)
    else:
        canvas.value_axis(axes, np.concatenate(finite))
    if axes.get_yscale() == "linear":
        axes.set_ylim(0, 1.08 * max(peaks) or 1.0)
