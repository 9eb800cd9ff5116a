"""Panels against batch size with one line for each number of epochs that a training served."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pandas
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from batchscope import wording
from batchscope.analysis import run_series
from batchscope.figures import Tables
from batchscope.figures.drawing import against_batch_size, against_epoch, canvas

MOST_PANELS = 12
BARS = {"elinewidth": 0.8, "capsize": 1.5}  # thin: lines stand close to each other
_ALONE, _BESIDE = (6.6, 3.7), (4.2, 2.9)  # inches: width and height of a panel
_COLUMNS = 2

Styles = dict[int, dict[str, Any]]
DrawPanel = Callable[[Axes, run_series.Series, Styles], None]


def select(tables: Tables, columns: list[str], of_runs: list[str]) -> pandas.DataFrame:
    """Returns one row per run and number of epochs: factors, status and these columns."""
    found = against_batch_size.with_absent(tables.at_epochs, tables.runs)
    found["at_epoch"] = found["at_epoch"].astype("Int64")
    keys = ["machine", "run"]
    found = found.merge(tables.runs[[*keys, *of_runs]], how="left", on=keys)
    factors = against_batch_size.factor_columns(found)
    return found[[*factors, "at_epoch", *columns, *of_runs]].reset_index(drop=True)


def counts(frame: pandas.DataFrame) -> list[int]:
    """Returns the numbers of epochs, in rising order."""
    return sorted(frame["at_epoch"].dropna().astype(int).unique().tolist())


def styles(frame: pandas.DataFrame) -> Styles:
    """Returns number of epochs -> colour, line style and marker, dark to light."""
    found = canvas.ordered_styles(counts(frame), markers=True)
    return {count: {**style, "markersize": 5, "linewidth": 1.1} for count, style in found.items()}


def draw(frame: pandas.DataFrame, title: str, draw_panel: DrawPanel, *notes: str) -> Figure:
    """Returns a figure with one panel per series, all with the same vertical axis."""
    every = canvas.present(run_series.series(frame))
    groups = every[:MOST_PANELS]
    columns = min(len(groups), _COLUMNS)
    width, height = _ALONE if columns == 1 else _BESIDE
    figure, grid = canvas.some_panels(len(groups), columns, width, height, sharey=True)
    found = styles(frame)
    for axes, group in zip(grid, groups, strict=True):
        draw_panel(axes, group, found)
        sizes = sorted(group.frame["batch_size"].unique().tolist())
        canvas.batch_size_axis(axes, sizes, room=0.25 / width)
        axes.set_title(wording.capital(group.label) or title)
        canvas.mark_failures(axes, against_epoch.runs(group.frame))
        canvas.lift_title(axes, against_epoch.runs(frame))  # beside the others
    lines = [Line2D([], [], markeredgecolor="white", **style) for style in found.values()]
    canvas.legend(figure, lines, [wording.count(count, "epoch") for count in found])
    more = f"{len(every) - len(groups)} further series in the CSV." if every[MOST_PANELS:] else ""
    canvas.notes(figure, against_epoch.runs(frame), *notes, more)
    return figure


def scale(axes: Axes, values: np.ndarray, ends: np.ndarray) -> None:
    """Scales the vertical axis by all panels' values, or says that there are none."""
    if np.isfinite(values).any():
        canvas.value_axis(axes, values, ends)
    else:
        canvas.empty(axes)
