"""What work costs, as a number that no machine changes; and what of a simulation is run when."""

import cProfile
from collections.abc import Callable, Iterable

import pytest


def calls(work: Callable[..., object], *arguments: object, **options: object) -> tuple:
    """Returns what work returns, and how many functions it calls, other libraries' included."""
    profile = cProfile.Profile()
    returned = profile.runcall(work, *arguments, **options)
    return returned, sum(entry.callcount for entry in profile.getstats())


def draws(count: int) -> pytest.MarkDecorator:
    """Simulates a rate, as `slow`, with as many draws as distinguish it."""
    return pytest.mark.parametrize("draws", [pytest.param(count, marks=pytest.mark.slow)])


def first(values: Iterable[object]) -> list[object]:
    """Returns the values of a parameter, of which the first is quick and the others `slow`."""
    quick, *others = values
    return [quick, *(pytest.param(value, marks=pytest.mark.slow) for value in others)]
