"""Budgets of claims that the trainings of an experiment never reach, as far as its grid tells."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from batchscope import wording

if TYPE_CHECKING:
    from batchscope.study.claims import Test


def beyond(
    test: Test, cells: Iterable[dict[str, Any]], training_sizes: Mapping[str, int | None]
) -> str:
    """Returns what a test's shortest training has of a budget beyond it; else an empty text.

    A training may also stop before its horizon, which nobody knows beforehand.

    Args:
        test: A test of trajectories.
        cells: The factors of every cell that it reads.
        training_sizes: Data set -> training examples, None where only the files know.
    """
    for budget, values in test.cells.items():
        ends = [
            end
            for cell in cells
            if (end := _end(cell, budget, training_sizes.get(cell["dataset"]))) is not None
        ]
        if ends and (least := min(ends)) < max(values):
            noun = budget.removesuffix("s")
            what = f"{noun} {wording.shortest(max(values))}"
            return f"no {what} in its shortest training of {wording.count(least, noun)}"
    return ""


def _end(cell: dict[str, Any], budget: str, examples: int | None) -> int | None:
    """Returns how much of a budget a training takes to its horizon; None where nobody knows."""
    epochs = cell["epochs"]
    if budget == "epoch":
        return epochs
    if examples is None or budget not in ("updates", "examples"):
        return None
    return epochs * (examples if budget == "examples" else math.ceil(examples / cell["batch_size"]))
