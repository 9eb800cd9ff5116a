"""The distribution of the updates' norms by batch size, and its median against batch size."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pandas
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from batchscope.core import display
from batchscope.figures import FigureTables, canvas, rows
from batchscope.figures.kinds.by_batch_size import (
    Cell,
    draw_cell,
    published_entries,
    with_published,
)
from batchscope.study import specifications


def select(tables: FigureTables, spec: specifications.Figure) -> pandas.DataFrame:
    return rows.select(tables, spec, best_rate=True)


def draw(
    frame: pandas.DataFrame, spec: specifications.Figure, numbers: pandas.DataFrame | None = None
) -> Figure:
    """Return a row per series with the distributions and the medians by batch size."""
    (panel,), (ink,) = rows.panels(frame, spec), canvas.series_styles(1)
    groups, note = canvas.first(canvas.present(frame))
    styles = canvas.size_styles(frame["batch_size"].unique())
    figure, grid = canvas.panels(2 * len(groups), 2, width=4.2)
    for left, right, group in zip(grid[::2], grid[1::2], groups, strict=True):
        _draw_distributions(left, group.frame, styles, panel.column)
        canvas.title(left, display.titled("Distribution", group.label))
        title = display.titled(panel.title, group.label)
        runs = replace(group, label="", frame=rows.runs(group.frame))
        draw_cell(right, with_published(Cell(panel, title, [runs]), numbers), {"": ink})
        canvas.keep_possible(right, panel.column)
    canvas.size_legend(figure, styles)
    stars = [f"Stars: {text}." for _, text in published_entries(numbers)]
    canvas.notes(figure, rows.runs(frame), note, "Triangles: medians.", *stars)
    return figure


def _draw_distributions(
    axes: Axes, frame: pandas.DataFrame, styles: dict[int, dict[str, Any]], median: str
) -> None:
    """Draw an outline per batch size: the mean share of the updates in each bin."""
    binned = rows.finished(frame).dropna(subset="low")
    for size, chosen in binned.groupby("batch_size"):
        # All runs have the same bins of equal width in log10, and list a range of them.
        low, high = np.log10(chosen[["low", "high"]].to_numpy(float)).T
        width = np.median(high - low)
        index = np.round(low / width).astype(int)
        totals = np.bincount(index - index.min(), weights=chosen["share"].to_numpy(float))
        edges = 10 ** (width * np.arange(index.min(), index.max() + 2))
        shares, props = totals / chosen["seed"].nunique(), styles[int(size)]
        axes.stairs(shares, edges, linewidth=1.2, **props)
        middle = chosen.drop_duplicates("seed")[median].mean()
        if edges[0] <= middle < edges[-1]:
            height = shares[np.searchsorted(edges, middle, side="right") - 1]
            axes.plot(middle, height, marker="v", **{**canvas.EDGED, **props, "zorder": 4})
    axes.set_xscale("log")
    low, high = axes.get_xlim()
    canvas.few_log_labels(axes.xaxis, high / low)
    axes.set_ylim(bottom=0)
    axes.yaxis.set_major_formatter(canvas.percent_tick)
    axes.set_xlabel("‖update‖")
    axes.set_ylabel("updates per bin (%)")
