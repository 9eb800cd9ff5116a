"""Steps that are run untimed after a change of batch size."""

from __future__ import annotations

from collections.abc import Callable

# More than the batches that a pipeline keeps ready, which cost the steps that take them nothing.
STEPS = 3
# A step that takes longer has filled its memory and found its functions by itself: the second
# after a change of batch size takes as long as the later ones.
ENOUGH_SECONDS = 0.25


def run(run_steps: Callable[[int], float], seconds: float = ENOUGH_SECONDS, unit: int = 1) -> None:
    """Runs the steps of a lead-in: `STEPS` or a few more, but none after so many seconds.

    Args:
        seconds: What is enough; infinite where every step of a lead-in counts.
    """
    done, spent = 0, 0.0
    while done < STEPS and spent < seconds:
        spent += run_steps(unit)
        done += unit
