"""A heat map of batch size and learning rate: the mean of each cell, failures and chosen rates."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np
import pandas
from matplotlib.axes import Axes
from matplotlib.colors import LinearSegmentedColormap, to_hex
from matplotlib.figure import Figure
from matplotlib.patches import Patch, Rectangle

from batchscope import wording
from batchscope.analysis.targets import Target
from batchscope.analysis.trainings import CHOSEN_ON, Trainings, of_experiment
from batchscope.figures import FigureTables, rows
from batchscope.figures.drawing import canvas
from batchscope.study import factor_words, specifications, tasks
from batchscope.study.budget_kinds import TAKEN, TARGET

_TARGET = ["target_column", "target_value"]
_COLUMNS = ["outcome", *_TARGET, "batch_size", "learning_rate"]
_COUNTS = ["seeds", "finite", "failed", "mean", "chosen", "recommended"]
_MOST_PANELS = 6
_MOST_WRITTEN, _ROOMY = 9, 6  # batch sizes with room for two digits in a cell, and for three
_LIGHTEST = 4.0  # ratio to the best mean at the light end of the colours
# All grounds are light, and the text is dark on a dark page too: canvas.INK would change there.
_BEST_TO_WORST = LinearSegmentedColormap.from_list("cost", ["#5ba3d0", "#f3f8fc"])
_WITHOUT, _TEXT = "#e4e4e4", "#111111"
_FRAMES = {"chosen": (_TEXT, 1.4), "recommended": ("#007a58", 3.0)}


def select(tables: FigureTables, spec: specifications.Figure) -> pandas.DataFrame:
    """Return a row per series, batch size and learning rate; none without a choice of rates."""
    found = []
    for factors, part in rows.by_advice(tables):
        for series in of_experiment(part.runs, part.trajectories, part.metrics):
            if series.tuned:
                found += [{**factors, **cell} for cell in _cells(series, part)]
    frame = pandas.DataFrame(found)
    return frame if len(frame) and frame["mean"].notna().any() else frame.iloc[:0]


def _cells(series: Trainings, tables: FigureTables) -> Iterator[dict[str, Any]]:
    """Yield the cells of a series: of the cost to the target if it decides, else of the loss."""
    shared, values = _values(series, tables)
    advice = tables.advice.set_index("item")
    rates = advice.loc[["size"]].set_index("batch_size")["learning_rate"]
    recommended = advice["batch_size"].get("recommendation")
    for cell in series.cells(values, geometric=shared["outcome"] in TAKEN):
        chosen = rates.get(cell["batch_size"]) == cell["learning_rate"]
        marks = {"chosen": chosen, "recommended": chosen and cell["batch_size"] == recommended}
        yield {**shared, **cell, **{name: int(mark) for name, mark in marks.items()}}


def _values(series: Trainings, tables: FigureTables) -> tuple[dict[str, Any], np.ndarray]:
    """Return the columns that all cells share, and the cube of the outcome."""
    outcome, compared = rows.deciding(tables.advice)[0], tables.comparisons
    compared = compared[compared["budget"].eq(TARGET) & compared["outcome"].eq(outcome)]
    if compared.empty:
        return {"outcome": CHOSEN_ON, **dict.fromkeys(_TARGET)}, series.column(CHOSEN_ON)
    value, column = compared[["budget_value", "budget_column"]].iloc[0]
    column = "" if pandas.isna(column) else column
    shared = {"outcome": outcome, "target_column": column, "target_value": value}
    return shared, series.taken(Target(column, value), outcome)


def draw(frame: pandas.DataFrame, spec: specifications.Figure) -> Figure:
    """Return the figure: a panel for each of the first series."""
    several = [name for name in frame if name not in (*_COLUMNS, *_COUNTS)]
    groups = [*frame.groupby(several, sort=False, dropna=False)] if several else [((), frame)]
    groups = groups[:_MOST_PANELS]
    most = max(rows["learning_rate"].nunique() for _, rows in groups)
    columns = min(len(groups), 2)
    figure, grid = canvas.panels(len(groups), columns, width=5.0, height=1.1 + 0.3 * most)
    for axes, (key, cells) in zip(grid, groups, strict=True):
        series = factor_words.describe(dict(zip(several, key, strict=True)))
        canvas.title(axes, wording.titled(_heading(cells), series))
        _draw_panel(axes, cells)
    canvas.legend(figure, _legend(frame))
    return figure


def _heading(cells: pandas.DataFrame) -> str:
    outcome, column, value = cells[["outcome", *_TARGET]].iloc[0]
    if outcome not in TAKEN:
        return "Lowest validation loss"
    target = f"{tasks.column_words(column)} {wording.number(value)}" if column else "the target"
    return wording.capital(f"{outcome} to {target}")


def _draw_panel(axes: Axes, cells: pandas.DataFrame) -> None:
    sizes, rates = (sorted(cells[name].unique()) for name in ("batch_size", "learning_rate"))
    shades = dict(zip(cells.index, _shades(cells["mean"].to_numpy(float)), strict=True))
    for index, cell in cells.sort_values(["chosen", "recommended"]).iterrows():
        place = sizes.index(cell["batch_size"]), rates.index(cell["learning_rate"])
        axes.add_patch(Rectangle(place, 1, 1, facecolor=shades[index], edgecolor="#ffffff"))
        for name, (colour, width) in _FRAMES.items():
            if cell[name]:
                inside = (place[0] + 0.06, place[1] + 0.1), 0.88, 0.8
                axes.add_patch(Rectangle(*inside, fill=False, edgecolor=colour, linewidth=width))
        if len(sizes) <= _MOST_WRITTEN:
            text = _text(cell, 3 if len(sizes) <= _ROOMY else 2)
            failed = cell["failed"] == cell["seeds"]
            look = {"color": canvas.FAILED_COLOUR if failed else _TEXT, "fontsize": 8}
            axes.text(place[0] + 0.5, place[1] + 0.5, text, ha="center", va="center", **look)
    axes.set(xlim=(0, len(sizes)), ylim=(0, len(rates)), xlabel="batch size")
    axes.set_ylabel("learning rate")
    axes.set_xticks(np.arange(len(sizes)) + 0.5, [f"{size:.0f}" for size in sizes])
    axes.set_yticks(np.arange(len(rates)) + 0.5, [wording.number(rate) for rate in rates])
    axes.tick_params(length=0)
    axes.grid(visible=False)
    axes.spines[:].set_visible(False)


def _shades(means: np.ndarray) -> list[str]:
    """Return the colour of each mean by its ratio to the least, on a logarithmic scale.

    Means that are not all positive have no ratio: the scale is linear from the least to the most.
    """
    known = means[np.isfinite(means)]
    if len(known) and known.min() > 0:
        shares = np.log(means / known.min()) / math.log(_LIGHTEST)
    else:
        shares = (means - known.min(initial=np.inf)) / (np.ptp(known) if len(known) > 1 else 1.0)
    return [_WITHOUT if math.isnan(share) else to_hex(_BEST_TO_WORST(share)) for share in shares]


def _text(cell: pandas.Series, digits: int) -> str:
    """Return the mean of a cell, or how many seeds have a value."""
    if cell["failed"] == cell["seeds"]:
        return "failed"
    if cell["finite"] < cell["seeds"]:
        return f"{cell['finite']}/{cell['seeds']}"
    return wording.number(cell["mean"], digits)


def _legend(frame: pandas.DataFrame) -> list[tuple[Any, str]]:
    ends = [Patch(facecolor=_BEST_TO_WORST(end), edgecolor=canvas.GRID) for end in (0.0, 1.0)]
    worst = f"{_LIGHTEST:.0f} × or more" if frame["mean"].min() > 0 else "worst"
    handles = [(ends[0], "best"), (ends[1], worst)]
    partly = frame["finite"].lt(frame["seeds"]) & frame["failed"].lt(frame["seeds"])
    if partly.any():
        reached = "reached" if frame["outcome"].isin(TAKEN).any() else "ended"
        example = _text(frame[partly].iloc[0], 2)
        handles.append((Patch(facecolor=_WITHOUT), f"{example} {reached}"))
    for name, label in (("chosen", "chosen rate"), ("recommended", "recommended")):
        colour, width = _FRAMES[name]
        if frame[name].any():
            patch = Patch(facecolor=_BEST_TO_WORST(0.5), edgecolor=colour, linewidth=width)
            handles.append((patch, label))
    return handles
