"""Seeds that a paired comparison needs: known answers, and simulation."""

import pytest

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
