"""Which values a column can have, whatever table it is in."""

import math

import pytest

from batchscope.study.tables import clipped, possible

INF = math.inf


@pytest.mark.parametrize(
    ("column", "ends"),
    [
        ("test_accuracy", (0, 1)),
        ("best_validation_loss", (0, INF)),
        ("sharpness_subspace_0.0005", (0, INF)),
        ("seconds_per_step", (0, INF)),
        ("process_percent_q3", (0, 100)),
        ("generalisation_gap_accuracy", (-INF, INF)),
        ("hessian_top_eigenvalue", (-INF, INF)),
        ("own_something", (-INF, INF)),
    ],
)
def test_ends_of_a_column(column, ends):
    assert possible(column) == ends


def test_an_interval_is_cut_where_no_value_can_be():
    assert clipped("test_accuracy", (-0.8, 1.87)) == [0, 1]
    assert clipped("generalisation_gap", (-3.0, 5.0)) == [-3, 5]
    found = clipped("fixed_seconds", (-0.5, math.nan))
    assert found[0] == 0 and math.isnan(found[1])
