"""How much of a gradient's norm is left when b examples are averaged, by place in training."""

from __future__ import annotations

import numpy as np
import pandas
from matplotlib.figure import Figure

from batchscope import wording
from batchscope.figures import rows
from batchscope.figures.drawing import canvas
from batchscope.study import specifications

_PLACES = {"start": "Start", "middle": "Middle", "end": "End"}
_MOST_ROWS = 6  # series
_RANDOM = ({"color": canvas.MUTED, "linewidth": 0.7}, "the same gradients with random signs")
_DOTS = {"marker": "o", "markersize": 4, **canvas.EDGED}


def draw(frame: pandas.DataFrame, spec: specifications.Figure) -> Figure:
    """Returns the figure: a row per series, a panel per place, smallest and largest batch size."""
    (panel,), known = rows.panels(frame, spec), rows.finished(frame)
    groups, more = canvas.first(canvas.present(frame), _MOST_ROWS)
    looks = canvas.size_styles(known["batch_size"].unique())
    looks = {size: looks[size] for size in (min(looks), max(looks))}
    places = [place for place in _PLACES if (known["place"] == place).any()]
    count, alike = len(groups) * len(places), {"sharex": True, "sharey": True}
    figure, grid = canvas.panels(count, len(places), **alike)
    first = grid[0]
    first.set_xscale("log", base=2)
    first.set_yscale("log")
    grid = grid.reshape(len(groups), len(places))
    for line, group in zip(grid, groups, strict=True):
        for axes, place in zip(line, places, strict=True):
            own = rows.finished(group.frame)
            own = own[own["batch_size"].isin([*looks]) & own["place"].eq(place)]
            for size, chosen in own.groupby("batch_size"):
                table, look = chosen.pivot_table(panel.column, "examples", "seed"), looks[size]
                canvas.curve(axes, table, {**_DOTS, **look})
                alone = chosen.groupby("examples")["independent"].mean()
                axes.plot(alone.index, alone, linewidth=0.7, **{**look, "zorder": 1})
            canvas.title(axes, wording.titled(_PLACES[place], group.label))
        line[0].set_ylabel(panel.label)
    for axes in grid[-1]:
        axes.set_xlabel("examples b in a mean gradient")
    examples = sorted(known["examples"].dropna().astype(int).unique().tolist())
    shown = canvas.spread(examples)
    first.set_xticks(shown, map(wording.tick, shown))
    first.minorticks_off()
    values = known[[panel.column, "independent"]].to_numpy(float)
    low = np.nanmin(values[values > 0])
    first.set_ylim(low / 1.15, 1.3)
    canvas.few_log_labels(first.yaxis, 1 / low)
    lines = [({"color": look["color"]}, f"batch size {size}") for size, look in looks.items()]
    canvas.legend(figure, [*lines, _RANDOM])
    canvas.notes(figure, rows.runs(frame), more)
    return figure
