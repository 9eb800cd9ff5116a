"""Settings that several measures have."""

from __future__ import annotations

from batchscope.catalogue.parameters import Parameter

WEIGHTS = Parameter.choice("weights", "w", "Which weights to measure.", "final", "best")
BATCH_NORM = Parameter.choice(
    "batch_norm", "bn", "Statistics that batch normalisation uses.", *("moving", "batch")
)


def examples(birth: int, doc: str = "Training examples behind the loss") -> Parameter:
    """Returns the setting for how many examples a measure is of."""
    return Parameter(
        "examples",
        "ex",
        "int",
        birth,
        f"{doc}; 0 or `all` for all of them.",
        "examples",
        minimum=0,
        words=(("all", 0),),
    )


def epoch(otherwise: str) -> Parameter:
    """Returns the setting for the epoch after which a measure is taken, which `at_epochs` gives.

    Args:
        otherwise: What is measured where it is 0.
    """
    return Parameter(
        "epoch",
        "at",
        "int",
        0,
        f"Epoch after which to measure, given by `at_epochs`; 0 for {otherwise}.",
        minimum=0,
    )
