"""Outcomes over the training, by epochs, updates, examples or seconds: a line per batch size.

A line is the mean over seeds with its 95 % t-interval. A panel shows one outcome over one axis.
"""

import itertools
from dataclasses import replace
from typing import Any

import numpy as np
import pandas
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from batchscope.analysis import run_series
from batchscope.analysis.chosen_rates import RATE
from batchscope.core import display
from batchscope.figures import FigureTables, canvas, figure_rows
from batchscope.store import records
from batchscope.study import specifications
from batchscope.study.outcomes import SECONDS, TARGET
from batchscope.study.specifications import AXIS_WORDS, Scale

_MAX_POINTS = 60  # points of a line
_MAX_SERIES = 8
_MEANS = "Mean and 95 % interval of the runs that still train."


def select(tables: FigureTables, spec: specifications.Figure) -> pandas.DataFrame:
    """Return one row per run and evaluation; no row if no run has two evaluations."""
    # Rows of different seeds correspond by updates, not by seconds.
    with_updates = replace(spec, columns=(*spec.columns, "updates"))
    frame = figure_rows.select(tables, with_updates, best_rate=True)
    if frame.empty or not _axes_with_values(frame, spec):
        return frame.iloc[:0]
    return _with_target(frame, tables, spec) if spec.table == "trajectories" else frame


def _axes_with_values(frame: pandas.DataFrame, spec: specifications.Figure) -> list[str]:
    frame = frame.dropna(subset=[panel.column for panel in spec.panels], how="all")
    runs = frame.groupby([*run_series.varying_factors(frame), "batch_size", "seed"], dropna=False)
    return [axis for axis in spec.x_columns if axis in frame and (runs[axis].nunique() > 1).any()]


def _with_target(
    frame: pandas.DataFrame, tables: FigureTables, spec: specifications.Figure
) -> pandas.DataFrame:
    """Add a column with the target of each series in comparisons.csv, NaN without a single one."""
    target, compared = pandas.Series(np.nan, frame.index), tables.comparisons
    if len(compared):
        is_loss = compared["budget_column"].eq(spec.panels[0].column)
        compared = compared[compared["budget"].eq(TARGET) & is_loss]
    for group in run_series.split_series(frame.drop(columns=RATE, errors="ignore")):
        factors = {name: value for name, value in group.factors.items() if name in compared}
        rows = run_series.rows_with_factors(compared, factors)
        if len(rows) and rows["budget_value"].nunique() == 1:
            target[group.frame.index] = float(rows["budget_value"].iloc[0])
    return frame.assign(target=target)


def draw(frame: pandas.DataFrame, spec: specifications.Figure) -> Figure:
    """Return a row of panels for each series, one for each axis and outcome."""
    groups, note = canvas.first_items(figure_rows.runnable_series(frame), _MAX_SERIES)
    panels = figure_rows.panels_with_values(frame, spec)
    columns = list(itertools.product(_axes_with_values(frame, spec), panels))
    width = {1: 6.5, 2: 4.2}.get(len(columns), canvas.PANEL_WIDTH)
    height = canvas.PANEL_HEIGHT if len(groups) < 4 else 2.2
    shared = {"sharex": "col", "sharey": "col" if len(panels) > 1 else True}
    figure, grid = canvas.panels(len(groups) * len(columns), len(columns), width, height, **shared)
    grid = grid.reshape(len(groups), len(columns))
    styles = canvas.size_styles(frame["batch_size"].unique())
    # Diverged runs set the scale only if no run finished.
    runs = figure_rows.finished(frame)
    values = [
        (runs if runs[panel.column].notna().any() else frame)[panel.column] for _, panel in columns
    ]
    for axes, (_, panel) in zip(grid[0], columns, strict=True):
        if panel.scale == Scale.LOG:
            axes.set_yscale("log")
    canvas.set_value_scale(grid[0], values)
    for line, group in zip(grid, groups, strict=True):
        for axes, (axis, panel) in zip(line, columns, strict=True):
            _draw_panel(axes, group.frame, axis, panel.column, styles)
            by = f"by {AXIS_WORDS[axis]}" if len(spec.x_columns) > 1 else ""
            heading = ", ".join(filter(None, [panel.title, by, group.label]))
            canvas.set_title(axes, display.capital(heading) or spec.title)
        line[0].set_ylabel(panels[0].label)
    for axes, (axis, panel), panel_values in zip(grid[-1], columns, values, strict=True):
        _label_horizontal_axis(axes, frame[axis], axis)
        canvas.set_value_axis(axes, panel_values, scale=panel.scale)
        canvas.limit_to_values(axes, panel_values, 0.05)
    canvas.draw_size_legend(figure, styles)
    notes = [note, _MEANS] if frame["seed"].nunique() > 1 else [note]
    notes += ["×: diverged."] if (frame["status"] == records.DIVERGED).any() else []
    targets = frame["target"].dropna().unique() if "target" in frame else ()
    notes += [f"Dotted: the target, {display.number(targets[0])}."] if len(targets) == 1 else []
    canvas.write_notes(figure, figure_rows.distinct_runs(frame), *notes)
    return figure


def _draw_panel(
    axes: Axes, frame: pandas.DataFrame, axis: str, column: str, styles: dict[int, dict[str, Any]]
) -> None:
    """Draw the mean of each batch size, thin lines of unfinished runs, and the target."""
    points = frame[frame[axis].notna() & np.isfinite(frame[column].astype(float))]
    if points.empty:
        untimed = axis == SECONDS and frame[column].notna().any()
        canvas.write_no_data(axes, "not timed" if untimed else "no run")
    for size, size_points in points.groupby("batch_size"):
        props, finished = styles[int(size)], figure_rows.finished(size_points)
        if len(finished):
            _draw_mean(axes, finished, axis, column, props)
        for _, run in size_points[size_points["status"] != records.FINISHED].groupby("seed"):
            axes.plot(run[axis], run[column], linewidth=0.6, alpha=0.6, **props)
            if run["status"].iloc[0] == records.DIVERGED:  # A cross marks where its loss left.
                at_edge = {"transform": axes.get_xaxis_transform(), "color": props["color"]}
                axes.plot(run[axis].iloc[-1], 0.97, marker="x", **at_edge)
    if "target" in frame and np.isfinite(target := float(frame["target"].iloc[0])):
        axes.axhline(target, color=canvas.MUTED, linewidth=0.9, linestyle=canvas.LINE_STYLES[2])


def _draw_mean(
    axes: Axes, runs: pandas.DataFrame, axis: str, column: str, props: dict[str, Any]
) -> None:
    """Draw the mean over the runs that still train, with its interval as a band.

    Over seconds it is the mean after equal numbers of updates, at the mean time of the seeds.
    """
    index = "updates" if axis == SECONDS else axis
    runs = runs.astype({column: float, axis: float})
    table = runs.pivot_table(column, index, "seed")
    # A run that stopped between two rows of the others has no value at them.
    table = table[~(table.isna() & table.bfill().notna()).any(axis=1)]
    table = table.iloc[thinned_indices(len(table), axis != "epoch")]
    x = runs.groupby(index)[axis].mean()[table.index].to_numpy(float)
    if len(x) < 3:
        mean, low, high, _ = canvas.mean_intervals(axes, table.to_numpy(float))
        canvas.draw_error_bars(axes, x, mean, low, high, marker="o", linestyle="none", **props)
    else:
        canvas.draw_curve(axes, table, props, x)


def thinned_indices(length: int, ratios: bool) -> np.ndarray:
    """Return at most 60 indices with the first and the last, at equal distances or ratios."""
    if length <= _MAX_POINTS:
        return np.arange(length)
    indices = np.linspace(0, length - 1, _MAX_POINTS)
    indices = np.geomspace(1, length, _MAX_POINTS) - 1 if ratios else indices
    return np.unique(indices.round().astype(int))


def _label_horizontal_axis(axes: Axes, values: pandas.Series, axis: str) -> None:
    """Label whole epochs, or updates, examples and seconds on a logarithmic axis."""
    axes.set_xlabel("time (s)" if axis == SECONDS else axis)
    if axis == "epoch":
        axes.xaxis.set_major_locator(MaxNLocator(nbins=6, integer=True))
        return
    positive = values[values > 0].astype(float)  # without the evaluation before the first update
    if len(positive):
        axes.set_xscale("log", nonpositive="mask")
        canvas.set_log_labels(axes.xaxis, positive.max() / positive.min(), crowded=30)
