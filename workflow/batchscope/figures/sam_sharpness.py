"""The loss's rise one step along its gradient against batch size, for every length of the step."""

from __future__ import annotations

import re

import pandas
from matplotlib.figure import Figure

from batchscope.figures import Tables
from batchscope.figures.drawing import against_batch_size, words
from batchscope.figures.drawing.against_batch_size import Panel

_COLUMN = re.compile(r"sam_sharpness_([0-9.e-]+)")


def select(tables: Tables) -> pandas.DataFrame:
    """Returns factors, status and the rise for every length of the step of every run."""
    columns = [name for name in tables.runs.columns if _COLUMN.fullmatch(name)]
    return against_batch_size.select(tables.runs, columns)


def draw(frame: pandas.DataFrame) -> Figure:
    """Returns the figure: one panel per length."""
    return against_batch_size.draw(frame, _panels(frame))


def found(frame: pandas.DataFrame) -> str:
    """Returns the rise at the ends of the batch sizes, for the first length."""
    panel = _panels(frame)[0]
    return words.sentence(frame, panel.column, f"Mean rise of the loss ({panel.title})")


def _panels(frame: pandas.DataFrame) -> list[Panel]:
    found = [match for name in frame.columns if (match := _COLUMN.fullmatch(name))]
    label = "f(w + ρ g/‖g‖) − f(w)"
    return [Panel(match[0], f"ρ = {match[1]}", f"{label} (nats)") for match in found]
