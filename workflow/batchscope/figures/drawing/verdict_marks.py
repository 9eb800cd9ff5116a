"""Marks of verdicts on a margin: each looks the same in every figure that has them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from matplotlib.lines import Line2D

from batchscope.catalogue.outcomes import Reason, Verdict
from batchscope.figures.drawing import canvas

_BAD = (Verdict.BEYOND, Reason.FAILED)
# Verdict, or the reason where there is none -> marker, and whether it is filled; as in a legend.
_MARKERS = {
    Verdict.WITHIN: ("o", True),
    Verdict.NOT_RESOLVED: ("o", False),
    Verdict.BEYOND: ("X", True),
    Reason.FAILED: ("x", True),
    Verdict.PROVISIONAL: (".", True),
    Verdict.ONE_SEED: (".", False),
    Reason.ALONE: ("s", False),
    Reason.NO_VALUE: ("_", True),
}
# The same in words.
WORDS = {
    Verdict.WITHIN: "no other is better by the margin",
    Verdict.NOT_RESOLVED: "not resolved",
    Verdict.BEYOND: "another is better by more than the margin",
    Reason.FAILED: "a run failed, or never got there",
    Verdict.PROVISIONAL: "fewer than 6 seeds: provisional",
    Verdict.ONE_SEED: "one seed",
    Reason.ALONE: "no other to compare it with",
    Reason.NO_VALUE: "no run, none evaluated by then, or not timed",
}


def shown(verdict: str, reason: str) -> str:
    """Returns what is drawn of a cell: its verdict, or why it has none."""
    if verdict != Verdict.NOT_TESTABLE:
        return verdict
    return reason if reason in (Reason.ALONE, Reason.NO_VALUE) else Reason.FAILED


def look(verdict: str) -> dict[str, Any]:
    """Returns how what is `shown` is drawn, as arguments of a line without a line."""
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


def legend(verdicts: Iterable[str]) -> tuple[list[Line2D], list[str]]:
    """Returns handles and words of what is `shown`."""
    drawn = [verdict for verdict in _MARKERS if verdict in {*verdicts}]
    return [Line2D([], [], **look(each)) for each in drawn], [WORDS[each] for each in drawn]
