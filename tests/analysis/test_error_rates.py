"""Error rates and coverage by simulation; at full size: benchmarks/error_rates.py."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "benchmarks"))
import error_rates

pytestmark = pytest.mark.slow
_AWAY = 3.5  # Monte Carlo errors that a share may lie off, of some fifty


def numbers(text):
    return [float(found) / 100 for found in re.findall(r"[\d.]+(?= ?%)", text)]


@pytest.mark.parametrize(
    ("group", "studies"),
    [
        (error_rates.trends, 5000),
        (error_rates.claims, 3000),
        (error_rates.comparisons, 4000),
    ],
)
def test_shares_are_what_is_asked(group, studies):
    checked = 0
    for found in group(np.random.default_rng(0), studies):
        for asked in numbers(found.asked):
            away = _AWAY * found.error
            if "at least" not in found.asked:
                assert found.share <= asked + away, found
            if "at most" not in found.asked:
                assert found.share >= asked - away, found
            checked += 1
    assert checked >= 4


def test_slopes_of_their_own_keep_the_level_of_one_of_thirty_claims():
    shares = {each.drawn: each for each in error_rates.trends(np.random.default_rng(1), 20_000)}
    own = shares["trend, slopes of their own, at 0.17%"]
    assert own.share <= error_rates.STRICT + _AWAY * own.error


def test_large_effects_are_told_in_a_family_of_twenty_series():
    shares = [*error_rates.claims(np.random.default_rng(2), 2000)]
    power = {each.drawn: each.share for each in shares if each.asked == "power"}
    assert len(power) == 3
    assert min(power.values()) > 0.6
    assert max(power.values()) - min(power.values()) < 0.1  # however many series there are
