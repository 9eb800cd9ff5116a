"""Changes between batch sizes, paired by seed."""

import pandas
import pytest

from batchscope.analysis import changes_by_seed


def runs(**columns):
    return pandas.DataFrame(
        {
            "batch_size": [16, 16, 64, 64, 64],
            "seed": [0, 1, 0, 1, 2],
            "status": ["finished", "diverged", "finished", "finished", "finished"],
            **columns,
        }
    )


def test_parts_add_up_to_the_whole_of_seeds_that_have_both_ends():
    frame = runs(updates=[64.0, 64, 16, 16, 16], norm=[1.0, 1, 8, 8, 8])
    found = changes_by_seed.doublings(frame, ["updates", "norm"], "whole")
    assert found[["batch_size", "seed"]].to_numpy().tolist() == [[16, 0], [64, 0]]
    assert found[["updates", "norm", "whole"]].to_numpy().tolist() == [[0, 0, 0], [-2, 3, 1]]
    none = changes_by_seed.doublings(frame[:0], ["updates", "norm"], "whole")
    assert none.empty and "whole" in none


def test_the_ratio_of_the_extremes_is_of_the_same_seed():
    frame = runs(distance=[6.0, 5, 2, 1, 1], epoch=[1] * 5)
    sizes, ratios = changes_by_seed.ratio_of_extremes(frame, "distance")
    assert sizes == [16, 64] and ratios.loc[1, 0] == pytest.approx(3)
    assert ratios.loc[1, [1, 2]].isna().all()
    assert changes_by_seed.ratio_of_extremes(frame[:1], "distance")[0] == [16]


def test_means_over_seeds_have_the_ends_of_their_t_interval():
    quantile = 12.7062  # of Student's t with a degree of freedom
    frame = runs(updates=[64.0, 64, 16, 4, 16]).assign(status="finished")
    changes = changes_by_seed.doublings(frame, ["updates"], "whole")
    found = changes_by_seed.means(changes, "updates")
    assert found.loc[16].tolist() == [0, 0, 0]
    assert found.loc[64].tolist() == pytest.approx([-3, -3 - quantile, -3 + quantile], rel=1e-5)
    ratios = pandas.DataFrame([[2.0, 8.0], [4.0, float("nan")]], index=[1, 5])
    found = changes_by_seed.geometric_means(ratios)
    assert found["mean"].to_dict() == pytest.approx({1: 4, 5: 4})
    ends = [4 / 2**quantile, 4 * 2**quantile]
    assert found.loc[1, ["low", "high"]].tolist() == pytest.approx(ends, rel=1e-4)
    assert found.loc[5, ["low", "high"]].isna().all()
