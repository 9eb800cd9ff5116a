"""Where a training's rate depends on its horizon, so that a prefix of it is no shorter training.

With a constant rate the weights after epoch 2 of 5 are those of a training of 2 epochs, and one
training serves every budget up to its own. With a schedule that falls towards the horizon they are
not: what is read before the end understates a training that was meant to end there (Shallue et al.
2019, arXiv 1811.03600; Hoffmann et al. 2022, arXiv 2203.15556).
"""

from __future__ import annotations

from typing import Any

CONSTANT = "constant"
FALLING = ("cosine", "linear")
REASON = "whose rate falls towards the horizon: before its end a training is no shorter training"


def falling(factors: dict[str, Any]) -> bool:
    """Returns whether a run's rate depends on its horizon."""
    return factors["schedule"] != CONSTANT
