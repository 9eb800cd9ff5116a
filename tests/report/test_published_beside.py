"""Numbers of documents beside ours: which rows of ours are meant, and what stands beside them."""

from __future__ import annotations

import math

import pandas
import pytest

from batchscope.report import page, published_rows
from batchscope.study.outcomes import Reason
from batchscope.tables import published
from html_page import Page

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
TIMED = RUNS[RUNS["learning_rate"] == 0.1].assign(
    seconds_per_epoch=2.0, seconds_per_epoch_q1=1.5, seconds_per_epoch_q3=2.5
)


def of(column="test_accuracy", size=16, tables=None, **factors):
    tables = {"runs": RUNS} if tables is None else tables
    return published.value_here(column, size, factors, tables)


def test_ours_is_the_mean_of_the_finished_runs_with_its_interval():
    found = of(learning_rate=0.1)
    assert found["here"] == pytest.approx(0.6) and found["here_n"] == 2
    # t with one degree of freedom is 12.706, and s / sqrt(2) is .1: shares end at 0 and 1.
    assert (found["here_low"], found["here_high"]) == (0.0, 1.0)
    found = of(size=64, learning_rate=0.1)
    assert found == {"here": 0.4, "here_n": 1}


def test_a_median_has_its_quartiles_and_no_seeds():
    found = of("seconds_per_epoch", tables={"runs": TIMED})
    assert found == {"here": 2.0, "here_low": 1.5, "here_high": 2.5}


@pytest.mark.parametrize("gpu", [math.nan, 30.0])
def test_utilisation_is_that_of_the_gpu_where_there_is_one(gpu):
    used = RUNS.assign(own_framework="jax", process_percent=95.0, gpu_percent=gpu)
    used = pandas.concat([used, used.assign(own_framework="mxnet", process_percent=1.0)])
    found = of("utilisation_percent", 64, {"runs": used}, own_framework="jax")
    assert found == {"here": 95.0 if math.isnan(gpu) else 30.0, "here_n": 1}


@pytest.mark.parametrize(
    ("given", "reason"),
    [
        ({"size": 128}, Reason.NOT_IN_GRID),
        ({}, Reason.SEVERAL),  # both rates: settings are not mixed
        ({"column": "weight_distance"}, Reason.NO_VALUE),
        ({"tables": {}}, Reason.NO_VALUE),
    ],
)
def test_what_has_nothing_here_says_why(given, reason):
    assert of(**given) == {"here_reason": reason}


def test_ours_and_theirs_stand_side_by_side():
    first = {"column": "test_accuracy", "value": 0.55, "series": "SGD <1>", "document": "Table 4"}
    first |= {"figure": "accuracy", "batch_size": 16, "here_n": 6, "here_reason": math.nan}
    ours = {"here": 0.6, "here_low": 0.5, "here_high": 0.7}
    row, absent = (
        {**published_rows.describe({**first, **given}), "experiment": "Ours", "link": link}
        for given, link in (
            (ours, ("Figure 3", "#figure-3")),
            (dict.fromkeys(ours, math.nan), None),
        )
    )
    assert (row["published"], row["unit"], row["here"]) == ("55", "%", ("60", "50", "70"))
    assert absent["here"] is None
    used = {"dataset": "digits", "published": 23262, "place": "Setup", "counts": {"test": 355}}
    beside = {"examples": [used], "measured": [row], "absent": [absent]}
    parsed = Page(page.render("published.html.j2", section=beside))
    assert len(parsed.all("table")) == 2 and "SGD <1>" in parsed.text and "23,262" in parsed.text
    assert [each["href"] for each in parsed.all("a")] == ["#figure-3"]
