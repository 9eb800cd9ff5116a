"""Heat map of batch size and learning rate: means of the cells, failures and chosen rates."""

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

from batchscope.analysis.targets import Target
from batchscope.analysis.trainings import CHOSEN_ON, Trainings, for_experiment
from batchscope.core import display
from batchscope.figures import FigureTables, canvas, deciding_outcome
from batchscope.figures.deciding_outcome import TARGET_COLUMNS
from batchscope.study import factor_words, specifications
from batchscope.study.budget_kinds import COSTS, TARGET

_COLUMNS = ["outcome", *TARGET_COLUMNS, "batch_size", "learning_rate"]
_COLUMNS += ["seeds", "finite", "failed", "mean", "chosen", "recommended"]
_MAX_WRITTEN, _ROOMY = 9, 6  # batch sizes with room for two digits in a cell, and for three
_LIGHTEST = 4.0  # ratio to the best mean at the light end of the colours
# Cells are light with dark text on a dark page too: canvas.INK would change there.
_BEST_TO_WORST = LinearSegmentedColormap.from_list("cost", ["#5ba3d0", "#f3f8fc"])
_WITHOUT, _TEXT = "#e4e4e4", "#111111"
# Column -> label, colour and width of the frame of a cell.
_FRAMES = {"chosen": ("chosen rate", _TEXT, 1.4), "recommended": ("recommended", "#007a58", 3.0)}


def select(tables: FigureTables, spec: specifications.Figure) -> pandas.DataFrame:
    """Return a row per series, batch size and learning rate, if there is a choice of rates."""
    cells = [
        {**factors, **cell}
        for factors, part in deciding_outcome.by_advice(tables)
        for series in for_experiment(part.runs, part.trajectories, part.metrics)
        if series.tuned
        for cell in _cells(series, part)
    ]
    frame = pandas.DataFrame(cells)
    return frame if len(frame) and frame["mean"].notna().any() else frame.iloc[:0]


def _cells(series: Trainings, tables: FigureTables) -> Iterator[dict[str, Any]]:
    """Yield the cells of a series: of the cost to the target if it decides, else of the loss."""
    outcome, compared = deciding_outcome.deciding(tables.advice)[0], tables.comparisons
    compared = compared[compared["budget"].eq(TARGET) & compared["outcome"].eq(outcome)]
    shared, values = {"outcome": CHOSEN_ON, **dict.fromkeys(TARGET_COLUMNS)}, None
    if len(compared):
        value, column = compared[["budget_value", "budget_column"]].iloc[0]
        column = "" if pandas.isna(column) else column
        shared = {"outcome": outcome, "target_column": column, "target_value": value}
        values = series.cost_to(Target(column, value), outcome)
    values = series.column(CHOSEN_ON) if values is None else values
    advice = tables.advice.set_index("item")
    rates = advice.loc[["size"]].set_index("batch_size")["learning_rate"]
    recommended = advice["batch_size"].get("recommendation")
    for cell in series.cells(values, geometric=shared["outcome"] in COSTS):
        chosen = rates.get(cell["batch_size"]) == cell["learning_rate"]
        is_recommended = chosen and cell["batch_size"] == recommended
        yield {**shared, **cell, "chosen": int(chosen), "recommended": int(is_recommended)}


def draw(frame: pandas.DataFrame, spec: specifications.Figure) -> Figure:
    """Return a panel for each of the first series."""
    factors = [name for name in frame if name not in _COLUMNS]
    groups = list(frame.groupby(factors, sort=False, dropna=False)) if factors else [((), frame)]
    groups = groups[: canvas.MAX_SERIES]
    most = max(cells["learning_rate"].nunique() for _, cells in groups)
    columns = min(len(groups), 2)
    figure, grid = canvas.panels(len(groups), columns, width=5.0, height=1.1 + 0.3 * most)
    for axes, (key, cells) in zip(grid, groups, strict=True):
        row, heading = cells.iloc[0], "Lowest validation loss"
        if row["outcome"] in COSTS:
            heading = f"{row['outcome']} to {deciding_outcome.target_words(row)}"
        series = factor_words.describe(dict(zip(factors, key, strict=True)))
        canvas.title(axes, display.titled(display.capital(heading), series))
        _draw_panel(axes, cells)
    canvas.legend(figure, _legend_entries(frame))
    return figure


def _draw_panel(axes: Axes, cells: pandas.DataFrame) -> None:
    sizes, rates = (sorted(cells[name].unique()) for name in ("batch_size", "learning_rate"))
    cells = cells.assign(shade=_shades(cells["mean"].to_numpy(float)))
    for _, cell in cells.sort_values(["chosen", "recommended"]).iterrows():
        x, y = sizes.index(cell["batch_size"]), rates.index(cell["learning_rate"])
        axes.add_patch(Rectangle((x, y), 1, 1, facecolor=cell["shade"], edgecolor="#ffffff"))
        for name, (_, colour, width) in _FRAMES.items():
            if cell[name]:
                inside = (x + 0.06, y + 0.1), 0.88, 0.8
                axes.add_patch(Rectangle(*inside, fill=False, edgecolor=colour, linewidth=width))
        if len(sizes) <= _MAX_WRITTEN:
            text = _text(cell, 3 if len(sizes) <= _ROOMY else 2)
            props = {"color": canvas.FAILED_COLOUR if text == "failed" else _TEXT, "fontsize": 8}
            axes.text(x + 0.5, y + 0.5, text, ha="center", va="center", **props)
    axes.set(xlim=(0, len(sizes)), ylim=(0, len(rates)))
    axes.set(xlabel="batch size", ylabel="learning rate")
    axes.set_xticks(np.arange(len(sizes)) + 0.5, [f"{size:.0f}" for size in sizes])
    axes.set_yticks(np.arange(len(rates)) + 0.5, [display.number(rate) for rate in rates])
    axes.tick_params(length=0)
    axes.grid(visible=False)
    axes.spines[:].set_visible(False)


def _shades(means: np.ndarray) -> list[str]:
    """Return the colour of each mean by its ratio to the smallest, on a logarithmic scale.

    The scale is linear from the smallest to the largest mean if not all are positive.
    """
    finite = means[np.isfinite(means)]
    if len(finite) and finite.min() > 0:
        shares = np.log(means / finite.min()) / math.log(_LIGHTEST)
    else:
        shares = (means - finite.min(initial=np.inf)) / (np.ptp(finite) if len(finite) > 1 else 1.0)
    return [_WITHOUT if math.isnan(share) else to_hex(_BEST_TO_WORST(share)) for share in shares]


def _text(cell: pandas.Series, digits: int) -> str:
    """Return the mean of a cell, or the number of seeds with a value."""
    if cell["failed"] == cell["seeds"]:
        return "failed"
    if cell["finite"] < cell["seeds"]:
        return f"{cell['finite']}/{cell['seeds']}"
    return display.number(cell["mean"], digits)


def _legend_entries(frame: pandas.DataFrame) -> list[tuple[Any, str]]:
    worst = f"{_LIGHTEST:.0f} × or more" if frame["mean"].min() > 0 else "worst"
    entries = [
        (Patch(facecolor=_BEST_TO_WORST(end), edgecolor=canvas.GRID), label)
        for end, label in ((0.0, "best"), (1.0, worst))
    ]
    partly = frame["finite"].lt(frame["seeds"]) & frame["failed"].lt(frame["seeds"])
    if partly.any():
        reached = "reached" if frame["outcome"].isin(COSTS).any() else "ended"
        entries.append((Patch(facecolor=_WITHOUT), f"{_text(frame[partly].iloc[0], 2)} {reached}"))
    middle = _BEST_TO_WORST(0.5)
    entries += [
        (Patch(facecolor=middle, edgecolor=colour, linewidth=width), label)
        for name, (label, colour, width) in _FRAMES.items()
        if frame[name].any()
    ]
    return entries
