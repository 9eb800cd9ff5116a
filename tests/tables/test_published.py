"""Numbers of documents beside ours: which rows of ours are meant."""

import math

import pandas
import pytest

from batchscope.study.outcomes import Reason
from batchscope.tables import published

RUNS = pandas.DataFrame(
    [
        (0.1, 16, 0, "finished", 0.5),
        (0.1, 16, 1, "finished", 0.7),
        (0.1, 16, 2, "diverged", 0.1),
        (0.2, 16, 0, "finished", 0.9),
        (0.1, 64, 0, "finished", 0.4),
    ],
    columns=["learning_rate", "batch_size", "seed", "status", "test_accuracy"],
).assign(machine="local", device="cpu")
TIMED = RUNS[RUNS["learning_rate"] == 0.1].assign(  # each seed has a timing job
    **{"seconds_per_epoch": [2.0, 2.2, 2.1, 1.4], "seconds_per_epoch_q1": [1.9, 2.1, 2.0, 1.3]},
    seconds_per_epoch_q3=[2.1, 2.3, 2.2, 1.6],
)


def of(column="test_accuracy", size=16, runs=RUNS, **factors):
    return published.measured_value(column, size, factors, runs)


def test_ours_is_the_mean_of_the_finished_runs_with_its_interval():
    found = of(learning_rate=0.1)
    assert found["here"] == pytest.approx(0.6) and found["here_n"] == 2
    # t with one degree of freedom is 12.706, and s / sqrt(2) is .1: shares end at 0 and 1.
    assert (found["here_low"], found["here_high"]) == (0.0, 1.0)
    found = of(size=64, learning_rate=0.1)
    assert found == {"here": 0.4, "here_n": 1}


def test_timings_of_several_seeds_have_a_mean_and_a_single_one_has_its_quartiles():
    at_two_rates = pandas.concat([TIMED, TIMED.assign(learning_rate=0.2)])  # share a timing
    found = of("seconds_per_epoch", runs=at_two_rates)
    assert found["here"] == pytest.approx(2.1) and found["here_n"] == 2
    assert (found["here_low"], found["here_high"]) == pytest.approx((0.8293795, 3.3706205))
    found = of("seconds_per_epoch", 64, runs=TIMED)
    assert found == {"here": 1.4, "here_low": 1.3, "here_high": 1.6}


@pytest.mark.parametrize("gpu", [math.nan, 30.0])
def test_utilisation_is_that_of_the_gpu_where_there_is_one(gpu):
    used = RUNS.assign(own_framework="jax", process_percent=95.0, gpu_percent=gpu)
    used = pandas.concat([used, used.assign(own_framework="mxnet", process_percent=1.0)])
    found = of("utilisation_percent", 64, used, own_framework="jax")
    assert found == {"here": 95.0 if math.isnan(gpu) else 30.0, "here_n": 1}


def test_what_has_nothing_here_says_why():
    assert of(size=128) == {"here_reason": Reason.NOT_IN_GRID}
    assert of() == {"here_reason": Reason.SEVERAL}  # both rates: settings are not mixed
    assert of("weight_distance") == of(runs=RUNS[:0]) == {"here_reason": Reason.NO_VALUE}
