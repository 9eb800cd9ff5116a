"""Seeds that a paired comparison needs: known answers, and simulation."""

import math

import numpy as np
import pytest
from scipy import stats

from batchscope.analysis import power

RATIOS = (0.5, 0.8, 1, 1.25, 1.5, 2)


@pytest.mark.parametrize(
    ("of_test", "expected"),
    [
        (power.difference_power, [27, 12, 8, 6, 5, 4]),
        (power.equivalence_power, [36, 15, 11, 8, 6, 4]),
    ],
)
def test_seeds_of_a_difference_and_of_equivalence(of_test, expected):
    assert [power.fewest_seeds(of_test, ratio) for ratio in RATIOS] == expected


@pytest.mark.parametrize(("seeds", "margin"), [(3, 2.0), (6, 1.5), (11, 1.0), (36, 0.5)])
def test_power_of_equivalence_by_simulation(seeds, margin):
    draws = np.random.default_rng(1).normal(size=(40_000, seeds))
    half = stats.t.ppf(0.95, seeds - 1) * draws.std(axis=1, ddof=1) / math.sqrt(seeds)
    shown = np.abs(draws.mean(axis=1)) + half < margin
    assert power.equivalence_power(seeds, margin, 0.05) == pytest.approx(shown.mean(), abs=0.01)
