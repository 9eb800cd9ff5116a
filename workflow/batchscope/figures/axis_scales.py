"""Scales, ticks and limits of the axes of a panel.

A new rule for an axis is a function here if several kinds of figures share it.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.ticker import LogLocator, MaxNLocator, NullLocator

from batchscope.core import display
from batchscope.study.specifications import Scale
from batchscope.study.tables import value_range

LOG_SPAN = 12.0  # An axis is logarithmic if largest / smallest value is at least this ratio.


def set_batch_size_axis(axes: Axes, batch_sizes: list[int], room: float = 0.075) -> None:
    """Set up a horizontal axis in log2(batch size); a label needs `room`, a share of the axis."""
    labelled = labelled_values(batch_sizes, room)
    axes.set_xticks(np.log2(labelled), [str(size) for size in labelled])
    if batch_sizes:
        width = np.log2(max(batch_sizes) / min(batch_sizes))
        margin = max(0.45 * min_doublings(batch_sizes), 0.04 * width)
        axes.set_xlim(np.log2(min(batch_sizes)) - margin, np.log2(max(batch_sizes)) + margin)
    axes.set_xlabel("batch size")


def labelled_values(values: list[Any], room: float = 0.075) -> list[Any]:
    """Return the values that have room for a label on a log2 axis; powers of two have priority."""
    if len(values) < 2:
        return values
    width = np.log2(max(values)) - np.log2(min(values))
    powers = [value for value in values if np.log2(value) in range(64)]
    candidates = powers if len(powers) >= 4 and len(values) > 9 else values
    labelled: list[Any] = []
    for value in sorted(candidates, key=lambda value: (value not in powers, -value)):
        if all(abs(np.log2(value / neighbour)) >= room * width for neighbour in labelled):
            labelled.append(value)
    return sorted(labelled)


def min_doublings(batch_sizes: list[int]) -> float:
    doublings = np.log2(sorted(set(batch_sizes)))
    return float(np.diff(doublings).min()) if len(doublings) > 1 else 1.0


def set_value_scale(grid: Iterable[Axes], values: Iterable[Any]) -> None:
    """Make the vertical axes of panels logarithmic if the values of one panel span much.

    Panels with other than positive values stay linear. Call it before intervals are drawn, because
    `mean_intervals` depends on the scale.
    """
    finite = [_finite_values(panel_values) for panel_values in values]
    are_positive = [bool(panel.min(initial=np.inf) > 0) for panel in finite]
    span_much = (panel.max(initial=0) >= LOG_SPAN * panel.min(initial=np.inf) for panel in finite)
    if any(map(all, zip(are_positive, span_much, strict=True))):
        for axes, is_positive in zip(grid, are_positive, strict=True):
            if is_positive:
                axes.set_yscale("log")


def set_linear_ticks(axis: Axis, max_count: int = 5) -> None:
    axis.set_major_locator(MaxNLocator(nbins=max_count, min_n_ticks=3, steps=(1, 2, 2.5, 5, 10)))


def set_log_labels(axis: Axis, span: float, crowded: float = 500) -> None:
    """Label 1, 2 and 5 of each decade as plain numbers, but only decades from a span of `crowded`.

    The span is the ratio of the ends of the axis.
    """
    subs = (1.0, 2.0, 5.0) if span < crowded else (1.0,)
    if span < 10:
        subs = (1.0, 1.5, 2.0, 3.0, 5.0, 7.0)
    axis.set_major_locator(LogLocator(subs=subs))
    axis.set_minor_locator(NullLocator())
    axis.set_major_formatter(lambda value, _: display.tick(value))


def percent_tick(value: float, _: Any = None) -> str:
    return display.tick(round(100 * value, 6))


def set_value_axis(axes: Axes, values: Any, ends: Any = (), scale: str = Scale.AUTO) -> None:
    """Set ticks and ends of the vertical axis, and its scale if `set_value_scale` has not.

    A logarithmic axis shows the ends of intervals down to a third of the smallest value. If values
    with a zero span much, the axis is linear up to the smallest positive one.
    """
    values = _finite_values(values)
    positive = values[values > 0]
    set_linear_ticks(axes.yaxis)
    if scale == Scale.AUTO:
        set_value_scale([axes], [values])
    if axes.get_yscale() == "log" and len(positive):
        reach = _finite_values([*positive, *ends])
        top, bottom = reach.max(), max(reach.min(), positive.min() / 3)
        set_log_labels(axes.yaxis, top / bottom)
        margin = max(top / bottom, 2.0) ** 0.06
        axes.set_ylim(bottom / margin, top * margin)
    elif scale == Scale.AUTO and len(positive) and positive.max() >= LOG_SPAN * positive.min():
        if values.min() == 0:
            axes.set_yscale("symlog", linthresh=positive.min())
            axes.yaxis.set_major_formatter(lambda value, _: display.tick(value))
    elif scale == Scale.PERCENT:
        axes.yaxis.set_major_formatter(percent_tick)


def limit_to_values(axes: Axes, values: Any, share: float) -> None:
    """Limit a linear vertical axis to the values, so that no wide interval squeezes them."""
    values = _finite_values(values)
    if len(values) and axes.get_yscale() == "linear":
        margin = share * float(np.ptp(values)) or 0.05 * abs(float(values[0])) or 1.0
        axes.set_ylim(values.min() - margin, values.max() + margin)


def limit_to_possible_values(axes: Axes, column: str) -> None:
    """Limit a linear vertical axis to the possible values of a column, with room for markers."""
    if axes.get_yscale() != "linear":
        return
    smallest, largest = value_range(column)
    bottom, top = axes.get_ylim()
    margin = 0.015 * (min(top, largest) - max(bottom, smallest))
    data = [panel.dataLim for panel in axes.get_shared_y_axes().get_siblings(axes)]
    room_below = margin if min(limits.y0 for limits in data) < smallest + margin else 0.0
    room_above = margin if max(limits.y1 for limits in data) > largest - margin else 0.0
    axes.set_ylim(max(bottom, smallest - room_below), min(top, largest + room_above))


def _finite_values(values: Any) -> np.ndarray:
    values = np.asarray(values, float)
    return values[np.isfinite(values)]
