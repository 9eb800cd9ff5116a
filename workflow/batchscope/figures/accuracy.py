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
from batchscope.analysis import best_learning_rates, run_series, seed_pairs
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
    """Returns factors, status, accuracies, size of each split and validation loss of every run.

    The loss chooses learning rates. Below them stand the test accuracies of a document, where the
    study has some.
    """
    columns = [panel.column for panel in _PANELS]
    columns += [*map(_items, columns), best_learning_rates.CHOSEN_ON]
    rows = against_batch_size.select(tables.runs, columns)
    return as_published.below(rows, tables.published, "accuracy")


def draw(frame: pandas.DataFrame) -> Figure:
    """Returns the figure."""
    own, theirs = as_published.split(frame)
    panels = []
    for panel in _PANELS:
        counts = own[_items(panel.column)].dropna().unique()
        of = f" ({int(counts[0]):,}\N{NO-BREAK SPACE}examples)" if len(counts) == 1 else ""
        panels.append(replace(panel, title=f"{panel.title}{of}"))
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
    ours_at, theirs_at = {*own["batch_size"]}, {*theirs["batch_size"]}
    # Without a size in common an axis of both would be mostly empty.
    alike = ours_at | theirs_at if ours_at & theirs_at else set()
    here, there = sorted(alike or ours_at), sorted(alike or theirs_at)
    extra = functools.partial(_binomial, sizes=here)
    panels = [*panels[:-1], replace(panels[-1], title=f"{panels[-1].title}, {as_published.HERE}")]
    handles: list[Any] = []
    for axes, panel in zip(ours, panels, strict=True):
        handles = against_batch_size.draw_panel(axes, own, panel, groups, extra)
        canvas.batch_size_axis(axes, here)
    against_batch_size.keep_possible(ours[0], own, [panel.column for panel in panels])
    looks = as_published.looks(groups, others)
    panel = replace(_PANELS[-1], title=f"{_PANELS[-1].title}, {as_published.THERE}")
    drawn = as_published.draw(last, np.log2, others, looks, panel.column)
    against_batch_size.finish(last, panel, there, np.concatenate(drawn), ())
    canvas.lift_title(last, own)  # to the height of those beside it
    labels = [group.label for group in groups]
    entries = as_published.entries(list(zip(handles, labels, strict=True)), others, looks)
    canvas.legend(figure, [handle for handle, _ in entries], [label for _, label in entries])
    canvas.notes(figure, own, _NOTE, as_published.note(theirs), canvas.cut_note(figure))
    return figure


def found(frame: pandas.DataFrame) -> str:
    """Returns the mean accuracies on test and training data, by batch size."""
    own, _ = as_published.split(frame)
    named = {"test_accuracy": "Mean test accuracy", "train_accuracy": "Mean training accuracy"}
    sentences = [
        words.sentence(own, column, what, wording.PERCENT, most=_MOST_SHOWN)
        for column, what in named.items()
    ]
    return " ".join(filter(None, sentences))


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
    doublings = np.log2(max(sizes or own) / min(sizes or own)) + 1
    room = 72 * canvas.PANEL_WIDTH * canvas.spacing(own) / doublings
    look = {"color": style["color"], "alpha": 0.2, "solid_capstyle": "butt", "zorder": 1}
    look["linewidth"] = float(np.clip(0.5 * room / place.count, 1.0, 7.0))  # points
    rows = group.frame[group.frame["status"] == canvas.FINISHED]
    errors = seed_pairs.binomial(rows, panel.column, ["batch_size"]).dropna()
    for size, mean, half in errors.itertuples(name=None):
        ends = value_ranges.clipped(panel.column, (mean - half, mean + half))
        axes.plot([np.log2(size) + place.offset] * 2, ends, **look)
