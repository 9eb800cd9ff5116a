"""Accuracy on training, validation and test data against batch size."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pandas
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter

from batchscope import wording
from batchscope.analysis import intervals, run_series
from batchscope.catalogue import value_ranges
from batchscope.figures import Tables
from batchscope.figures.drawing import against_batch_size, as_published, canvas, words
from batchscope.figures.drawing.against_batch_size import Panel, Place

_PANELS = [
    Panel("train_accuracy", "Training", "accuracy (%)"),
    Panel("validation_accuracy", "Validation", "accuracy (%)"),
    Panel("test_accuracy", "Test", "accuracy (%)"),
]


_MOST_SHOWN = 8  # batch sizes in a sentence: the best may lie between the ends
_NOTE = "Broad pale bars: 95 % binomial error of an accuracy counted on so many examples."


def select(tables: Tables) -> pandas.DataFrame:
    """Returns factors, status, accuracies and the size of each split of every run.

    Below them stand the test accuracies of a document, where the study has some.
    """
    columns = [panel.column for panel in _PANELS]
    rows = against_batch_size.select(tables.runs, columns + [_items(name) for name in columns])
    return as_published.below(rows, tables.published, "accuracy")


def draw(frame: pandas.DataFrame) -> Figure:
    """Returns the figure."""
    own, theirs = as_published.split(frame)
    panels = [replace(panel, title=_title(own, panel)) for panel in _PANELS]
    if len(theirs):
        figure = _draw_beside(own, theirs, panels)
    else:
        counted = own[[_items(panel.column) for panel in panels]].notna().any(axis=None)
        note = _NOTE if counted else ""
        figure = against_batch_size.draw(own, panels, same_scale=True, extra=_binomial, note=note)
        for axes in figure.axes:
            if not axes.get_subplotspec().is_first_col():
                axes.set_ylabel("")
    for axes in figure.axes:
        axes.yaxis.set_major_formatter(FuncFormatter(canvas.percent_tick))
    return figure


def _draw_beside(own: pandas.DataFrame, theirs: pandas.DataFrame, panels: list[Panel]) -> Figure:
    """Returns two rows of panels: the document's accuracies stand beside ours on test data."""
    figure, grid = canvas.panels(2, 2)
    *ours, last = grid.flat
    for axes in ours[1:]:
        axes.sharey(ours[0])
    groups, others = canvas.present(run_series.series(own)), as_published.series(theirs)
    sizes = sorted({*own["batch_size"].tolist(), *theirs["batch_size"].tolist()})
    # Without a size in common an axis of both would be mostly empty.
    apart = not {*own["batch_size"]} & {*theirs["batch_size"]}
    here, there = (sorted({*rows["batch_size"]}) if apart else sizes for rows in (own, theirs))
    extra = functools.partial(_binomial, sizes=here)
    panels = [*panels[:-1], replace(panels[-1], title=f"{panels[-1].title}, {as_published.HERE}")]
    handles: list[Any] = []
    for axes, panel in zip(ours, panels, strict=True):
        handles = against_batch_size.draw_panel(axes, own, panel, groups, extra)
        canvas.batch_size_axis(axes, here)
    against_batch_size.keep_possible(ours[0], own, [panel.column for panel in panels])
    looks = as_published.looks(groups, others)
    column = _PANELS[-1].column
    drawn = as_published.draw(last, np.log2, others, looks, column)
    title = f"{_PANELS[-1].title}, {as_published.THERE}"
    against_batch_size.finish(
        last, Panel(column, title, panels[-1].label), there, np.concatenate(drawn), ()
    )
    canvas.lift_title(last, own)  # to the height of those beside it
    labels = [group.label for group in groups]
    entries = as_published.entries(list(zip(handles, labels, strict=True)), others, looks)
    canvas.legend(figure, [handle for handle, _ in entries], [label for _, label in entries])
    canvas.notes(figure, own, _NOTE, as_published.note(theirs), canvas.cut_note(figure))
    return figure


def found(frame: pandas.DataFrame) -> str:
    """Returns the mean accuracies on test and training data, by batch size."""
    own, _ = as_published.split(frame)
    sentences = [
        words.sentence(own, column, what, wording.PERCENT, most=_MOST_SHOWN)
        for column, what in (
            ("test_accuracy", "Mean test accuracy"),
            ("train_accuracy", "Mean training accuracy"),
        )
    ]
    return " ".join(text for text in sentences if text)


def _title(frame: pandas.DataFrame, panel: Panel) -> str:
    counts = frame[_items(panel.column)].dropna().unique()
    if len(counts) != 1:
        return panel.title
    return f"{panel.title} ({int(counts[0]):,}\N{NO-BREAK SPACE}examples)"


def _items(column: str) -> str:
    return column.replace("_accuracy", "_examples")


def _binomial(
    axes: Axes,
    panel: Panel,
    group: run_series.Series,
    style: dict[str, Any],
    place: Place,
    sizes: Sequence[int] = (),
) -> None:
    own = group.frame["batch_size"].unique().tolist()
    width = _bar_width(own, sizes or own, place.count)
    rows = group.frame[group.frame["status"] == canvas.FINISHED]
    for size, chosen in rows.groupby("batch_size"):
        share, items = chosen[panel.column].mean(), chosen[_items(panel.column)].mean()
        half = float(intervals.binomial_half_width(share, items))
        if np.isfinite(half):
            at = np.log2(size) + place.offset
            ends = value_ranges.cut(panel.column, share - half, share + half)
            axes.plot(
                [at] * 2,
                ends,
                color=style["color"],
                alpha=0.2,
                linewidth=width,
                solid_capstyle="butt",
                zorder=1,
            )


def _bar_width(batch_sizes: list[int], axis: Sequence[int], series: int) -> float:
    """Returns the width of a bar in points: at most 7, less where bars stand close."""
    doublings = np.log2(max(axis) / min(axis)) + 1
    room = 72 * canvas.PANEL_WIDTH * canvas.spacing(batch_sizes) / doublings
    return float(np.clip(0.5 * room / series, 1.0, 7.0))
