"""Which values an outcome can have."""

import math

import pytest

from batchscope.catalogue.tables import clipped, possible

INF = math.inf


@pytest.mark.parametrize(
    ("column", "ends"),
    [
        ("test_accuracy", (0, 1)),
        ("test_loss", (0, INF)),
        ("best_validation_loss", (0, INF)),
        ("sharpness_subspace_0.0005", (0, INF)),
        ("weight_distance_relative", (0, INF)),
        ("seconds_per_epoch", (0, INF)),
        ("train_seconds", (0, INF)),
        ("generalisation_gap_accuracy", (-INF, INF)),
        ("hessian_top_eigenvalue", (-INF, INF)),
    ],
)
def test_ends_of_a_column(column, ends):
    assert possible(column) == ends


def test_an_interval_is_cut_where_no_value_can_be():
    assert clipped("test_accuracy", (-0.8, 1.87)) == [0, 1]
    assert clipped("weight_distance", (-3.0, 5.0)) == [0, 5]
    assert clipped("generalisation_gap", (-3.0, 5.0)) == [-3, 5]
    assert clipped("process_percent_q3", (99.0, 112.0)) == [99, 100]


def test_values_beyond_the_range_stand_at_its_end():
    found = clipped("fixed_seconds", (-0.5, -0.6, math.nan))
    assert found[:2] == [0, 0] and math.isnan(found[2])
    assert all(map(math.isnan, clipped("test_loss", (math.nan, math.nan))))
