"""How verdicts on a margin look, the same in every figure that has them."""

from __future__ import annotations

from typing import Any, NamedTuple

from batchscope.catalogue.outcomes import Reason, Verdict
from batchscope.figures.drawing import canvas


class Look(NamedTuple):
    """How a verdict, or the reason where there is none, is drawn, and its words in a legend."""

    marker: str
    filled: bool
    colour: str  # of a marker
    ground: str  # of a cell
    label: str


_GREY = "#ededed"
LOOKS: dict[str, Look] = {
    Verdict.WITHIN: Look("o", True, "#0072B2", "#bfe0f2", "within the margin"),
    Verdict.NOT_RESOLVED: Look("o", False, canvas.INK, canvas.PAPER, "not resolved"),
    Verdict.BEYOND: Look("X", True, "#D55E00", "#f4b183", "beyond the margin"),
    Reason.FAILED: Look("x", True, canvas.FAILED_COLOUR, _GREY, "a run failed, or never got there"),
    Verdict.PROVISIONAL: Look(".", True, canvas.INK, canvas.PAPER, "provisional: few seeds"),
    Verdict.ONE_SEED: Look(".", False, canvas.INK, canvas.PAPER, "one seed"),
    Reason.ALONE: Look("s", False, canvas.MUTED, _GREY, "no other to compare it with"),
    Reason.NO_VALUE: Look("_", True, canvas.MUTED, _GREY, "no value"),
}


def shown(verdict: str, reason: str) -> str:
    """Returns what is drawn of a cell: its verdict, or why it has none."""
    if verdict != Verdict.NOT_TESTABLE:
        return verdict
    return reason if reason in (Reason.ALONE, Reason.NO_VALUE) else Reason.FAILED


def style(verdict: str) -> dict[str, Any]:
    """Returns how what is `shown` is drawn, as arguments of a line without a line."""
    look = LOOKS[verdict]
    fill = look.colour if look.filled else canvas.PAPER
    marker = {"marker": look.marker, "markeredgecolor": look.colour, "markerfacecolor": fill}
    return {"linestyle": "none", "markersize": 7, "markeredgewidth": 1.2, **marker}
