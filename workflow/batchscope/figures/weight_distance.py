"""Distance of the weights from the initial ones against batch size."""

from __future__ import annotations

import pandas
from matplotlib.figure import Figure

from batchscope.figures import Tables
from batchscope.figures.drawing import against_batch_size, words
from batchscope.figures.drawing.against_batch_size import Panel

_PANELS = [
    Panel("weight_distance", "Distance", "‖w − w₀‖"),
    Panel("weight_distance_relative", "Relative to the initial weights", "‖w − w₀‖ / ‖w₀‖"),
]


def select(tables: Tables) -> pandas.DataFrame:
    """Returns factors, status and both distances of every run."""
    return against_batch_size.select(tables.runs, [panel.column for panel in _PANELS])


def draw(frame: pandas.DataFrame) -> Figure:
    """Returns the figure."""
    return against_batch_size.draw(frame, _PANELS)


def found(frame: pandas.DataFrame) -> str:
    """Returns the distance at the ends of the batch sizes, and their ratio."""
    what = "Mean distance from the initial weights"
    return words.sentence(frame, "weight_distance", what, with_ratio=True)
