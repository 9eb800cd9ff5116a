"""The critical batch size against curves of known constants, and how often it errs."""

import math

import numpy as np
import pytest
from scipy import special, stats

from batchscope.analysis import critical_batch_size
from batchscope.analysis.critical_batch_size import fit

POWERS = 2.0 ** np.arange(13)
PUBLISHED = [46000, 23000, 13282, 7000, 3840, 2528, 1917, 1600, 1600]


def hyperbola(sizes, updates_min=100.0, critical=50.0):
    return updates_min * (1 + critical / np.asarray(sizes, float))


def curve(found, sizes):
    return critical_batch_size.updates(sizes, found.updates_min, found.examples_min)


@pytest.mark.parametrize(
    "updates, expected",
    [
        (PUBLISHED, (2191, 1903, 2526)),
        ([96000, 49000, 24000, 12000, 7128, 4350, 2940, 2400, 2300], (3240, 2751, 3833)),
    ],
)
def test_published_curves(updates, expected):
    found = fit(64 * POWERS[:9], updates)
    assert found.points == 9
    critical = (found.critical_batch_size, found.low, found.high)
    assert critical == pytest.approx(expected, rel=2e-3)
    assert found.updates_min * found.critical_batch_size == pytest.approx(found.examples_min)


def test_lack_of_fit_by_pure_error():
    """Against F by hand; where a seed lacks a size the seeds' own levels are no part of it."""
    sizes, rng = POWERS[3:9], np.random.default_rng(1)
    table = hyperbola(sizes)[:, None] * np.exp(rng.normal(0, 0.05, (6, 4)))
    table[0] *= 1.3
    found = fit(sizes, table)
    y, k, r = np.log(table), 6, 4
    residuals = y.mean(axis=1) - np.log(curve(found, sizes))
    assert found.residual == pytest.approx(math.sqrt((residuals**2).mean()))
    e = y - y.mean(axis=1, keepdims=True) - y.mean(axis=0) + y.mean()
    error = (e**2).sum() / ((k - 1) * (r - 1))
    f = r * (residuals**2).sum() / (k - 2) / error
    assert found.lack_of_fit == pytest.approx(stats.f.sf(f, k - 2, (k - 1) * (r - 1)))
    far = np.abs(residuals) > 2 * math.sqrt(error / r)
    assert found.lack_of_fit < 0.05 and found.stray == tuple(sizes[far].astype(int))
    table[1, 0] = math.nan
    found, y = fit(sizes, table), np.log(table)
    residuals = np.nanmean(y, axis=1) - np.log(curve(found, sizes))
    counts = np.array([4, 3, 4, 4, 4, 4])
    error = np.nansum((y - np.nanmean(y, axis=1, keepdims=True)) ** 2) / (23 - k)
    f = (counts * residuals**2).sum() / (k - 2) / error
    assert found.lack_of_fit == pytest.approx(stats.f.sf(f, k - 2, 23 - k))


def test_seeds_at_different_rates_count_for_less():
    sizes = POWERS[3:9]
    table = hyperbola(sizes)[:, None] * (1 + 0.5 * (sizes[:, None] < 32) * np.arange(4))
    plain, found = (fit(sizes, table, differ) for differ in (False, sizes < 32))
    assert plain.by_seed and found.critical_batch_size == plain.critical_batch_size
    assert found.low < plain.low and found.high > plain.high
    assert found.lack_of_fit > plain.lack_of_fit


def test_exact_curves_are_found_with_no_width():
    found = fit(POWERS, hyperbola(POWERS))
    assert (found.updates_min, found.critical_batch_size) == pytest.approx((100, 50))
    assert (found.low, found.high) == pytest.approx((50, 50), rel=1e-4)
    assert found.lack_of_fit == 1 and found.stray == ()
    assert curve(found, [3.0, 50, 700]) == pytest.approx(hyperbola([3.0, 50, 700]))
    noise = np.exp(np.random.default_rng(0).normal(0, 0.1, 13))
    order = np.random.default_rng(1).permutation(13)
    shuffled = fit(POWERS[order], (hyperbola(POWERS) * noise)[order])
    assert shuffled == fit(POWERS, hyperbola(POWERS) * noise)
    bend = np.exp(0.01 * (np.log(POWERS) - np.log(POWERS).mean()) ** 2)
    assert fit(POWERS, hyperbola(POWERS) * bend).lack_of_fit < 1e-9  # one term explains it


def test_open_ends():
    noise = np.exp(np.random.default_rng(0).normal(0, 0.05, 6))
    small = fit(POWERS[:6], hyperbola(POWERS[:6], critical=5000) * noise)
    assert math.isnan(small.high) and 32 < small.low < 5000  # at least
    large = fit(1000 * POWERS[:6], hyperbola(1000 * POWERS[:6]) * noise)
    assert math.isnan(large.low) and 50 < large.high < 32000  # at most
    scaling = fit(POWERS[:6], 6400 / POWERS[:6])
    assert math.isnan(scaling.critical_batch_size) and math.isnan(scaling.updates_min)
    assert scaling.examples_min == pytest.approx(6400)
    assert scaling.low > 1e5 and math.isnan(scaling.high)
    assert curve(scaling, [64]) == pytest.approx([100])
    level = fit(POWERS[:6], np.full(6, 100.0))
    assert math.isnan(level.critical_batch_size) and math.isnan(level.examples_min)
    assert math.isnan(level.low) and level.high < 1e-3
    assert curve(level, [1, 64]) == pytest.approx([100, 100])


def test_the_wider_interval_is_taken():
    sizes, factors = POWERS[3:10], np.array([0.6, 1.0, 1 / 0.6])
    spread = np.stack([hyperbola(sizes, critical=50 * each) for each in factors], axis=1)
    found = fit(sizes, spread)
    half = special.stdtrit(2, 0.975) * np.std(np.log(factors), ddof=1) / math.sqrt(3)
    assert found.by_seed
    assert (found.low, found.high) == pytest.approx((50 * math.exp(-half), 50 * math.exp(half)))
    # A seed whose updates fall as 1 / B leaves the upper end open.
    spread[:, 2] = 5000 / sizes
    found = fit(sizes, spread)
    assert found.by_seed and math.isnan(found.high)
    # Seeds that agree on a curve that bends otherwise leave the profile the wider one.
    bent = hyperbola(sizes) * np.exp(0.1 * np.sin(np.arange(7)))
    same, alone = fit(sizes, np.stack([bent, bent * 1.5], axis=1)), fit(sizes, bent)
    assert not same.by_seed
    assert (same.low, same.high) == pytest.approx((alone.low, alone.high))
