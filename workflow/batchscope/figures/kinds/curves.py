"""Curves of trained weights: the loss along a line, or the norm of mean gradients.

Curves are means over seeds with a band. A specification with `over` asks for losses along a line: a
curve per batch size in random directions, a curve per split on a line between two minimisers.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pandas
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from batchscope.analysis import run_series
from batchscope.core import display
from batchscope.figures import FigureTables, axis_scales, canvas, figure_rows
from batchscope.study import specifications
from batchscope.study.specifications import Scale

_SPLITS = {"train": "training data", "validation": "validation data", "test": "test data"}
_MINIMISERS = {"small": 0.0, "large": 1.0}  # column with a factor's value -> place on the line
_PLACES = {"start": "Start", "middle": "Middle", "end": "End"}
_RANDOM = ({"color": canvas.MUTED, "linewidth": 0.7}, "the same gradients with random signs")
_DOTS = {"marker": "o", "markersize": 4, **canvas.MARKER_EDGE}


def select(tables: FigureTables, spec: specifications.Figure) -> pandas.DataFrame:
    """Return one row per run and position, on the line between minimisers also per split."""
    if not spec.x_columns:
        return figure_rows.select(tables, spec)
    table, (over,) = getattr(tables, spec.table), spec.x_columns
    if table.empty:
        return table
    if spec.lines:
        names = [*run_series.varying_factors(table), "batch_size", "seed", over, spec.lines]
        names += [*spec.columns, *(panel.column for panel in spec.panels)]
        return table[list(dict.fromkeys(names))].reset_index(drop=True)
    lines = table[table["kind"] == "line"]
    at_zero = lines[lines[over] == 0].drop_duplicates(["run", "index"])
    loss_at_zero = at_zero.set_index(["run", "index"])["loss"].rename("foot")
    lines = lines.join(loss_at_zero, on=["run", "index"])
    lines["rise"] = lines["loss"] - lines["foot"]
    keys = [*run_series.varying_factors(lines), "batch_size", "seed", over]
    means = lines.groupby(keys, sort=False, dropna=False)[["loss", "rise"]]
    return means.mean(skipna=False).reset_index()


def draw(frame: pandas.DataFrame, spec: specifications.Figure) -> Figure:
    return _draw_losses(frame, spec) if spec.x_columns else _draw_alignment(frame, spec)


def _draw_losses(frame: pandas.DataFrame, spec: specifications.Figure) -> Figure:
    """Return a row of panels for each series; on a line between minimisers, for each batch size."""
    (over,), line_column = spec.x_columns, spec.lines or "batch_size"
    if spec.lines:
        parts = figure_rows.labelled_parts(frame, "batch_size")
    else:
        parts = [(group.label, group.frame) for group in run_series.split_series(frame)]
    parts = parts[: canvas.MAX_SERIES]
    count = len(parts) * len(spec.panels)
    columns = len(spec.panels) if len(spec.panels) > 1 else count
    figure, grid = canvas.panels(count, columns, 4.2 if len(parts) < 3 else 3.4, 2.9, sharex=True)
    if spec.lines:
        splits = [split for split in _SPLITS if (frame[line_column] == split).any()]
        styles = dict(zip(splits, canvas.series_styles(len(splits)), strict=True))
        styles = {split: {**props, "marker": ""} for split, props in styles.items()}
        canvas.draw_legend(figure, [(props, _SPLITS[split]) for split, props in styles.items()])
    else:
        styles = canvas.size_styles(frame[line_column].unique())
        canvas.draw_size_legend(figure, styles)
    for line, (label, part) in zip(grid.reshape(len(parts), -1), parts, strict=True):
        for axes, panel in zip(line, spec.panels, strict=True):
            for value, props in styles.items():
                table = part[part[line_column] == value].astype({panel.column: float})
                table = table.pivot_table(panel.column, over, "seed", dropna=False)
                _draw_mean_and_seeds(axes, table, props)
            axis_scales.set_linear_ticks(axes.yaxis)
            axes.xaxis.set_major_locator(MaxNLocator(nbins=5, steps=(1, 2, 5, 10)))
            axis_scales.limit_to_values(axes, frame[panel.column], 0.08)
            if panel.scale == Scale.PERCENT:
                axes.yaxis.set_major_formatter(axis_scales.percent_tick)
            axes.set(xlabel=f"position {over}", ylabel=panel.label)
            canvas.set_title(axes, display.titled(panel.title, label), 11 if spec.lines else 0)
            if spec.lines:
                _mark_minimisers(axes, part.iloc[0])
    return figure


def _draw_mean_and_seeds(axes: Axes, table: pandas.DataFrame, props: dict[str, Any]) -> None:
    if table.size:
        table = table.where(np.isfinite)
        canvas.draw_curve(axes, table, props)
        if table.notna().sum(axis=1).max() > 1:
            seed_style = {"color": props["color"], "linewidth": 0.5, "alpha": 0.5}
            axes.plot(table.index, table, **seed_style)


def _mark_minimisers(axes: Axes, row: pandas.Series) -> None:
    """Mark both minimisers with their values of the factor that differs."""
    props = {"xycoords": axes.get_xaxis_transform(), "fontsize": 7.5, "color": canvas.INK}
    for column, x in _MINIMISERS.items():
        value = row[column]
        value = int(value) if isinstance(value, float) and value.is_integer() else value
        name = run_series.describe({row["factor"]: value})
        axes.axvline(x, color=canvas.MUTED, linewidth=0.8, zorder=1)
        canvas.annotate(axes, name, (x, 1.0), (0, 3), ha="center", annotation_clip=False, **props)


def _draw_alignment(frame: pandas.DataFrame, spec: specifications.Figure) -> Figure:
    """Return a row per series and a panel per place, with the smallest and largest batch size."""
    (panel,), finished = (figure_rows.panels_with_values(frame, spec), figure_rows.finished(frame))
    groups, note = canvas.first_items(canvas.runnable_series(frame))
    styles = canvas.size_styles(finished["batch_size"].unique())
    styles = {size: styles[size] for size in (min(styles), max(styles))}
    places = [place for place in _PLACES if (finished["place"] == place).any()]
    shape = len(groups), len(places)
    figure, grid = canvas.panels(math.prod(shape), len(places), sharex=True, sharey=True)
    first = grid[0]
    first.set_xscale("log", base=2)
    first.set_yscale("log")
    for line, group in zip(grid.reshape(shape), groups, strict=True):
        for axes, place in zip(line, places, strict=True):
            at_place = figure_rows.finished(group.frame)
            at_place = at_place[at_place["place"] == place]
            at_place = at_place[at_place["batch_size"].isin(styles)]
            for size, size_rows in at_place.groupby("batch_size"):
                table = size_rows.pivot_table(panel.column, "examples", "seed")
                canvas.draw_curve(axes, table, {**_DOTS, **styles[size]})
                random = size_rows.groupby("examples")["independent"].mean()
                axes.plot(random, linewidth=0.7, **{**styles[size], "zorder": 1})
            canvas.set_title(axes, display.titled(_PLACES[place], group.label))
            axes.set(xlabel="examples b in a mean gradient", ylabel=panel.label)
            axes.label_outer()
    examples = sorted(finished["examples"].dropna().astype(int).unique().tolist())
    examples = axis_scales.labelled_values(examples)
    first.set_xticks(examples, map(display.tick, examples))
    first.minorticks_off()
    values = finished[[panel.column, "independent"]].to_numpy(float)
    low = np.nanmin(values[values > 0])
    first.set_ylim(low / 1.15, 1.3)
    axis_scales.set_log_labels(first.yaxis, 1 / low)
    lines = [({"color": props["color"]}, f"batch size {size}") for size, props in styles.items()]
    canvas.draw_legend(figure, [*lines, _RANDOM])
    canvas.write_notes(figure, figure_rows.distinct_runs(frame), note)
    return figure
