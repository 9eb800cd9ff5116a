"""Settings and columns that several measures or timings have."""

from __future__ import annotations

from batchscope.catalogue.entries import Integer, Text
from batchscope.catalogue.parameters import Parameter

WEIGHTS = Parameter(
    "weights", "w", "str", "final", "Which weights to measure.", choices=("final", "best")
)
REPEAT = "repeat"  # the column that numbers the timing jobs of a configuration
WHICH = Integer("Which of the timing jobs of its configuration, from 1 on.")
STATUS = Text(
    "finished, diverged, out_of_memory; or no_gpu where no GPU is within reach, or no_cores where "
    "it asks for more threads than there are cores, and the rest of the row is empty."
)
DISTURBED_BLOCKS = Integer(
    "Those during which other processes took more than 0.2 cores.", adds_up=True
)


def examples(default: int, doc: str = "Training examples behind the loss") -> Parameter:
    """Returns the setting for how many examples a measure is of."""
    doc, all_of_them = f"{doc}; 0 or `all` for all of them.", (("all", 0),)
    return Parameter(
        "examples", "ex", "int", default, doc, "examples", minimum=0, words=all_of_them
    )


def epoch(otherwise: str) -> Parameter:
    doc = f"Epoch after which to measure, given by `at_epochs`; 0 for {otherwise}."
    return Parameter("epoch", "at", "int", 0, doc, minimum=0)
