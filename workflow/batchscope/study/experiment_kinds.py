"""The kinds of experiment: the factors that each may have, and those that it must be given."""

from __future__ import annotations

from dataclasses import dataclass

from batchscope.catalogue import run_factors, sweep_names
from batchscope.catalogue.parameters import Parameter


@dataclass(frozen=True)
class Kind:
    """What an experiment is made of: trainings, times, or trainings made elsewhere.

    Attributes:
        factors: Factors that it may have.
        core: Those that it must be given.
        known: Those that are listed to whoever misspells one: a seed is given in a key of its own.
        why_not: What is reported of a factor of another kind.
    """

    factors: dict[str, Parameter]
    core: tuple[str, ...]
    known: tuple[str, ...]
    why_not: str


_OF_RUNS = tuple(name for name in run_factors.FACTORS if name != "seed")

TRAINING = Kind(
    run_factors.FACTORS,
    tuple(name for name in _OF_RUNS if run_factors.FACTORS[name].core),
    _OF_RUNS,
    "received in a training experiment; it is expected beside `timing` alone: a training is "
    "always the loop in the graph.",
)
TIMING = Kind(
    sweep_names.FACTORS,
    sweep_names.CORE,
    tuple(sweep_names.FACTORS),
    "received in a timing experiment, which does not depend on it; one of "
    f"{', '.join(sweep_names.FACTORS)} is expected.",
)
OWN = Kind(
    run_factors.FACTORS,
    (),
    _OF_RUNS,
    "received of trainings that were made elsewhere; a factor of trainings is expected.",
)
# What `defaults` may hold; of these an experiment takes the factors of its own kind.
EITHER = Kind(sweep_names.EVERY_FACTOR, (), _OF_RUNS, "")
