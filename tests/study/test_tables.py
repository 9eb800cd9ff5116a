"""Which values a column can have, whatever table it is in."""

from math import inf, isnan, nan

import pytest

from batchscope.study.tables import clipped_to_range, value_range


@pytest.mark.parametrize(
    ("column", "ends"),
    [
        ("test_accuracy", (0, 1)),
        ("best_validation_loss", (0, inf)),
        ("sharpness_subspace_0.0005", (0, inf)),
        ("seconds_per_step", (0, inf)),
        ("process_percent_q3", (0, 100)),
        ("generalisation_gap_accuracy", (-inf, inf)),
        ("hessian_top_eigenvalue", (-inf, inf)),
        ("own_something", (-inf, inf)),
    ],
)
def test_ends_of_a_column(column, ends):
    assert value_range(column) == ends


def test_an_interval_is_cut_where_no_value_can_be():
    assert clipped_to_range("test_accuracy", (-0.8, 1.87)) == [0, 1]
    assert clipped_to_range("generalisation_gap", (-3.0, 5.0)) == [-3, 5]
    low, high = clipped_to_range("fixed_seconds", (-0.5, nan))
    assert low == 0 and isnan(high)
