"""CPU and GPU use and throughput of a command: over the seconds that its log counts."""

import numpy as np
import pandas
import pytest

from batchscope.external import command_runner

# Two seconds of imports on a tenth of a core, then two seconds of training.
SERIES = {
    "seconds": np.arange(5.0),
    "process_percent": np.array([np.nan, 10, 10, 90, 90]),
    "gpu_percent": np.array([np.nan, 0, 0, 60, 80]),
}


@pytest.mark.parametrize(
    ("seconds", "cpu", "gpu"),
    [
        ([0, 1, 2], 90, 70),
        ([0, 1, 2.5], (0.5 * 10 + 2 * 90) / 2.5, 2 * 70 / 2.5),
        ([900], 50, 35),  # a clock that is not the run's own
        (None, 50, 35),
    ],
)
def test_use_counts_while_the_log_counts_seconds(seconds, cpu, gpu):
    rows = pandas.DataFrame({} if seconds is None else {"seconds": seconds})
    used = command_runner.utilisation(SERIES, rows)
    assert used == {"process_percent": pytest.approx(cpu), "gpu_percent": pytest.approx(gpu)}


@pytest.mark.parametrize(
    ("rows", "rate"),
    [
        ({"examples": [32, 1024, 2016], "seconds": [0, 1, np.nan]}, 992),
        ({"examples": [32, 1024], "seconds": [1, 1]}, None),
        ({"examples": [32, 1024]}, None),
    ],
)
def test_throughput_is_that_between_the_first_and_the_last_timed_row(rows, rate):
    assert command_runner.throughput(pandas.DataFrame(rows)) == rate
