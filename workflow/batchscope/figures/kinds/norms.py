"""Norms of mean gradients by number of examples, and distributions of the norms of updates.

The table of the specification decides: updates.csv has updates, alignment.csv has gradients.
"""

from dataclasses import replace
from typing import Any

import numpy as np
import pandas
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from batchscope.core import display
from batchscope.figures import FigureTables, canvas, figure_rows
from batchscope.figures.kinds import by_batch_size
from batchscope.study import specifications

_UPDATES = "updates"
_PLACES = {"start": "Start", "middle": "Middle", "end": "End"}
_RANDOM = ({"color": canvas.MUTED, "linewidth": 0.7}, "the same gradients with random signs")
_DOTS = {"marker": "o", "markersize": 4, **canvas.MARKER_EDGE}


def select(tables: FigureTables, spec: specifications.Figure) -> pandas.DataFrame:
    return figure_rows.select(tables, spec, best_rate=spec.table == _UPDATES)


def draw(
    frame: pandas.DataFrame, spec: specifications.Figure, published: pandas.DataFrame | None = None
) -> Figure:
    if spec.table == _UPDATES:
        return _draw_updates(frame, spec, published)
    return _draw_gradients(frame, spec)


def _draw_updates(
    frame: pandas.DataFrame, spec: specifications.Figure, published: pandas.DataFrame | None
) -> Figure:
    """Return a row per series with the distributions and the medians by batch size."""
    (panel,), (ink,) = figure_rows.panels_with_values(frame, spec), canvas.series_styles(1)
    groups, note = canvas.first_items(figure_rows.runnable_series(frame))
    styles = canvas.size_styles(frame["batch_size"].unique())
    figure, grid = canvas.panels(2 * len(groups), 2, width=4.2)
    for left, right, group in zip(grid[::2], grid[1::2], groups, strict=True):
        _draw_distributions(left, group.frame, styles, panel.column)
        canvas.set_title(left, display.titled("Distribution", group.label))
        title = display.titled(panel.title, group.label)
        runs = replace(group, label="", frame=figure_rows.distinct_runs(group.frame))
        content = by_batch_size.PanelContent(panel, title, [runs])
        content = by_batch_size.with_published(content, published)
        by_batch_size.draw_panel(right, content, {"": ink})
        canvas.limit_to_possible_values(right, panel.column)
    canvas.draw_size_legend(figure, styles)
    marks = ["Triangles: medians."]
    marks += [f"Stars: {text}." for _, text in by_batch_size.published_entries(published)]
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
    canvas.set_log_labels(axes.xaxis, high / low)
    axes.set_ylim(bottom=0)
    axes.yaxis.set_major_formatter(canvas.percent_tick)
    axes.set(xlabel="‖update‖", ylabel="updates per bin (%)")


def _draw_gradients(frame: pandas.DataFrame, spec: specifications.Figure) -> Figure:
    """Return a row per series and a panel per place, with the smallest and largest batch size."""
    (panel,), finished = (figure_rows.panels_with_values(frame, spec), figure_rows.finished(frame))
    groups, note = canvas.first_items(figure_rows.runnable_series(frame))
    styles = canvas.size_styles(finished["batch_size"].unique())
    styles = {size: styles[size] for size in (min(styles), max(styles))}
    places = [place for place in _PLACES if (finished["place"] == place).any()]
    count, columns = len(groups) * len(places), len(places)
    figure, grid = canvas.panels(count, columns, sharex=True, sharey=True)
    first = grid[0]
    first.set_xscale("log", base=2)
    first.set_yscale("log")
    for line, group in zip(grid.reshape(-1, columns), groups, strict=True):
        rows = figure_rows.finished(group.frame)
        rows = rows[rows["batch_size"].isin(styles)]
        for axes, place in zip(line, places, strict=True):
            at_place = rows[rows["place"] == place]
            for size, size_rows in at_place.groupby("batch_size"):
                table = size_rows.pivot_table(panel.column, "examples", "seed")
                canvas.draw_curve(axes, table, {**_DOTS, **styles[size]})
                random = size_rows.groupby("examples")["independent"].mean()
                axes.plot(random, linewidth=0.7, **{**styles[size], "zorder": 1})
            canvas.set_title(axes, display.titled(_PLACES[place], group.label))
            axes.set(xlabel="examples b in a mean gradient", ylabel=panel.label)
            axes.label_outer()
    examples = sorted(finished["examples"].dropna().astype(int).unique().tolist())
    examples = canvas.labelled_values(examples)
    first.set_xticks(examples, map(display.tick, examples))
    first.minorticks_off()
    values = finished[[panel.column, "independent"]].to_numpy(float)
    low = np.nanmin(values[values > 0])
    first.set_ylim(low / 1.15, 1.3)
    canvas.set_log_labels(first.yaxis, 1 / low)
    lines = [({"color": props["color"]}, f"batch size {size}") for size, props in styles.items()]
    canvas.draw_legend(figure, [*lines, _RANDOM])
    canvas.write_notes(figure, figure_rows.distinct_runs(frame), note)
    return figure
