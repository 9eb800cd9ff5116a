"""Gradient noise scale or local critical batch size during the training, one panel per series.

The table of the specification decides: runs.csv has noise scales, else local sizes are drawn.
"""

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
from batchscope.analysis.noise_scales import AT_END, AT_EPOCH, AT_START
from batchscope.core import display
from batchscope.figures import FigureTables, axis_scales, canvas, figure_rows
from batchscope.study import specifications

_SCALE, _CRITICAL = "gradient_noise_scale", "critical_batch_size"
_COLUMNS = [_SCALE, f"{_SCALE}_error", "gradient_norm_squared", "gradient_variance"]
_LOCAL, _NOISE = (
    [f"{name}{end}" for end in intervals.SUFFIXES] for name in (_CRITICAL, "noise_scale")
)
_WHOLE_RUNS = [f"whole_runs{end}" for end in intervals.SUFFIXES]
_MARK_SPACING, _MAX_MARK_WIDTH = 6.0, 32.0  # points between neighbouring and between all marks


class PlacedEstimate(NamedTuple):
    """An estimate of one batch size at one place in the training."""

    x: float
    value: float
    low: float
    high: float  # infinite if the interval has no upper end
    marker: str = "o"
    is_bound: bool = False  # whether the value is a lower bound


Lines = list[tuple[int, list[PlacedEstimate]]]  # pairs of a batch size and its estimates


def select(tables: FigureTables, spec: specifications.Figure) -> pandas.DataFrame:
    return _select_noise(tables, spec) if spec.table == "runs" else _select_local(tables)


def _select_noise(tables: FigureTables, spec: specifications.Figure) -> pandas.DataFrame:
    """Return one row per run and place in its training.

    The place is `start`, `end`, or `epoch` for the epochs between them.
    """
    runs = tables.runs
    if _SCALE not in runs:
        return pandas.DataFrame()
    factors = [*run_series.varying_factors(runs), "batch_size", "seed", "status"]
    keys = list(figure_rows.RUN_KEYS)
    run_rows = runs[list(dict.fromkeys([*keys, *factors, "epochs_run"]))]
    early = tables.at_epochs.reindex(columns=[*keys, "at_epoch", *_COLUMNS])
    early = run_rows.merge(early.rename(columns={"at_epoch": "epoch"}), on=keys)
    # The weights after the last epoch are the end of the training.
    parts = {
        AT_START: run_rows.assign(epoch=0),
        AT_EPOCH: early[early["epoch"] < early["epochs_run"]],
    }
    parts[AT_END] = run_rows.assign(epoch=run_rows["epochs_run"])
    for place, suffix in noise_scales.COLUMN_SUFFIXES.items():
        parts[place] = parts[place].assign(**{name: runs[f"{name}{suffix}"] for name in _COLUMNS})
    sorted_parts = [
        part.assign(place=place).astype({"epoch": float}).sort_values("epoch", kind="stable")
        for place, part in parts.items()
        if len(part)
    ]
    frame = pandas.concat(sorted_parts).reset_index(drop=True)
    frame = frame[[*factors, "place", "epoch", *_COLUMNS]]
    return frame if figure_rows.panels_with_values(frame, spec) else frame.iloc[:0]


def _select_local(tables: FigureTables) -> pandas.DataFrame:
    """Return one row per series, batch size and point, with the critical size of whole runs."""
    points, fits = tables.local_critical_batch_size, tables.critical_batch_size
    if points.empty:
        return points
    names = [*run_series.varying_factors(points), "batch_size"]
    columns = [*names, "share", "examples_used", *_LOCAL, *_NOISE]
    frame = points.drop_duplicates([*names, "share"])[columns].reset_index(drop=True)
    whole_runs = [math.nan] * 3
    if len(fits) and not run_series.varying_factors(fits):  # to the last target, of the only series
        last = fits.iloc[-1]
        if last["points"] and not critical_batch_size.is_significant(float(last["lack_of_fit"])):
            whole_runs = last[_LOCAL].astype(float)
    return frame.assign(**dict(zip(_WHOLE_RUNS, whole_runs, strict=True)))


def draw(frame: pandas.DataFrame, spec: specifications.Figure) -> Figure:
    """Return the figure, on one scale; a grey band is the critical batch size of whole runs."""
    is_local = spec.table != "runs"
    groups = run_series.split_series(frame) if is_local else canvas.runnable_series(frame)
    groups, note = canvas.first_items(groups)
    styles = canvas.size_styles(frame["batch_size"].unique())
    shared = {"sharex": True, "sharey": True, "width": 5.6 if len(groups) == 1 else 4.4}
    figure, grid = canvas.panels(len(groups), min(len(groups), 2), height=3.2, **shared)
    estimates_by_size = _local_estimates if is_local else _noise_estimates
    lines: list[Lines] = [list(estimates_by_size(group.frame, styles)) for group in groups]
    estimates = [estimate for sizes in lines for _, line in sizes for estimate in line]
    whole_runs = frame[_WHOLE_RUNS].iloc[0].to_numpy(float) if is_local else np.array([])
    low, high = _limits(estimates, [*styles, *whole_runs])
    grid[0].set(yscale="log", ylim=(low, high))
    axis_scales.set_log_labels(grid[0].yaxis, high / low)
    for axes, group, sizes in zip(grid, groups, lines, strict=True):
        if np.isfinite(whole_runs).any():
            ends = np.where(np.isnan(whole_runs), [math.nan, low, high], whole_runs)
            axes.axhspan(ends[1], ends[2], color=canvas.MUTED, alpha=0.15, linewidth=0)
            axes.axhline(ends[0], color=canvas.MUTED, linewidth=1.2)
        _draw_panel(axes, sizes, styles, (low, high))
        canvas.set_title(axes, display.capital(group.label) or spec.title)
        if axes.get_subplotspec().is_first_col():
            axes.set_ylabel(spec.panels[0].label)
        if is_local:
            axes.set_xlabel("examples used")
        else:
            _label_epochs(axes, sorted({estimate.x for estimate in estimates}))
    canvas.draw_size_legend(figure, styles)
    if is_local:
        used = frame["examples_used"].astype(float)
        grid[0].set(xscale="log", xlim=(used.min() / 1.4, used.max() * 1.4))
        axis_scales.set_log_labels(grid[0].xaxis, used.max() / used.min(), crowded=30)
        notes = ["Dots: the local critical batch size; diamonds: the gradient noise scale there."]
        if np.isfinite(whole_runs).any():
            notes.append("Grey: the critical batch size of whole trainings.")
        canvas.write_notes(figure, frame.assign(status=""), *notes, note)
    else:
        unresolved = sum(math.isnan(estimate.value) for estimate in estimates)
        has_bounds = any(estimate.is_bound for estimate in estimates)
        notes = ["Hollow, with an open interval: a lower bound."] * has_bounds
        notes += [f"Not resolved, and not drawn: {unresolved} of {len(estimates)}."][:unresolved]
        canvas.write_notes(figure, figure_rows.distinct_runs(frame), *notes, note)
    return figure


def _noise_estimates(
    frame: pandas.DataFrame, sizes: dict[int, Any]
) -> Iterator[tuple[int, list[PlacedEstimate]]]:
    """Yield the noise scales of each batch size; NaN if a scale is not resolved."""
    for size in sizes:
        estimates = []
        for point in noise_scales.noise_scale_points(frame, size):
            ratio = point.ratio
            values = (ratio.low if ratio.is_lower_bound else ratio.ratio, *point.ends)
            values = values if ratio.is_resolved else (math.nan,) * 3
            estimates.append(PlacedEstimate(point.epoch, *values, is_bound=ratio.is_lower_bound))
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
    epochs_between = [epoch for epoch in epochs if 0 < epoch < last]
    if epochs_between and last > 8 * epochs_between[0]:
        axes.set_xscale("symlog", base=2, linthresh=1.0)
        positive_epochs = [round(epoch) for epoch in epochs if epoch >= 1]
        labelled = [0, *axis_scales.labelled_values(positive_epochs)]
        axes.set_xticks(labelled, map(display.tick, labelled))
        axes.minorticks_off()
        axes.set_xlim(-0.35, last * 1.5)
    else:
        axes.xaxis.set_major_locator(MaxNLocator(nbins=6, integer=True))
        axes.set_xlim(-0.08 * last - 0.1, 1.08 * last + 0.1)


def _draw_panel(
    axes: Axes, lines: Lines, styles: dict[int, dict[str, Any]], edges: tuple[float, float]
) -> None:
    """Draw the estimates of all batch sizes side by side; an open interval reaches the edge."""
    if not lines:
        canvas.write_no_data(axes)
    step = min(_MARK_SPACING, _MAX_MARK_WIDTH / max(len(lines), 1))
    for index, (size, estimates) in enumerate(lines):
        props = styles[size]
        size_line = {"linestyle": canvas.LINE_STYLES[2], "linewidth": 1, "zorder": 1}
        axes.axhline(size, **{**props, **size_line})
        shift = step * (index - (len(lines) - 1) / 2) / 72
        shifted = axes.transData + ScaledTranslation(shift, 0, axes.figure.dpi_scale_trans)
        place = {"transform": shifted, **props}
        dots = [estimate for estimate in estimates if estimate.marker == "o"]
        if len(dots) > 2:  # The line has gaps at lower bounds.
            values = [math.nan if estimate.is_bound else estimate.value for estimate in dots]
            axes.plot([estimate.x for estimate in dots], values, linewidth=1, **place)
        for x, value, low, high, marker, is_bound in estimates:
            hollow = {"markerfacecolor": canvas.PAPER, "markeredgecolor": props["color"]}
            marker_style = hollow if marker == "D" or is_bound else {}
            axes.plot([x] * 2, np.clip([low, high], *edges), linewidth=1, **place)
            axes.plot(x, value, **{**canvas.MARKER_EDGE, "marker": marker, **marker_style, **place})
