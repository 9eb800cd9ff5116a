"""Local critical batch size and noise scale against examples used, beside that of whole runs."""

from __future__ import annotations

import math

import numpy as np
import pandas
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.transforms import ScaledTranslation

from batchscope import wording
from batchscope.analysis import critical_batch_size, intervals, run_series
from batchscope.figures import FigureTables
from batchscope.figures.drawing import canvas
from batchscope.store import records
from batchscope.study import specifications

_OF_POINT = [
    "share",
    "examples_used",
    *(f"{name}{end}" for name in ("critical_batch_size", "noise_scale") for end in intervals.ENDS),
]
_WHOLE = [f"whole_runs{end}" for end in intervals.ENDS]
_MOST_PANELS = 6  # series
_BESIDE = 3.0  # points between the marks of both at one place
_NOISE_MARKER, _MARKER = "D", "o"
_USED = {"linestyle": canvas.LINES[2], "linewidth": 1, "zorder": 1}
_GREY = {"color": canvas.MUTED, "linewidth": 1.2}


def select(tables: FigureTables, spec: specifications.Figure) -> pandas.DataFrame:
    """Returns one row per series, batch size and point, with the critical size of whole runs."""
    found = tables.local_critical_batch_size
    if found.empty:
        return found
    names = [*run_series.varying(found), "batch_size"]
    frame = found.drop_duplicates([*names, "share"])[[*names, *_OF_POINT]].reset_index(drop=True)
    whole = _of_whole_runs(tables.critical_batch_size)
    return frame.assign(**dict(zip(_WHOLE, whole, strict=True)))


def _of_whole_runs(fits: pandas.DataFrame) -> tuple[float, float, float]:
    """Returns the critical batch size to the last target, where one series has one that fits."""
    none = (math.nan,) * 3
    if fits.empty or run_series.varying(fits):
        return none
    last = fits.iloc[-1]
    if not last["points"] or critical_batch_size.departs(float(last["lack_of_fit"])):
        return none
    return tuple(float(last[f"critical_batch_size{end}"]) for end in intervals.ENDS)


def draw(frame: pandas.DataFrame, spec: specifications.Figure) -> Figure:
    """Returns the figure: one panel per series."""
    groups, more = canvas.first(run_series.series(frame), _MOST_PANELS)
    looks = canvas.size_styles(frame["batch_size"].unique())
    width = 5.6 if len(groups) == 1 else 4.4
    figure, grid = canvas.panels(
        len(groups), min(len(groups), 2), width, 3.2, sharex=True, sharey=True
    )
    known = frame[["batch_size", *(name for name in _OF_POINT[2:]), *_WHOLE]].to_numpy(float)
    known = known[np.isfinite(known) & (known > 0)]
    low, high = known.min() / 1.6, known.max() * 1.6
    first = grid[0]
    used = frame["examples_used"].astype(float)
    first.set(xscale="log", xlim=(used.min() / 1.4, used.max() * 1.4))
    first.set(yscale="log", ylim=(low, high))
    canvas.few_log_labels(first.yaxis, high / low)
    canvas.few_log_labels(first.xaxis, used.max() / used.min(), crowded=30)
    for axes, group in zip(grid, groups, strict=True):
        whole = group.frame[_WHOLE].iloc[0].to_numpy(float)
        if np.isfinite(whole).any():
            ends = np.where(np.isnan(whole), [math.nan, low, high], whole)
            axes.axhspan(ends[1], ends[2], color=canvas.MUTED, alpha=0.15, linewidth=0)
            axes.axhline(whole[0], **_GREY)
        for size, own in group.frame.groupby("batch_size"):
            look = looks[size]
            axes.axhline(size, **{**look, **_USED})
            _draw_points(axes, own, "critical_batch_size", _MARKER, look, low, high)
            _draw_points(axes, own, "noise_scale", _NOISE_MARKER, look, low, high)
        canvas.title(axes, wording.capital(group.label) or spec.title)
        axes.set_xlabel("examples used")
        if axes.get_subplotspec().is_first_col():
            axes.set_ylabel(spec.panels[0].label)
    canvas.size_legend(figure, looks)
    shown = ["Dots: the local critical batch size; diamonds: the gradient noise scale there."]
    if frame[_WHOLE].notna().any(axis=None):
        shown.append("Grey: the critical batch size of whole trainings.")
    canvas.notes(figure, frame.assign(status=records.FINISHED), *shown, more)
    return figure


def _draw_points(
    axes: Axes, own: pandas.DataFrame, name: str, marker: str, look: dict, low: float, high: float
) -> None:
    """Draws values with their intervals over the examples used; an open end reaches the edge."""
    shift = -_BESIDE if marker == _MARKER else _BESIDE
    place = axes.transData + ScaledTranslation(shift / 72, 0, axes.figure.dpi_scale_trans)
    ordered = own.sort_values("examples_used")
    at = ordered["examples_used"].to_numpy(float)
    value, bottom, top = (ordered[f"{name}{end}"].to_numpy(float) for end in intervals.ENDS)
    style = {"marker": marker, "transform": place, **canvas.EDGED, **look}
    if marker == _NOISE_MARKER:
        style |= {"markerfacecolor": canvas.PAPER, "markeredgecolor": look["color"]}
    axes.plot(at, value, **{**style, "linewidth": 1 if marker == _MARKER else 0})
    known = np.isfinite(value) | np.isfinite(bottom) | np.isfinite(top)
    bottom = np.where(np.isnan(bottom) & known, low, np.maximum(bottom, low))
    top = np.where(np.isnan(top) & known, high, top)
    axes.vlines(at, bottom, top, color=look["color"], linewidth=1, transform=place)
