"""One row over the timing jobs of a configuration."""

import math

import numpy as np
import pandas
import pytest
from scipy import stats

from batchscope.analysis import timing_repeats

JOBS = pandas.DataFrame(
    {
        "sweep": ["a"] * 4 + ["b"],
        "batch_size": 16,
        "status": ["finished", "finished", "diverged", "finished", "finished"],
        "blocks": [7, 7, 6, 7, 5],
        "seconds": [1.0, 2.0, 3.0, 10.0, 4.0],
        "seconds_q1": [0.9, 1.9, 2.9, 9.9, 3.5],
        "seconds_q3": [1.1, 2.1, 3.1, 10.1, 4.5],
        "cost": [1.0, 2.0, 3.0, 2.0, 7.0],
        "cost_low": 0.0,
        "cost_high": 9.0,
        "step_p": [0.01, 0.02, 0.03, 0.6, 0.5],
        "knee": pandas.array([8, 16, 16, 32, None], "Int64"),
        "free": [1.0, np.nan, 3.0, np.nan, np.nan],
    }
)


def test_each_kind_of_column_over_jobs():
    found = timing_repeats.combined(JOBS, ["sweep", "batch_size"], ["blocks"])
    assert list(found.columns) == list(JOBS.columns) and list(found["sweep"]) == ["a", "b"]
    row = found.iloc[0]
    assert (row["status"], row["blocks"], row["knee"], row["free"]) == ("finished", 27, 16, 2.0)
    assert (row["seconds_q1"], row["seconds"], row["seconds_q3"]) == (1.75, 2.5, 4.75)
    # Averages of pairs: one at 1, two at 1.5, four at 2, two at 2.5 and one at 3.
    assert row["cost"] == 2 and math.isnan(row["cost_low"]) and math.isnan(row["cost_high"])
    assert row["step_p"] == pytest.approx(2 * 0.025)


def test_a_quantity_with_an_interval_is_hardly_moved_by_one_job():
    costs = [0.0100, 0.0126, 0.0136, 0.0138, 0.0142, 0.26]
    jobs = pandas.DataFrame({"sweep": "a", "cost": costs, "cost_low": 0.0, "cost_high": 1.0})
    row = timing_repeats.combined(jobs, ["sweep"]).iloc[0]
    assert row["cost"] == pytest.approx(0.0138, abs=2e-4)
    assert (row["cost_low"], row["cost_high"]) == (0.01, 0.26)


def test_a_single_job_stays_as_it_is():
    single = JOBS.iloc[[0, 4]]
    found = timing_repeats.combined(single, ["sweep", "batch_size"], ["blocks"])
    pandas.testing.assert_frame_equal(found, single)
    beside = timing_repeats.combined(JOBS, ["sweep", "batch_size"], ["blocks"]).iloc[1]
    assert beside["seconds_q3"] == 4.5 and beside["cost_high"] == 9 and pandas.isna(beside["knee"])


@pytest.mark.slow
def test_twice_the_median_p_errs_no_more_often_than_it_says():
    """Of jobs without any effect that share most of their noise."""
    generator = np.random.default_rng(5)
    shared = generator.normal(size=(4000, 1))
    scores = np.sqrt(0.7) * shared + np.sqrt(0.3) * generator.normal(size=(4000, 6))
    p_values = stats.norm.sf(scores)
    jobs = pandas.DataFrame(p_values[:1000]).melt(ignore_index=False, value_name="step_p")
    found = timing_repeats.combined(jobs.reset_index(names="sweep"), ["sweep"])
    assert len(found) == 1000 and (found["step_p"] < 0.05).mean() <= 0.06
