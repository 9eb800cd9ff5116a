"""The fastest batch size against its closed form, a search, and draws."""

import math

import numpy as np
import pytest

from batchscope.analysis import critical_batch_size, step_cost
from batchscope.analysis.fastest_batch_size import (
    fastest,
    log_error,
    measured_fastest,
    seconds_to_target,
)

CONSTANTS = (100.0, 20_000.0, 0.002, 0.0001)


def test_it_is_the_least_and_the_range_ends_where_it_says():
    constants = (37.0, 900.0, 0.0013, 0.00007)
    found = fastest(*constants)
    around = seconds_to_target(found.batch_size.mean * np.array([0.99, 1, 1.01]), *constants)
    assert around.argmin() == 1 and found.seconds == pytest.approx(around[1])
    ends = seconds_to_target([found.low, found.high], *constants)
    assert ends == pytest.approx([1.1 * found.seconds] * 2)


def test_the_error_of_two_sources():
    """Var log B* is a quarter of both variances; their half-widths are joined likewise."""
    sizes, rng = 2.0 ** np.arange(3, 11), np.random.default_rng(0)
    updates = 100 * (1 + 80 / sizes) * np.exp(rng.normal(0, 0.03, 8))
    seconds = (0.002 + 0.0001 * sizes) * (1 + rng.normal(0, 0.01, 8))
    critical = critical_batch_size.fit(sizes, updates)
    half = step_cost.fit_step_cost(sizes, seconds).half_batch
    widths = [math.log(critical.high / critical.low) / 2, math.log(half.high / half.low) / 2]
    error = log_error(critical, half)
    assert 4 * error**2 == pytest.approx(widths[0] ** 2 + widths[1] ** 2)
    found = fastest(*CONSTANTS, log_error=error)
    best, *ends = found.batch_size[:3]
    assert ends == pytest.approx(best * np.exp([-error, error]))
    assert math.isnan(log_error(critical._replace(high=math.nan), half))


def test_measured_seconds_are_compared_by_the_seeds_that_all_sizes_have():
    seconds = np.array([[4.0, 8.0, 16.0], [2.0, 4.0, 8.0], [3.0, 6.0, math.inf]])
    assert measured_fastest([8, 16, 32], seconds) == 16
    seconds = np.repeat([[1.0], [0.5], [2.0]], 7, axis=1)
    seconds[[0, 2], [1, 5]] = math.nan  # each lacks a seed
    seconds[0, 0], seconds[1, 0] = 0.001, math.nan  # of a seed that 32 lacks
    assert measured_fastest([16, 32, 64], seconds) == 32
    apart = np.array([[1.0, math.nan], [math.nan, 2.0]])
    assert measured_fastest([16, 32], apart) is None
