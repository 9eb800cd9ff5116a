"""Pairs of runs that a measure sets against each other, as an experiment's `between` says."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from batchscope.catalogue import parameters, run_factors
from batchscope.problems import Place, Problem, missing, received, unknown

# Both runs of a pair start from the same weights: these fix what the weights are.
_FIXED = ("dataset", "model", "seed")
PAIRED = tuple(name for name in run_factors.FACTORS if name not in _FIXED)
EXPECTED = "a map from one factor to two values (small run, large run)"

Pair = tuple[str, str]
Coerce = Callable[[str, Place, Any], Any]


@dataclass(frozen=True)
class Between:
    """The factor in which the two runs of a pair differ.

    Attributes:
        small: Its value in the first run, at position 0 of a line.
        large: Its value in the second run, at position 1.
    """

    place: Place
    factor: str
    small: Any
    large: Any


def read(place: Place, raw: Any, coerce: Coerce) -> Between | Problem:
    """Returns what `between` says, or what is wrong with it.

    Args:
        raw: As the file has it; None where it is missing.
        coerce: (factor, place, raw value) -> value; None for a value that is reported.
    """
    if raw is None:
        return missing(place, EXPECTED)
    if not isinstance(raw, dict) or len(raw) != 1:
        return received(place, raw, EXPECTED)
    factor, values = next(iter(raw.items()))
    at = (*place, factor)
    if factor in _FIXED:
        text = f"received '{factor}', which changes the initial weights; another factor is"
        return Problem(at, f"{text} expected: both runs start from the same weights.")
    if factor not in PAIRED:
        return unknown(at, "factor", PAIRED, parameters.aliases(run_factors.FACTORS))
    if not isinstance(values, list) or len(values) != 2:
        return received(at, values, "a list of two values (small run, large run)")
    small, large = (coerce(factor, (*at, index), value) for index, value in enumerate(values))
    if small == large and small is not None:
        return Problem(at, "received the same value twice; two values are expected.")
    return Between(place, factor, small, large)


def find(between: Between, runs: dict[str, dict[str, Any]]) -> tuple[Pair, ...]:
    """Returns the pairs among some runs, by name: alike in every factor but the one."""
    small: dict[tuple[Any, ...], str] = {}
    large: dict[tuple[Any, ...], str] = {}
    for name, factors in runs.items():
        rest = tuple(value for key, value in factors.items() if key != between.factor)
        if factors[between.factor] == between.small:
            small[rest] = name
        elif factors[between.factor] == between.large:
            large[rest] = name
    return tuple((name, large[rest]) for rest, name in small.items() if rest in large)


def none_found(between: Between) -> Problem:
    """Returns the problem of an experiment without a single pair."""
    text = f"received {between.factor} {between.small} and {between.large}; two runs of this "
    return Problem(between.place, f"{text}experiment that differ in nothing else are expected.")
