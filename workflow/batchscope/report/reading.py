"""How to read a figure, made from what is drawn: nothing is explained that is not there."""

from __future__ import annotations

import re

from batchscope import wording
from batchscope.analysis import best_learning_rates
from batchscope.report.content import Figure

LOGARITHMIC = "logarithmic axis: "

_OTHER_PANEL = re.compile("(Middle|Right):")
_SENTENCES = re.compile(r"(?<=[.:]) (?=[A-Z])")
# Words of a caption's sentence -> those of the figure itself without which it is left out.
_ONLY_WITH: tuple[tuple[str, str], ...] = (
    (r"\bwhere a run diverged", r"\bdiv(erged|\.)"),
    (r"^Thin lines are single runs\.", r"\bThin:\s+every\b"),
    (r"\bis the ceiling\b|\bceilings that agree\b", r"\bceiling"),
    (r"\bdashed line is 90 %|\bthe knee is a ring\b", r"\bplateau|\bknee"),
    (r"\bnoise scale, where it is measured\b", r"\bnoise scale"),
    (
        r"\bshaded row of panels\b|\bin a shaded panel of\b|\bdocument's numbers are known\b",
        r"\bas published",
    ),
    (r"^(On a )?GPU\b|^Energy\b|\bfor a GPU without\b", r"\bGPU"),
    (r"^Times are examples over\b", r"\btime \(s\)"),
    (r"^Open markers\b", r"\bdisturbed|\bother processes"),
    (r"\bhatched, with a cross\b", r"\banother is better"),
    (r"\bwith a hollow circle\b", r"\bnot resolved"),
    (r"\bedge of those tried\b", "\N{DAGGER}"),
    (r"^Middle: epochs until\b|^Right: total training\b", r"\bTotal training time"),
    (r"\blower bound: hollow\b", r"\blower bounds\b"),
    (r"^On a logarithmic axis\b", rf"^{LOGARITHMIC}.*loss\b"),
    (r"^On logarithmic axes\b", rf"^{LOGARITHMIC}time per step\b"),
    (r"^Shades after\b", r"\bperfect scaling|\bmaximal data"),
)
_AT_BEST = (
    "Where the finding gives each batch size at its best learning rate, numbers on test data are "
    "those at the rate with the lowest mean validation loss, where that is known. Any other number "
    "chooses rates itself: every seed is read at the rate that the other seeds choose, so that "
    "none flatters itself. Where they choose different ones the intervals are wider, for seeds are "
    "then no independent samples."
)


def caption(figure: Figure) -> str:
    """Returns a figure's caption without what it does not show, and its logarithmic axes.

    All of it where nobody noted the figure's words.
    """
    chosen = [_AT_BEST] if best_learning_rates.AT_BEST in figure.found else []
    if not figure.texts:
        return " ".join(filter(None, [figure.caption, *chosen]))
    drawn = "\n".join(figure.texts)
    kept = [
        sentence
        for sentence in _SENTENCES.split(figure.caption)
        if all(
            re.search(own, drawn, re.IGNORECASE | re.MULTILINE)
            for about, own in _ONLY_WITH
            if re.search(about, sentence)
        )
    ]
    if not any(_OTHER_PANEL.match(sentence) for sentence in kept):
        # One panel alone is at no side.
        kept = [wording.capital(sentence.removeprefix("Left:").strip()) for sentence in kept]
    return " ".join(filter(None, [*kept, _logarithmic(figure.texts), *chosen]))


def _logarithmic(texts: tuple[str, ...]) -> str:
    """Returns which axes are logarithmic, of the words of a figure; empty without any."""
    names = [text.removeprefix(LOGARITHMIC) for text in texts if text.startswith(LOGARITHMIC)]
    return f"Logarithmic scale: {wording.listed(names)}." if names else ""
