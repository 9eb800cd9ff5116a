"""Distribution of the norms of updates: an outline per batch size, and medians by batch size."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pandas
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from batchscope.core import display
from batchscope.figures import FigureTables, axis_scales, batch_size_panel, canvas, figure_rows
from batchscope.study import specifications


def select(tables: FigureTables, spec: specifications.Figure) -> pandas.DataFrame:
    return figure_rows.select(tables, spec, best_rate=True)


def draw(
    frame: pandas.DataFrame, spec: specifications.Figure, published: pandas.DataFrame | None = None
) -> Figure:
    """Return a row per series with the distributions and the medians by batch size."""
    (panel,), (ink,) = figure_rows.panels_with_values(frame, spec), canvas.series_styles(1)
    groups, note = canvas.first_items(canvas.runnable_series(frame))
    styles = canvas.size_styles(frame["batch_size"].unique())
    figure, grid = canvas.panels(2 * len(groups), 2, width=4.2)
    for left, right, group in zip(grid[::2], grid[1::2], groups, strict=True):
        _draw_distributions(left, group.frame, styles, panel.column)
        canvas.set_title(left, display.titled("Distribution", group.label))
        title = display.titled(panel.title, group.label)
        runs = replace(group, label="", frame=figure_rows.distinct_runs(group.frame))
        content = batch_size_panel.PanelContent(panel, title, [runs])
        content = batch_size_panel.with_published(content, published)
        batch_size_panel.draw(right, content, {"": ink})
        axis_scales.limit_to_possible_values(right, panel.column)
    canvas.draw_size_legend(figure, styles)
    marks = ["Triangles: medians."]
    marks += [f"Stars: {text}." for _, text in batch_size_panel.published_entries(published)]
    canvas.write_notes(figure, figure_rows.distinct_runs(frame), note, *marks)
    return figure


def _draw_distributions(
    axes: Axes, frame: pandas.DataFrame, styles: dict[int, dict[str, Any]], median: str
) -> None:
    """Draw an outline per batch size: the mean share of the updates in each bin."""
    binned = figure_rows.finished(frame).dropna(subset="low")
    for size, bins in binned.groupby("batch_size"):
        # Bins have one width in log10 and the same edges in all runs. A run lists a range of bins.
        low, high = np.log10(bins[["low", "high"]].to_numpy(float)).T
        width = np.median(high - low)
        index = np.round(low / width).astype(int)
        totals = np.bincount(index - index.min(), weights=bins["share"].to_numpy(float))
        edges = 10 ** (width * np.arange(index.min(), index.max() + 2))
        shares, props = totals / bins["seed"].nunique(), styles[int(size)]
        axes.stairs(shares, edges, linewidth=1.2, **props)
        middle = bins.drop_duplicates("seed")[median].mean()
        if edges[0] <= middle < edges[-1]:
            height = shares[np.searchsorted(edges, middle, side="right") - 1]
            axes.plot(middle, height, marker="v", **{**canvas.MARKER_EDGE, **props, "zorder": 4})
    axes.set_xscale("log")
    low, high = axes.get_xlim()
    axis_scales.set_log_labels(axes.xaxis, high / low)
    axes.set_ylim(bottom=0)
    axes.yaxis.set_major_formatter(axis_scales.percent_tick)
    axes.set_xlabel("‖update‖")
    axes.set_ylabel("updates per bin (%)")
