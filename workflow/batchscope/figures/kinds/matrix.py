"""What is better at which budget: budgets and outcomes down, batch sizes across, in colours."""

from __future__ import annotations

import math
from typing import Any

import pandas
from matplotlib.figure import Figure
from matplotlib.patches import Patch, Rectangle

from batchscope import wording
from batchscope.analysis import best_learning_rates, run_series
from batchscope.catalogue import entries
from batchscope.catalogue.budget_kinds import END, SECONDS, TAKEN
from batchscope.catalogue.decision_columns import COMPARISONS
from batchscope.figures import Tables
from batchscope.figures.drawing import canvas, verdict_marks

_CELL, _ROW, _LABELS = 0.8, 0.27, 1.7  # inches
_NARROW, _WIDE = 4.0, 9.0  # inches of all cells together
_MOST_ROWS, _MOST_WRITTEN = 60, 12  # rows, and batch sizes whose cells have a number


def select(tables: Tables, _: entries.Figure) -> pandas.DataFrame:
    """Returns a row per series, budget, outcome and batch size; none without any difference."""
    found = tables.comparisons
    found = found[found["budget"] != END] if len(found) else found
    columns = [*run_series.varying(found), *(name for name in COMPARISONS if name in found)]
    found = found[list(dict.fromkeys(columns))].reset_index(drop=True)
    return found if len(found) and found["estimate"].notna().any() else found.iloc[:0]


def draw(frame: pandas.DataFrame, spec: entries.Figure) -> Figure:
    """Returns the figure."""
    sizes = sorted(frame["batch_size"].unique().tolist())
    rows = _rows(frame)
    width = min(max(_CELL * len(sizes), _NARROW), _WIDE)
    figure, grid = canvas.panels(1, 1, _LABELS + width, 0.8 + _ROW * len(rows))
    axes = grid[0, 0]
    place = {"ha": "center", "va": "center", "fontsize": 7.5}
    edge = {"edgecolor": canvas.GRID, "linewidth": 0.6}
    for at, (label, cells) in enumerate(rows):
        if cells is None:
            look = {"va": "center", "fontsize": 8, "fontweight": "bold", "annotation_clip": False}
            look |= {"xycoords": axes.get_yaxis_transform(), "in_layout": False}
            canvas.annotate(axes, label, (0, at + 0.5), (-72 * _LABELS, 0), **look)
            continue
        for cell in cells.to_dict("records"):
            look = verdict_marks.LOOKS[verdict_marks.shown(cell["verdict"], cell["reason"])]
            left = sizes.index(cell["batch_size"])
            axes.add_patch(Rectangle((left, at), 1, 1, facecolor=look.ground, **edge))
            if len(sizes) <= _MOST_WRITTEN:
                # On a colour it stays black, whatever a page makes of ink.
                ink = canvas.INK if look.ground == canvas.PAPER else "#000000"
                axes.text(left + 0.5, at + 0.5, _number(cell), color=ink, **place)
    axes.set(xlim=(0, len(sizes)), ylim=(len(rows), 0), xlabel="batch size", title=spec.title)
    labels = ["" if cells is None else label for label, cells in rows]
    axes.set_yticks([at + 0.5 for at in range(len(rows))], labels, fontsize=8)
    axes.set_xticks([at + 0.5 for at in range(len(sizes))], [str(size) for size in sizes])
    axes.tick_params(length=0)
    axes.grid(visible=False)
    axes.spines[:].set_visible(False)
    shown = {*map(verdict_marks.shown, frame["verdict"], frame["reason"])}
    alike: dict[str, list[str]] = {}  # ground -> the words of all verdicts that have it
    for name, look in verdict_marks.LOOKS.items():
        if name in shown:
            alike.setdefault(look.ground, []).append(look.label)
    patches = [Patch(facecolor=ground, edgecolor=canvas.GRID) for ground in alike]
    canvas.legend(figure, [*zip(patches, map(", ".join, alike.values()), strict=True)])
    return figure


def _rows(frame: pandas.DataFrame) -> list[tuple[str, pandas.DataFrame | None]]:
    """Returns label and cells of each row with a value; one that heads a series has none."""
    found: list[tuple[str, pandas.DataFrame | None]] = []
    for group in best_learning_rates.series(frame):
        found += [(wording.capital(group.label), None)] if group.label else []
        for (budget, outcome), cells in group.frame.groupby(["budget", "outcome"], sort=False):
            if cells["estimate"].notna().any():
                value = float(cells["budget_value"].iloc[0])
                known = "" if math.isnan(value) else f" {wording.number(value)}"
                unit = " s" if budget == SECONDS else ""
                found.append((f"{budget}{known}{unit}: {outcome.replace('_', ' ')}", cells))
    return found[:_MOST_ROWS]


def _number(cell: dict[str, Any]) -> str:
    """Returns a cell's difference from the best of the others; of a target the ratio."""
    value = cell["estimate"]
    if math.isnan(value):
        return ""
    if cell["outcome"] in TAKEN:
        return f"\N{MULTIPLICATION SIGN}{wording.number(value)}"
    accuracy = cell["outcome"].endswith("accuracy")
    text = wording.fixed(100 * value, 1) if accuracy else wording.number(value, 2)
    return f"{'+' * (value > 0)}{text}"
