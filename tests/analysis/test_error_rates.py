"""Error rates and coverage by simulation; at full size: benchmarks/error_rates.py."""

import re
import sys
from pathlib import Path

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "benchmarks"))
import error_rates

pytestmark = pytest.mark.slow
_AWAY = 3.5  # Monte Carlo errors that a share may lie off, of some fifty


@pytest.mark.parametrize(
    ("group", "studies"),
    [
        (error_rates.trends, 1500),
        (error_rates.claims, 400),
        (error_rates.comparisons, 1000),
        (error_rates.staged_claims, 4000),
        (error_rates.staged_comparisons, 4000),
    ],
)
def test_shares_are_what_is_asked(group, studies):
    checked = 0
    for found in group(np.random.default_rng(0), studies):
        for expected in re.findall(r"[\d.]+(?= ?%)", found.expected):
            away = _AWAY * found.error
            if "at least" not in found.expected:
                assert found.share <= float(expected) / 100 + away, found
            if "at most" not in found.expected:
                assert found.share >= float(expected) / 100 - away, found
            checked += 1
    assert checked >= 2
