"""How much of a gradient's norm is left when b examples are averaged, by place in training."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import FixedLocator, FuncFormatter, NullLocator

from batchscope import wording
from batchscope.catalogue import entries
from batchscope.figures import rows
from batchscope.figures.drawing import canvas

_PLACES = {"start": "Start", "middle": "Middle", "end": "End"}
_MOST_ROWS = 6  # series


def draw(frame: pandas.DataFrame, spec: entries.Figure) -> Figure:
    """Returns the figure: a row per series, a panel per place, smallest and largest batch size."""
    (panel,) = rows.panels(frame, spec)
    (groups, more), known = canvas.first(frame, _MOST_ROWS), rows.finished(frame)
    looks = canvas.size_styles(known["batch_size"].unique())
    ends = dict.fromkeys([min(looks), max(looks)])
    places = [place for place in _PLACES if (known["place"] == place).any()]
    alike = {"sharex": True, "sharey": True}
    figure, grid = canvas.panels(len(groups), len(places), **alike)
    grid[0, 0].set_xscale("log", base=2)
    grid[0, 0].set_yscale("log")
    for line, group in zip(grid, groups, strict=True):
        own = rows.finished(group.frame)
        own = own[own["batch_size"].isin([*ends])]
        for axes, place in zip(line, places, strict=True):
            _draw_panel(axes, own[own["place"] == place], panel.column, looks)
            canvas.title(axes, wording.titled(_PLACES[place], group.label))
        line[0].set_ylabel(panel.label)
    for axes in grid[-1]:
        axes.set_xlabel("examples b in a mean gradient")
    first, values = grid[0, 0], known[[panel.column, "independent"]].to_numpy(float)
    examples = sorted(known["examples"].dropna().astype(int).unique().tolist())
    first.xaxis.set_major_locator(FixedLocator(canvas.spread(examples)))
    first.xaxis.set_minor_locator(NullLocator())
    first.xaxis.set_major_formatter(FuncFormatter(lambda value, _: wording.tick(value)))
    low = np.nanmin(values[values > 0])
    first.set_ylim(low / 1.15, 1.3)
    canvas.few_log_labels(first.yaxis, 1 / low)
    lines = [(Line2D([], [], color=looks[end]["color"]), f"batch size {end}") for end in ends]
    random = Line2D([], [], color=canvas.MUTED, linewidth=0.7)
    canvas.legend(figure, [*lines, (random, "the same gradients with random signs")])
    canvas.notes(figure, rows.runs(frame), more)
    return figure


def _draw_panel(
    axes: Axes, own: pandas.DataFrame, column: str, looks: dict[int, dict[str, Any]]
) -> None:
    """Draws the mean ratio of each batch size, with its t-interval over seeds."""
    for size, chosen in own.groupby("batch_size"):
        table, look = chosen.pivot_table(column, "examples", "seed"), looks[int(size)]
        dots = {"marker": "o", "markersize": 4, **canvas.EDGED}
        canvas.curve(axes, table.index.to_numpy(float), table.to_numpy(float), {**dots, **look})
        alone = chosen.groupby("examples")["independent"].mean()
        axes.plot(alone.index, alone, linewidth=0.7, **{**look, "zorder": 1})
