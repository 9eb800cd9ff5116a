"""The range of a column, whatever table it is in."""

from math import inf, isnan, nan

import pytest

from batchscope.study.tables import clipped_to_range, value_range


@pytest.mark.parametrize(
    ("column", "ends"),
    [
        *(("test_accuracy", (0, 1)), ("sharpness_subspace_0.0005", (0, inf))),
        *(("process_percent_q3", (0, 100)), ("own_something", (-inf, inf))),
    ],
)
def test_ends_of_a_column(column, ends):
    assert value_range(column) == ends


def test_values_are_clipped_to_the_range_of_their_column():
    assert clipped_to_range("test_accuracy", (-0.8, 1.87)) == [0, 1]
    low, high = clipped_to_range("fixed_seconds", (-0.5, nan))
    assert low == 0 and isnan(high)
