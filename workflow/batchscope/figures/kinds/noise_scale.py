"""Gradient noise scale or local critical batch size during the training, one panel per series.

The table of the specification decides: runs.csv has noise scales, else local sizes are drawn.
"""

import math
from typing import Any

import numpy as np
import pandas
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator
from matplotlib.transforms import ScaledTranslation

from batchscope.analysis import critical_batch_size, intervals, noise_scales, run_series
from batchscope.analysis.noise_scales import AT_END, AT_EPOCH, AT_START
from batchscope.core import display
from batchscope.figures import FigureTables, canvas, figure_rows
from batchscope.study import specifications

_SCALE, _CRITICAL = "gradient_noise_scale", "critical_batch_size"
_COLUMNS = [_SCALE, f"{_SCALE}_error", "gradient_norm_squared", "gradient_variance"]
_LOCAL, _NOISE = (
    [f"{name}{end}" for end in intervals.SUFFIXES] for name in (_CRITICAL, "noise_scale")
)
_WHOLE_RUNS = [f"whole_runs{end}" for end in intervals.SUFFIXES]
_MARK_SPACING, _MAX_MARK_WIDTH = 6.0, 32.0  # points between neighbouring and between all marks
_ESTIMATE = ["value", "low", "high"]  # `high` is infinite if the interval has no upper end
# Columns of drawn estimates; `is_bound` tells whether the value is a lower bound.
_DRAWN = ["batch_size", "x", *_ESTIMATE, "marker", "is_bound"]


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
    groups = run_series.split_series(frame) if is_local else figure_rows.runnable_series(frame)
    groups, note = canvas.first_items(groups)
    styles = canvas.size_styles(frame["batch_size"].unique())
    shared = {"sharex": True, "sharey": True, "width": 5.6 if len(groups) == 1 else 4.4}
    figure, grid = canvas.panels(len(groups), min(len(groups), 2), height=3.2, **shared)
    drawn_estimates = _local_estimates if is_local else _noise_estimates
    parts = [drawn_estimates(group.frame) for group in groups]
    estimates = pandas.concat(parts)
    whole_runs = frame[_WHOLE_RUNS].iloc[0].to_numpy(float) if is_local else np.array([])
    low, high = _limits(estimates, [*styles, *whole_runs])
    grid[0].set(yscale="log", ylim=(low, high))
    canvas.set_log_labels(grid[0].yaxis, high / low)
    for axes, group, part in zip(grid, groups, parts, strict=True):
        if np.isfinite(whole_runs).any():
            ends = np.where(np.isnan(whole_runs), [math.nan, low, high], whole_runs)
            axes.axhspan(ends[1], ends[2], color=canvas.MUTED, alpha=0.15, linewidth=0)
            axes.axhline(ends[0], color=canvas.MUTED, linewidth=1.2)
        _draw_panel(axes, part, styles, (low, high))
        canvas.set_title(axes, display.capital(group.label) or spec.title)
        if axes.get_subplotspec().is_first_col():
            axes.set_ylabel(spec.panels[0].label)
        if is_local:
            axes.set_xlabel("examples used")
        else:
            _label_epochs(axes, np.unique(estimates["x"]).tolist())
    canvas.draw_size_legend(figure, styles)
    if is_local:
        used = frame["examples_used"].astype(float)
        grid[0].set(xscale="log", xlim=(used.min() / 1.4, used.max() * 1.4))
        canvas.set_log_labels(grid[0].xaxis, used.max() / used.min(), crowded=30)
        notes = ["Dots: the local critical batch size; diamonds: the gradient noise scale there."]
        if np.isfinite(whole_runs).any():
            notes.append("Grey: the critical batch size of whole trainings.")
        canvas.write_notes(figure, frame.assign(status=""), *notes, note)
    else:
        unresolved = int(estimates["value"].isna().sum())
        has_bounds = bool(estimates["is_bound"].any())
        notes = ["Hollow, with an open interval: a lower bound."] * has_bounds
        notes += [f"Not resolved, and not drawn: {unresolved} of {len(estimates)}."][:unresolved]
        canvas.write_notes(figure, figure_rows.distinct_runs(frame), *notes, note)
    return figure


def _noise_estimates(frame: pandas.DataFrame) -> pandas.DataFrame:
    """Return the noise scales in order of batch size and training; NaN if not resolved."""
    rows = []
    for size in sorted(frame["batch_size"].unique()):
        for point in noise_scales.noise_scale_points(frame, size):
            ratio = point.ratio
            value = ratio.low if ratio.is_lower_bound else ratio.ratio
            values = (value, *point.ends) if ratio.is_resolved else (math.nan,) * 3
            rows.append((size, point.epoch, *values, "o", ratio.is_lower_bound))
    return pandas.DataFrame(rows, columns=_DRAWN).astype(dict.fromkeys(_DRAWN[1:5], float))


def _local_estimates(frame: pandas.DataFrame) -> pandas.DataFrame:
    """Return the local critical batch sizes and the noise scales, an open end as infinite."""
    parts = []
    for columns, marker in ((_LOCAL, "o"), (_NOISE, "D")):
        part = frame[["batch_size", "examples_used", *columns]].set_axis(_DRAWN[:5], axis=1)
        part = part.astype(dict.fromkeys(_DRAWN[1:5], float))
        has_estimate = part[_ESTIMATE].notna().any(axis=1)
        for end, infinite in (("low", -math.inf), ("high", math.inf)):
            part[end] = part[end].mask(part[end].isna() & has_estimate, infinite)
        parts.append(part.assign(marker=marker, is_bound=False))
    return pandas.concat(parts).sort_values(["batch_size", "x"], kind="stable")


def _limits(estimates: pandas.DataFrame, sizes: list[float]) -> tuple[float, float]:
    """Return the ends of the vertical axis, which shows all estimates and batch sizes."""
    centre = np.append(estimates["value"], sizes)
    centre = centre[np.isfinite(centre) & (centre > 0)]
    ends = estimates[["low", "high"]].to_numpy().ravel()
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
        labelled = [0, *canvas.labelled_values(positive_epochs)]
        axes.set_xticks(labelled, map(display.tick, labelled))
        axes.minorticks_off()
        axes.set_xlim(-0.35, last * 1.5)
    else:
        axes.xaxis.set_major_locator(MaxNLocator(nbins=6, integer=True))
        axes.set_xlim(-0.08 * last - 0.1, 1.08 * last + 0.1)


def _draw_panel(
    axes: Axes,
    estimates: pandas.DataFrame,
    styles: dict[int, dict[str, Any]],
    edges: tuple[float, float],
) -> None:
    """Draw the estimates of all batch sizes side by side; an open interval reaches the edge."""
    groups = estimates.groupby(["batch_size", "marker"], sort=False)
    if estimates.empty:
        canvas.write_no_data(axes)
    step = min(_MARK_SPACING, _MAX_MARK_WIDTH / max(len(groups), 1))
    for index, ((size, marker), rows) in enumerate(groups):
        props = styles[int(size)]
        size_line = {"linestyle": canvas.LINE_STYLES[2], "linewidth": 1, "zorder": 1}
        axes.axhline(size, **{**props, **size_line})
        shift = step * (index - (len(groups) - 1) / 2) / 72
        shifted = axes.transData + ScaledTranslation(shift, 0, axes.figure.dpi_scale_trans)
        place = {"transform": shifted, **props}
        if marker == "o" and len(rows) > 2:  # The line has gaps at lower bounds.
            axes.plot(rows["x"], rows["value"].mask(rows["is_bound"]), linewidth=1, **place)
        for x, value, low, high, is_bound in rows[["x", *_ESTIMATE, "is_bound"]].to_numpy():
            hollow = {"markerfacecolor": canvas.PAPER, "markeredgecolor": props["color"]}
            marker_style = hollow if marker == "D" or is_bound else {}
            axes.plot([x] * 2, np.clip([low, high], *edges), linewidth=1, **place)
            axes.plot(x, value, **{**canvas.MARKER_EDGE, "marker": marker, **marker_style, **place})
