"""The two kinds of experiment: the factors that each may have, and those that it must be given."""

from __future__ import annotations

from dataclasses import dataclass

from batchscope import names, sweeps
from batchscope.parameters import Parameter


@dataclass(frozen=True)
class Kind:
    """What an experiment is made of: trainings, or times.

    Attributes:
        factors: Factors that it may have.
        core: Those that it must be given.
        known: Those that are listed to whoever misspells one: a seed is given in a key of its own.
        why_not: What is said of a factor of the other kind.
    """

    factors: dict[str, Parameter]
    core: tuple[str, ...]
    known: tuple[str, ...]
    why_not: str


_OF_RUNS = tuple(name for name in names.FACTORS if name != "seed")

TRAINING = Kind(
    names.FACTORS,
    tuple(name for name in _OF_RUNS if names.FACTORS[name].core),
    _OF_RUNS,
    "received in an experiment that trains; it is expected beside `timing` alone: a training is "
    "always the loop in the graph.",
)
TIMING = Kind(
    sweeps.FACTORS,
    sweeps.CORE,
    tuple(sweeps.FACTORS),
    "received in an experiment of times, which do not depend on it; one of "
    f"{', '.join(sweeps.FACTORS)} is expected.",
)
# What `defaults` may hold; of these an experiment takes the factors of its own kind.
EITHER = Kind({**names.FACTORS, **sweeps.FACTORS}, (), _OF_RUNS, "")
