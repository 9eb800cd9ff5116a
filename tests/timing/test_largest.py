"""The search for the largest batch that fits, and memory per example."""

from __future__ import annotations

import math

import numpy as np
import pytest

from batchscope.timing.largest import search
from batchscope.timing.largest.search import Try


class Machine:
    """Fits up to a size; remembers what it was asked."""

    def __init__(self, most: int, outcome: str = search.OVER_LIMIT) -> None:
        self.most, self.outcome = most, outcome
        self.asked: list[int] = []

    def __call__(self, size: int) -> Try:
        self.asked.append(size)
        return Try(size, search.FITS if size <= self.most else self.outcome)


@pytest.mark.parametrize(("start", "step"), [(1, 1), (3, 1), (1, 2), (4, 4), (5, 3)])
def test_the_exact_largest_is_found(start, step):
    for most in range(200):
        machine = Machine(most)
        found = search.search(machine, start, step=step, resolution=0)
        sizes = range(start, most + 1, step)
        assert found.largest == (sizes[-1] if sizes else 0)
        assert found.refused == (sizes[-1] + step if sizes else start)
        assert found.stopped == ("resolved" if sizes else "nothing_fits")
        assert [entry.batch_size for entry in found.tries] == machine.asked
        assert len(set(machine.asked)) == len(machine.asked) <= 2 * math.log2(most + 2) + 2


def test_doubling_then_halving():
    machine = Machine(21)
    assert search.search(machine, resolution=0).largest == 21
    assert machine.asked == [1, 2, 4, 8, 16, 32, 24, 20, 22, 21]


def test_the_search_ends_at_its_resolution():
    for most in (5, 31, 32, 33, 100, 1000, 123_456):
        for resolution in (1 / 32, 0.5):
            found = search.search(Machine(most), resolution=resolution)
            assert found.largest <= most < found.refused
            assert found.refused - found.largest <= max(1, found.largest * resolution)
    machine = Machine(123_456)
    search.search(machine)
    assert len(machine.asked) == 18 + 5  # up to 2^17, then five halvings for a 32nd


@pytest.mark.parametrize("most", [1, 2, 7, 8, 9, 100])
def test_the_largest_size_that_may_be_tried(most):
    machine = Machine(10**9)
    found = search.search(machine, most=most)
    assert (found.largest, found.refused, found.stopped) == (most, None, "most_fits")
    assert max(machine.asked) == most
    # One below the bound is found too.
    assert search.search(Machine(most - 1), most=most, resolution=0).largest == most - 1
    assert search.search(Machine(10**9), 2, most=most + 2, step=3).largest <= most + 2


@pytest.mark.parametrize("outcome", [search.OUT_OF_MEMORY, search.OVER_LIMIT, search.KILLED])
def test_every_way_not_to_fit_counts(outcome):
    found = search.search(Machine(11, outcome), resolution=0)
    assert found.largest == 11
    assert {entry.outcome for entry in found.tries} == {"fits", outcome}
    nothing = search.search(Machine(0, outcome))
    assert (nothing.largest, nothing.stopped, len(nothing.tries)) == (0, "nothing_fits", 1)


def test_a_failure_ends_the_search():
    found = search.search(Machine(10, search.FAILED))
    assert (found.largest, found.refused, found.stopped) == (8, None, "failed")
    assert [entry.outcome for entry in found.tries] == ["fits"] * 4 + ["failed"]


def test_answers_that_are_not_monotone_end_too():
    for seed in range(200):
        random = np.random.default_rng(seed)

        def fits(size: int, random: np.random.Generator = random) -> Try:
            return Try(size, search.FITS if random.random() < 0.7 else search.KILLED)

        found = search.search(fits, most=10**6, resolution=0)
        assert len(found.tries) < 50
        outcomes = {entry.batch_size: entry.outcome for entry in found.tries}
        assert outcomes.get(found.largest, "fits") == "fits"
        assert outcomes.get(found.refused, "killed") == "killed"


@pytest.mark.parametrize(
    "options", [{"start": 0}, {"step": 0}, {"start": 8, "most": 7}, {"resolution": -0.1}]
)
def test_arguments_out_of_range(options):
    with pytest.raises(ValueError, match=r"search: received .*expected"):
        search.search(Machine(5), **options)
