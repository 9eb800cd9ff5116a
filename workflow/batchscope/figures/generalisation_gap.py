"""The generalisation gap of loss and accuracy against batch size."""

from __future__ import annotations

import pandas
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter

from batchscope import wording
from batchscope.figures import Tables
from batchscope.figures.drawing import against_batch_size, canvas, words
from batchscope.figures.drawing.against_batch_size import Panel

_PANELS = [
    Panel("generalisation_gap", "Loss, difference", "test − training loss (nats)"),
    Panel("generalisation_gap_ratio", "Loss, ratio", "test loss / training loss"),
    Panel(
        "generalisation_gap_accuracy", "Accuracy, difference", "training − test accuracy (points)"
    ),
]


def select(tables: Tables) -> pandas.DataFrame:
    """Returns factors, status and all forms of the gap of every run."""
    return against_batch_size.select(tables.runs, [panel.column for panel in _PANELS])


def draw(frame: pandas.DataFrame) -> Figure:
    """Returns the figure."""
    figure = against_batch_size.draw(frame, _PANELS)
    for axes in figure.axes:
        if axes.get_ylabel() == _PANELS[-1].label:
            axes.yaxis.set_major_formatter(FuncFormatter(canvas.percent_tick))
    return figure


def found(frame: pandas.DataFrame) -> str:
    """Returns the mean gaps of loss and accuracy, by batch size."""
    of_loss = "Mean generalisation gap, test loss minus training loss,"
    of_accuracy = "Mean training accuracy minus test accuracy"
    loss = words.sentence(frame, _PANELS[0].column, of_loss, wording.Unit(" nats"))
    accuracy = words.sentence(frame, _PANELS[-1].column, of_accuracy, wording.POINTS)
    return " ".join(filter(None, (loss, accuracy)))
