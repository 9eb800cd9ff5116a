"""A document's numbers as points in a figure of ours: hollow stars at its batch sizes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import pandas
from matplotlib.axes import Axes

from batchscope.analysis.run_series import Series
from batchscope.figures.drawing import canvas
from batchscope.tables import published

_STAR = {"marker": "*", "markersize": 9, "markerfacecolor": canvas.PAPER, "markeredgewidth": 0.9}
_STAR |= {"linewidth": 0.7, "zorder": 5}


class Line(NamedTuple):
    """A series of a document: the place of our line of the same factors, sizes and values."""

    place: int | None  # None where several of ours are of its factors
    sizes: pandas.Series
    values: pandas.Series


def lines(numbers: pandas.DataFrame, column: str, ours: Sequence[Series]) -> Iterator[Line]:
    """Yields the series with numbers of a column; not those whose factors none of ours has."""
    shown = numbers["column"].map(lambda name: column in published.OF_MACHINE.get(name, (name,)))
    for _, rows in numbers[shown.astype(bool)].groupby("series", sort=False, dropna=False):
        factors = published.factors_of(rows.iloc[0])
        same = [
            place
            for place, line in enumerate(ours)
            if all(line.factors[name] == factors[name] for name in factors if name in line.factors)
        ]
        if same:
            rows = rows.sort_values("batch_size").astype({"value": float})
            yield Line(same[0] if len(same) == 1 else None, rows["batch_size"], rows["value"])


def draw(axes: Axes, at: Any, values: Any, look: dict[str, Any] | None) -> None:
    """Draws a series in the tone and the stroke of the line of ours that it belongs to, if any."""
    tone = {"color": canvas.INK, "linestyle": "none"}
    if look and len(values) > 2:
        tone |= {"color": look["color"], "linestyle": look["linestyle"]}
    axes.plot(at, values, **{**_STAR, **tone})


def entries(numbers: pandas.DataFrame | None) -> list[tuple[dict[str, Any], str]]:
    """Returns the entry of a legend, where there are numbers: where in the document they stand."""
    if numbers is None:
        return []
    look = {**_STAR, "color": canvas.INK, "linestyle": "none"}
    return [(look, f"document, {numbers['document'].iloc[0]}")]
