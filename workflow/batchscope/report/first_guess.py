"""The first guess that `init` made before a study, compared with the recommendation."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import pandas

from batchscope.report import page

if TYPE_CHECKING:
    from batchscope.study.plan import Study


def line(study: Study, cards: Iterable[dict[str, Any]]) -> str:
    """Return a study's guess, and how far it was off; nothing without a guess.

    Batch size and rate of the first recommendation are given as multiples of the guess.
    """
    if study.guess is None:
        return ""
    best = next((card["best"] for card in cards if card["best"]), {})
    known = [name for name in ("batch_size", "learning_rate") if pandas.notna(best.get(name))]
    ratios = {name: float(best[name]) / getattr(study.guess, name) for name in known}
    return page.render("guess.txt.j2", guess=study.guess, ratios=ratios).strip()
