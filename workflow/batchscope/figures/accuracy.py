"""Accuracy on training, validation and test data against batch size."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pandas
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter

from batchscope import frames, statistics
from batchscope.figures import Tables, against_batch_size, canvas, words
from batchscope.figures.against_batch_size import Panel, Place

_PANELS = [
    Panel("train_accuracy", "Training", "accuracy (%)"),
    Panel("validation_accuracy", "Validation", "accuracy (%)"),
    Panel("test_accuracy", "Test", "accuracy (%)"),
]


def select(tables: Tables) -> pandas.DataFrame:
    """Returns factors, status, accuracies and the size of each split of every run."""
    columns = [panel.column for panel in _PANELS]
    return against_batch_size.select(tables.runs, columns + [_items(name) for name in columns])


def draw(frame: pandas.DataFrame) -> Figure:
    """Returns the figure."""
    note = "Broad pale bars: 95 % binomial error of an accuracy counted on so many examples."
    panels = [replace(panel, title=_title(frame, panel)) for panel in _PANELS]
    figure = against_batch_size.draw(frame, panels, same_scale=True, extra=_binomial, note=note)
    for index, axes in enumerate(figure.axes):
        axes.yaxis.set_major_formatter(FuncFormatter(canvas.percent))
        if index:
            axes.set_ylabel("")
    bottom, top = figure.axes[0].get_ylim()
    if top > 1:  # an interval may reach beyond what an accuracy can be
        figure.axes[0].set_ylim(bottom, 1 + 0.03 * (1 - bottom))
    return figure


def found(frame: pandas.DataFrame) -> str:
    """Returns the mean accuracies on test and training data, by batch size."""
    told = [
        words.sentence(frame, column, what, words.percent)
        for column, what in (
            ("test_accuracy", "Mean test accuracy"),
            ("train_accuracy", "Mean training accuracy"),
        )
    ]
    return " ".join(text for text in told if text)


def _title(frame: pandas.DataFrame, panel: Panel) -> str:
    counts = frame[_items(panel.column)].dropna().unique()
    return f"{panel.title} ({int(counts[0]):,} examples)" if len(counts) == 1 else panel.title


def _items(column: str) -> str:
    return column.replace("_accuracy", "_examples")


def _binomial(
    axes: Axes, panel: Panel, group: frames.Series, style: dict[str, Any], place: Place
) -> None:
    width = _bar_width(group.frame["batch_size"].unique().tolist(), place.count)
    rows = group.frame[group.frame["status"] == canvas.FINISHED]
    for size, chosen in rows.groupby("batch_size"):
        share, items = chosen[panel.column].mean(), chosen[_items(panel.column)].mean()
        half = float(statistics.binomial_half_width(share, items))
        if np.isfinite(half):
            at = np.log2(size) + place.offset
            ends = [share - half, min(share + half, 1.0)]
            axes.plot(
                [at] * 2,
                ends,
                color=style["color"],
                alpha=0.2,
                linewidth=width,
                solid_capstyle="butt",
                zorder=1,
            )


def _bar_width(batch_sizes: list[int], series: int) -> float:
    """Returns the width of a bar in points: at most 7, less where bars stand close."""
    doublings = np.log2(max(batch_sizes) / min(batch_sizes)) + 1
    room = 72 * canvas.PANEL_WIDTH * canvas.spacing(batch_sizes) / doublings
    return float(np.clip(0.5 * room / series, 1.0, 7.0))
