"""What work costs, as a number that no machine changes; and what of a simulation is run when."""

from __future__ import annotations

import cProfile
from collections.abc import Callable

import pytest


def calls(work: Callable[..., object], *arguments: object, **options: object) -> tuple:
    """Returns what work returns, and how many functions it calls, other libraries' included."""
    profile = cProfile.Profile()
    returned = profile.runcall(work, *arguments, **options)
    return returned, sum(entry.callcount for entry in profile.getstats())


def draws(few: int, many: int) -> pytest.MarkDecorator:
    """Runs a simulated rate with few draws, and as `slow` with as many as tell it apart."""
    return pytest.mark.parametrize("draws", [few, pytest.param(many, marks=pytest.mark.slow)])
