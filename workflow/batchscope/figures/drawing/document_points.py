"""Published values of a document as hollow stars at its batch sizes."""

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
    """Published values of a series, with the index of our series that has the same factors."""

    place: int | None  # None if several of ours have them
    sizes: pandas.Series
    values: pandas.Series


def lines(numbers: pandas.DataFrame, column: str, ours: Sequence[Series]) -> Iterator[Line]:
    """Yield the published series of a column whose factors one of ours has."""
    shown = numbers["column"].map(lambda name: column in published.OF_MACHINE.get(name, (name,)))
    for _, rows in numbers[shown.astype(bool)].groupby("series", sort=False, dropna=False):
        factors = published.factors_of(rows.iloc[0]).items()
        same = [
            place
            for place, line in enumerate(ours)
            if all(line.factors.get(name, value) == value for name, value in factors)
        ]
        if same:
            rows = rows.sort_values("batch_size").astype({"value": float})
            yield Line(same[0] if len(same) == 1 else None, rows["batch_size"], rows["value"])


def draw(axes: Axes, at: Any, values: Any, look: dict[str, Any] | None) -> None:
    """Draw a series with the colour and line style of ours, if there is one."""
    style = {"color": canvas.INK, "linestyle": "none"}
    if look and len(values) > 2:
        style = {"color": look["color"], "linestyle": look["linestyle"]}
    axes.plot(at, values, **_STAR, **style)


def entries(numbers: pandas.DataFrame | None) -> list[tuple[dict[str, Any], str]]:
    """Return the entry of a legend if there are published values."""
    if numbers is None:
        return []
    look = {**_STAR, "color": canvas.INK, "linestyle": "none"}
    return [(look, f"document, {numbers['document'].iloc[0]}")]
