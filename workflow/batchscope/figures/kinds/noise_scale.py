"""Gradient noise scale and local critical batch size during the training."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
import pandas
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator
from matplotlib.transforms import ScaledTranslation

from batchscope.analysis import critical_batch_size, intervals, noise_scales, run_series
from batchscope.analysis.noise_scales import EARLY, END, START
from batchscope.core import display
from batchscope.figures import FigureTables, canvas, rows
from batchscope.study import specifications

_SCALE, _CRITICAL = "gradient_noise_scale", "critical_batch_size"
_COLUMNS = [_SCALE, f"{_SCALE}_error", "gradient_norm_squared", "gradient_variance"]
_LOCAL, _NOISE = ([f"{name}{end}" for end in intervals.ENDS] for name in (_CRITICAL, "noise_scale"))
_WHOLE = [f"whole_runs{end}" for end in intervals.ENDS]
_STEP, _WIDEST = 6.0, 32.0  # points between the marks of two batch sizes, and of all


class PlacedEstimate(NamedTuple):
    """An estimate of one batch size at one place in the training."""

    at: float
    value: float
    low: float
    high: float  # infinite if the interval has no upper end
    marker: str = "o"
    is_bound: bool = False  # the value is a lower bound


Lines = list[tuple[int, list[PlacedEstimate]]]  # batch sizes with their estimates


def select(tables: FigureTables, spec: specifications.Figure) -> pandas.DataFrame:
    return _select_noise(tables, spec) if spec.table == "runs" else _select_local(tables)


def _select_noise(tables: FigureTables, spec: specifications.Figure) -> pandas.DataFrame:
    """Return one row per run and place in its training.

    The place is `start`, `end`, or `epoch` for the epochs between them.
    """
    runs = tables.runs
    if _SCALE not in runs:
        return pandas.DataFrame()
    factors = [*run_series.varying(runs), "batch_size", "seed", "status"]
    about = runs[list(dict.fromkeys([*rows.RUN, *factors, "epochs_run"]))]
    epochs, parts = {START: 0, END: about["epochs_run"]}, {}
    for place, ending in noise_scales.ENDINGS.items():
        values = {name: runs[f"{name}{ending}"] for name in _COLUMNS}
        parts[place] = about.assign(place=place, epoch=epochs[place], **values)
    if len(tables.at_epochs):
        early = tables.at_epochs[[*rows.RUN, "at_epoch", *_COLUMNS]]
        early = about.merge(early.rename(columns={"at_epoch": "epoch"}), on=list(rows.RUN))
        # The weights after the last epoch are the end of the training.
        parts[EARLY] = early[early["epoch"] < early["epochs_run"]].assign(place=EARLY)
    in_order = [
        parts[place].astype({"epoch": float}).sort_values("epoch", kind="stable")
        for place in (START, EARLY, END)
        if place in parts
    ]
    frame = pandas.concat(in_order)[[*factors, "place", "epoch", *_COLUMNS]].reset_index(drop=True)
    return frame if rows.panels(frame, spec) else frame.iloc[:0]


def _select_local(tables: FigureTables) -> pandas.DataFrame:
    """Return one row per series, batch size and point, with the critical size of whole runs."""
    points, fits = tables.local_critical_batch_size, tables.critical_batch_size
    if points.empty:
        return points
    names = [*run_series.varying(points), "batch_size"]
    columns = [*names, "share", "examples_used", *_LOCAL, *_NOISE]
    frame = points.drop_duplicates([*names, "share"])[columns].reset_index(drop=True)
    whole_runs = [math.nan] * 3
    if len(fits) and not run_series.varying(fits):  # to the last target, of the only series
        last = fits.iloc[-1]
        if last["points"] and not critical_batch_size.departs(float(last["lack_of_fit"])):
            whole_runs = last[_LOCAL].astype(float)
    return frame.assign(**dict(zip(_WHOLE, whole_runs, strict=True)))


def draw(frame: pandas.DataFrame, spec: specifications.Figure) -> Figure:
    """Return the figure: one panel per series."""
    is_local = spec.table != "runs"
    groups, note = canvas.first(run_series.series(frame) if is_local else canvas.present(frame))
    styles = canvas.size_styles(frame["batch_size"].unique())
    shared = {"sharex": True, "sharey": True, "width": 5.6 if len(groups) == 1 else 4.4}
    figure, grid = canvas.panels(len(groups), min(len(groups), 2), height=3.2, **shared)
    of_sizes = _local_estimates if is_local else _noise_estimates
    lines: list[Lines] = [list(of_sizes(group.frame, styles)) for group in groups]
    estimates = [estimate for sizes in lines for _, line in sizes for estimate in line]
    whole_runs = frame[_WHOLE].iloc[0].to_numpy(float) if is_local else np.array([])
    low, high = _limits(estimates, [*styles, *whole_runs])
    grid[0].set(yscale="log", ylim=(low, high))
    canvas.few_log_labels(grid[0].yaxis, high / low)
    for axes, group, sizes in zip(grid, groups, lines, strict=True):
        if np.isfinite(whole_runs).any():
            ends = np.where(np.isnan(whole_runs), [math.nan, low, high], whole_runs)
            axes.axhspan(ends[1], ends[2], color=canvas.MUTED, alpha=0.15, linewidth=0)
            axes.axhline(ends[0], color=canvas.MUTED, linewidth=1.2)
        _draw_panel(axes, sizes, styles, (low, high))
        canvas.title(axes, display.capital(group.label) or spec.title)
        if axes.get_subplotspec().is_first_col():
            axes.set_ylabel(spec.panels[0].label)
        if is_local:
            axes.set_xlabel("examples used")
        else:
            _label_epochs(axes, sorted({estimate.at for estimate in estimates}))
    canvas.size_legend(figure, styles)
    if is_local:
        used = frame["examples_used"].astype(float)
        grid[0].set(xscale="log", xlim=(used.min() / 1.4, used.max() * 1.4))
        canvas.few_log_labels(grid[0].xaxis, used.max() / used.min(), crowded=30)
        notes = ["Dots: the local critical batch size; diamonds: the gradient noise scale there."]
        if np.isfinite(whole_runs).any():
            notes.append("Grey: the critical batch size of whole trainings.")
        canvas.notes(figure, frame.assign(status=""), *notes, note)
    else:
        unresolved = sum(math.isnan(estimate.value) for estimate in estimates)
        has_bounds = any(estimate.is_bound for estimate in estimates)
        notes = ["Hollow, with an open interval: a lower bound."] * has_bounds
        notes += [f"Not resolved, and not drawn: {unresolved} of {len(estimates)}."][:unresolved]
        canvas.notes(figure, rows.runs(frame), *notes, note)
    return figure


def _noise_estimates(
    frame: pandas.DataFrame, sizes: dict[int, Any]
) -> Iterator[tuple[int, list[PlacedEstimate]]]:
    """Yield the noise scales of each batch size; NaN if a scale is not resolved."""
    for size in sizes:
        estimates = []
        for point in noise_scales.points(frame, size):
            ratio = point.ratio
            values = (ratio.low if ratio.open else ratio.ratio, *point.ends)
            values = values if ratio.resolved else (math.nan,) * 3
            estimates.append(PlacedEstimate(point.epoch, *values, is_bound=ratio.open))
        if estimates:
            yield size, estimates


def _local_estimates(
    frame: pandas.DataFrame, sizes: dict[int, Any]
) -> Iterator[tuple[int, list[PlacedEstimate]]]:
    for size, points in frame.groupby("batch_size"):
        points = points.sort_values("examples_used")
        for columns, marker in ((_LOCAL, "o"), (_NOISE, "D")):
            values = points[columns].to_numpy(float)
            has_end = np.isfinite(values).any(axis=1, keepdims=True)
            ends = values[:, 1:]
            values[:, 1:] = np.where(np.isnan(ends) & has_end, [-math.inf, math.inf], ends)
            table = np.column_stack([points["examples_used"].astype(float), values])
            yield int(size), [PlacedEstimate(*row, marker) for row in table]


def _limits(estimates: list[PlacedEstimate], sizes: list[float]) -> tuple[float, float]:
    """Return the ends of the vertical axis, which shows all estimates and batch sizes."""
    centre = np.array([*sizes, *(estimate.value for estimate in estimates)], float)
    centre = centre[np.isfinite(centre) & (centre > 0)]
    ends = np.array([(estimate.low, estimate.high) for estimate in estimates], float).ravel()
    values = np.append(centre, ends[np.isfinite(ends) & (ends > 0)])
    # A lower end close to zero would leave no room for the other values.
    low, high = max(values.min(), centre.min() / 10), values.max()
    margin = max((high / low) ** 0.07, 1.5)
    return float(low / margin), float(high * margin)


def _label_epochs(axes: Axes, epochs: list[float]) -> None:
    """Label the measured epochs, on a logarithmic axis if they span much."""
    axes.set_xlabel("epoch")
    last = epochs[-1] if epochs else 0.0
    between = [epoch for epoch in epochs if 0 < epoch < last]
    if between and last > 8 * between[0]:
        axes.set_xscale("symlog", base=2, linthresh=1.0)
        labelled = [0, *canvas.spread([round(epoch) for epoch in epochs if epoch >= 1])]
        axes.set_xticks(labelled, map(display.tick, labelled))
        axes.minorticks_off()
        axes.set_xlim(-0.35, last * 1.5)
    else:
        axes.xaxis.set_major_locator(MaxNLocator(nbins=6, integer=True))
        axes.set_xlim(-0.08 * last - 0.1, 1.08 * last + 0.1)


def _draw_panel(
    axes: Axes, lines: Lines, styles: dict[int, dict[str, Any]], edges: tuple[float, float]
) -> None:
    """Draw the lines of estimates side by side; an open interval reaches the edge."""
    if not lines:
        canvas.empty(axes)
    step = min(_STEP, _WIDEST / max(len(lines), 1))
    for index, (size, estimates) in enumerate(lines):
        props = styles[size]
        axes.axhline(size, **{**props, "linestyle": canvas.LINES[2], "linewidth": 1, "zorder": 1})
        shift = step * (index - (len(lines) - 1) / 2) / 72
        shifted = axes.transData + ScaledTranslation(shift, 0, axes.figure.dpi_scale_trans)
        place = {"transform": shifted, **props}
        dots = [estimate for estimate in estimates if estimate.marker == "o"]
        if len(dots) > 2:  # with a gap at lower bounds
            values = [math.nan if estimate.is_bound else estimate.value for estimate in dots]
            axes.plot([estimate.at for estimate in dots], values, linewidth=1, **place)
        for at, value, low, high, marker, is_bound in estimates:
            hollow = {"markerfacecolor": canvas.PAPER, "markeredgecolor": props["color"]}
            edge = hollow if marker == "D" or is_bound else {}
            axes.plot([at] * 2, np.clip([low, high], *edges), linewidth=1, **place)
            axes.plot(at, value, **{**canvas.EDGED, "marker": marker, **edge, **place})
