"""How far the trainings of an experiment go, as far as its grid tells."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Any

from batchscope.catalogue import run_factors


def shortest(
    column: str, trainings: Iterable[dict[str, Any]], training_sizes: Mapping[str, int | None]
) -> int | None:
    """Returns what the shortest training takes to its horizon; None where nobody knows.

    A training may also stop before its horizon, which nobody knows beforehand.

    Args:
        column: Of trajectories.csv.
        training_sizes: Data set -> training examples, None where only the files know.
    """
    ends = [_end(column, one, training_sizes.get(one["dataset"])) for one in trainings]
    return min((end for end in ends if end is not None), default=None)


def _end(column: str, factors: dict[str, Any], size: int | None) -> int | None:
    epochs = factors["epochs"]
    if column == "epoch":
        return epochs
    if size is None or column not in ("updates", "examples"):
        return None
    examples = size * run_factors.training_copies(factors)
    updates = math.ceil(examples / factors["batch_size"])
    return epochs * (examples if column == "examples" else updates)
