"""One row over the timing jobs of a configuration."""

import math

import numpy as np
import pandas

from batchscope.analysis import timing_rows

JOBS = pandas.DataFrame(
    {
        "sweep": ["a"] * 4 + ["b"],
        "status": ["finished", "finished", "diverged", "finished", "finished"],
        "blocks": [7, 7, 6, 7, 5],
        "seconds": [1.0, 2.0, 3.0, 10.0, 4.0],
        "seconds_q1": [0.9, 1.9, 2.9, 9.9, 3.5],
        "seconds_q3": [1.1, 2.1, 3.1, 10.1, 4.5],
        "cost": [1.0, 2.0, 3.0, 2.0, 7.0],
        "cost_low": 0.0,
        "rising": [True, None, True, False, None],
        "knee": pandas.array([8, 16, 24, 32, None], "Int64"),
        "steps": [8.0, 16.0, 24.0, 32.0, np.nan],  # whole, as a file with a gap has them
        "free": [1.0, np.nan, 3.0, np.nan, np.nan],
    }
)


def test_each_kind_of_column_over_jobs():
    found = timing_rows.one_row_per_configuration(JOBS, ["sweep"], ["blocks"])
    assert list(found.columns) == list(JOBS.columns) and list(found["sweep"]) == ["a", "b"]
    row, single = found.iloc[0], found.iloc[1]
    assert (row["status"], row["blocks"], row["rising"]) == ("finished", 27, True)
    assert (row["knee"], row["steps"], row["free"]) == (16, 16, 2.0)  # whole ones were seen
    assert (row["seconds_q1"], row["seconds"], row["seconds_q3"]) == (1.75, 2.5, 4.75)
    # The interval of a fit to one job says nothing of several.
    assert row["cost"] == 2 and math.isnan(row["cost_low"])
    # A single job stays as it is.
    assert (single["seconds_q3"], single["cost_low"]) == (4.5, 0) and pandas.isna(single["knee"])
    alone = JOBS.iloc[[0, 4]]
    pandas.testing.assert_frame_equal(
        timing_rows.one_row_per_configuration(alone, ["sweep"]), alone
    )


def test_whole_numbers_stay_whole_beside_what_was_not_timed():
    """As where a GPU is not here: its rows have none."""
    counts = pandas.array([9, 5, None, None], "Int64")
    rows = pandas.DataFrame({"sweep": ["a", "a", "b", "b"], "batch_size": 8, "examples": counts})
    found = timing_rows.one_row_per_configuration(rows, ["sweep", "batch_size"])
    assert found["examples"].astype(float).tolist()[0] == 5
    assert found["examples"].isna().tolist() == [False, True]
