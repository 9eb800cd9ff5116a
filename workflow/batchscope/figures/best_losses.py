"""Lowest training and validation loss against batch size."""

from __future__ import annotations

import pandas
from matplotlib.figure import Figure

from batchscope.figures import Tables
from batchscope.figures.drawing import against_batch_size, words
from batchscope.figures.drawing.against_batch_size import Panel

_PANELS = [
    Panel("best_train_loss", "Best training loss", "loss (nats)"),
    Panel("best_validation_loss", "Best validation loss", "loss (nats)"),
]


def select(tables: Tables) -> pandas.DataFrame:
    """Returns factors, status and both losses of every run."""
    return against_batch_size.select(tables.runs, [panel.column for panel in _PANELS])


def draw(frame: pandas.DataFrame) -> Figure:
    """Returns the figure."""
    return against_batch_size.draw(frame, _PANELS)


def found(frame: pandas.DataFrame) -> str:
    """Returns both losses at the ends of the batch sizes."""
    told = (words.sentence(frame, panel.column, f"Mean {panel.title.lower()}") for panel in _PANELS)
    return " ".join(filter(None, told))
