"""Steps that are run untimed after a change of batch size."""

from __future__ import annotations

from collections.abc import Callable

# More than the batches that a pipeline keeps ready, which cost the steps that take them nothing.
STEPS = 3
# A step that takes longer has filled its memory and found its functions by itself: the second
# after a change of batch size takes as long as the later ones.
ENOUGH_SECONDS = 0.25


def run(run_steps: Callable[[int], float], seconds: float = ENOUGH_SECONDS) -> None:
    """Runs the steps of a lead-in: up to `STEPS`, but none after so many seconds.

    Args:
        run_steps: Runs so many steps; returns the seconds that they took.
        seconds: What is enough; infinite where every step of a lead-in counts.
    """
    spent = 0.0
    for _ in range(STEPS):
        if spent < seconds:
            spent += run_steps(1)
