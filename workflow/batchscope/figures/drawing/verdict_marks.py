"""Marks of verdicts on a margin: each looks the same in every figure that has them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from matplotlib.lines import Line2D

from batchscope.analysis import largest_within_margin
from batchscope.figures.drawing import canvas

_BAD = (largest_within_margin.BEYOND, largest_within_margin.FAILED)
# Verdict -> marker, and whether it is filled; in the order of a legend.
_MARKERS = {
    largest_within_margin.WITHIN: ("o", True),
    largest_within_margin.NOT_RESOLVED: ("o", False),
    largest_within_margin.BEYOND: ("X", True),
    largest_within_margin.FAILED: ("x", True),
    largest_within_margin.FEW_SEEDS: (".", True),
    largest_within_margin.ALONE: ("s", False),
    largest_within_margin.NO_VALUE: ("_", True),
}


def look(verdict: str) -> dict[str, Any]:
    """Returns how a verdict is drawn, as arguments of a line without a line."""
    marker, filled = _MARKERS[verdict]
    colour = canvas.FAILED_COLOUR if verdict in _BAD else canvas.COLOURS[0]
    return {
        "linestyle": "none",
        "marker": marker,
        "markersize": 7,
        "color": colour,
        "markerfacecolor": colour if filled else "white",
        "markeredgewidth": 1.4 if not filled or marker == "x" else 0.5,
    }


def legend(verdicts: Iterable[str], words: dict[str, str]) -> tuple[list[Line2D], list[str]]:
    """Returns handles and words of those verdicts that are shown and have a marker."""
    shown = [verdict for verdict in _MARKERS if verdict in set(verdicts)]
    return [Line2D([], [], **look(each)) for each in shown], [words[each] for each in shown]
