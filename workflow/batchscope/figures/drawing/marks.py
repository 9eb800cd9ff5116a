"""Which artist is of which run or series, written into the SVG for whoever shows it.

Matplotlib writes an artist's gid as the id of its group. Here each marked artist gets one, and
`written` turns it into what a page reads: `data-run` and `data-value` at every point or line of a
run, `data-series` at what belongs to a series, and `data-legend` at its entry in the legend. A
picture looks the same with and without.
"""

from __future__ import annotations

import contextlib
import math
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any
from xml.sax.saxutils import quoteattr

import pandas
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.legend import Legend

from batchscope import wording
from batchscope.analysis import run_series

_AXES = ("batch_size", "seed")
_GID = "mark-"
_OF_FIGURE = "batchscope_marks"  # attribute of a figure: its marks, by gid


@dataclass
class _Mark:
    """What an artist is of."""

    attributes: dict[str, str] = field(default_factory=dict)  # of its group
    runs: list[tuple[str, str]] = field(default_factory=list)  # and value, of each point in order
    line: bool = False  # of one run, rather than points


def points(artist: Artist, rows: pandas.DataFrame, values: Iterable[float]) -> None:
    """Marks an artist whose points are runs: one row each, with the factors of a figure's table."""
    keys = [key(row) for row in rows[_factors(rows)].to_dict("records")]
    texts = [wording.shortest(float(f"{value:.4g}")) for value in values]
    _mark(artist).runs = list(zip(keys, texts, strict=True))


def line(artist: Artist, rows: pandas.DataFrame) -> None:
    """Marks an artist that is the line of one run.

    Rows without the factor in which a pair of runs differs mark all runs of their seed.
    """
    mark = _mark(artist)
    mark.runs, mark.line = [(key(rows[_factors(rows)].iloc[0].to_dict()), "")], True


@contextlib.contextmanager
def series(axes: Axes, index: int) -> Iterator[None]:
    """Marks all that is drawn within it as of the series with this place in the legend."""
    before = set(axes.get_children())
    yield
    for artist in axes.get_children():
        if artist not in before:
            _mark(artist).attributes["data-series"] = str(index)


def legend(drawn: Legend) -> None:
    """Marks the entries of a legend, in order."""
    entries = zip(drawn.legend_handles, drawn.get_texts(), strict=True)
    for index, (handle, text) in enumerate(entries):
        for artist in (handle, text):
            if artist is not None:
                _mark(artist).attributes["data-legend"] = str(index)


def key(factors: dict[str, Any]) -> str:
    """Returns factors as one text: `learning_rate=0.1 batch_size=16 seed=0`."""
    return " ".join(f"{name}={plain(value)}" for name, value in factors.items() if _known(value))


def plain(value: Any) -> str:
    """Returns a factor's value as it stands in names, without blanks."""
    if isinstance(value, bool) or str(value) in ("True", "False"):
        return str(value).lower()
    if hasattr(value, "item"):
        value = value.item()
    text = wording.shortest(value) if isinstance(value, int | float) else str(value)
    return text.replace(" ", "_")


def _known(value: Any) -> bool:
    return not (value is None or (isinstance(value, float) and math.isnan(value)))


def _factors(rows: pandas.DataFrame) -> list[str]:
    return [*run_series.factor_columns(rows), *(name for name in _AXES if name in rows)]


def _mark(artist: Artist) -> _Mark:
    """Returns an artist's mark, with a new gid where it has none."""
    found: dict[str, _Mark] = vars(artist.get_figure(root=True)).setdefault(_OF_FIGURE, {})
    gid = artist.get_gid()
    if gid not in found:
        gid = f"{_GID}{len(found)}"
        artist.set_gid(gid)
        found[gid] = _Mark()
    return found[gid]


def written(figure: Figure, svg: str) -> str:
    """Returns a figure's SVG with its marks as attributes.

    Points are marked only where each has its `use` element: those outside of the picture have
    none, and then nobody could say which is which.
    """
    found: dict[str, _Mark] = vars(figure).get(_OF_FIGURE, {})
    parts = re.split(rf'(<g id="{_GID}\d+">)', svg)
    for place in range(1, len(parts), 2):
        mark = found[parts[place][7:-2]]
        attributes = dict(mark.attributes)
        if mark.line:
            attributes["data-run"] = mark.runs[0][0]
        markup = "".join(f" {name}={quoteattr(text)}" for name, text in attributes.items())
        parts[place] = f"{parts[place][:-1]}{markup}>"
        if mark.runs and not mark.line:
            parts[place + 1] = _with_runs(parts[place + 1], mark.runs)
    return "".join(parts)


def _with_runs(text: str, runs: list[tuple[str, str]]) -> str:
    """Returns what follows a group's beginning with the runs at the points of that group."""
    end = re.search(r"</g>\s*</g>", text)
    if end is None or text.count("<use ", 0, end.start()) != len(runs):
        return text
    remaining = iter(runs)

    def named(match: re.Match) -> str:
        run, value = next(remaining)
        return f"<use data-run={quoteattr(run)} data-value={quoteattr(value)} "

    return re.sub("<use ", named, text[: end.start()]) + text[end.start() :]
