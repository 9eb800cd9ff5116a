"""Sharpness against batch size, for every space and box size that was measured."""

from __future__ import annotations

import re

import pandas
from matplotlib.figure import Figure

from batchscope import wording
from batchscope.figures import Tables
from batchscope.figures.drawing import against_batch_size, words
from batchscope.figures.drawing.against_batch_size import Panel

_COLUMN = re.compile(r"sharpness_(full|subspace)_([0-9.e-]+)")
_SPACES = {"full": "Full space", "subspace": "Random subspace"}


def select(tables: Tables) -> pandas.DataFrame:
    """Returns factors, status and every sharpness of every run."""
    columns = [name for name in tables.runs.columns if _COLUMN.fullmatch(name)]
    return against_batch_size.select(tables.runs, columns)


def draw(frame: pandas.DataFrame) -> Figure:
    """Returns the figure: one row of panels per space, one column per box size."""
    found = [match for name in frame.columns if (match := _COLUMN.fullmatch(name))]
    outcomes = [
        Panel(match[0], f"{_SPACES[match[1]]}, ε = {match[2]}", "sharpness (% of 1 + loss)")
        for match in found
    ]
    boxes = len({match[2] for match in found})
    return against_batch_size.draw(frame, outcomes, columns=boxes)


def found(frame: pandas.DataFrame) -> str:
    """Returns the mean sharpness of every space, for its first box size, by batch size."""
    sentences: dict[str, str] = {}
    for match in filter(None, map(_COLUMN.fullmatch, frame.columns)):
        space = {"full": "the full space", "subspace": "a random subspace"}[match[1]]
        text = words.sentence(frame, match[0], f"Mean sharpness in {space} (ε = {match[2]})")
        if text:
            sentences.setdefault(space, text)
    if any("series" in text for text in sentences.values()):
        return " ".join(sentences.values())
    # One sentence: a direction in one space alone is half of the answer.
    first, *rest = sentences.values() or [""]
    return "; ".join([first.removesuffix(".") if rest else first, *map(wording.lower, rest)])
