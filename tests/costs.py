"""The quick part of a parameter's values, and what of a simulation is run when."""

from collections.abc import Iterable

import pytest


def draws(count: int) -> pytest.MarkDecorator:
    """Simulate a rate, as `slow`, with as many draws as distinguish it."""
    return pytest.mark.parametrize("draws", [pytest.param(count, marks=pytest.mark.slow)])


def first(values: Iterable[object]) -> list[object]:
    """Return the values of a parameter; all but the first are `slow`."""
    quick, *others = values
    return [quick, *(pytest.param(value, marks=pytest.mark.slow) for value in others)]
