"""Numbers of documents beside ours: which rows of ours are meant, and what stands beside them."""

from __future__ import annotations

import dataclasses
import re

import pytest

import small_study
from batchscope import wording
from batchscope.report import content, published_beside, study_page
from batchscope.study import planner

CSV = b"""learning_rate,batch_size,seed,status,test_accuracy,document
0.1,16,0,finished,0.5,
0.1,16,1,finished,0.7,
0.1,16,2,diverged,0.1,
0.2,16,0,finished,0.9,
0.1,16,,,0.3,A document
0.1,64,0,finished,0.4,
"""


def _study(numbers: list[dict], **more):
    published = {"accuracy": {"figure": "Table  4", "found": "F.", "numbers": numbers}} | more
    experiment = {
        "title": "Ours",
        "vary": {"batch_size": [16, 64], "learning_rate": [0.1, 0.2]},
        "seeds": 3,
        "measure": {"evaluate": None, "time_epoch": None},
        "published": published,
    }
    return planner.make(small_study.config(experiment=experiment))


def _rows(study, csv: bytes = CSV, figure: str = "accuracy", **datasets):
    shown = content.Figure("Accuracy", "", csv=csv, name=figure)
    found = content.ExperimentResults(study.experiments["a"], [], figures=[shown])
    return published_beside.build(study, content.Inputs("", "", {"a": found}, datasets=datasets))


def test_examples_of_a_document_stand_beside_ours():
    study = _study([{"batch_size": [16], "test_accuracy": [0.5]}])
    (token,) = study.datasets
    study = dataclasses.replace(study, published={token: (23262, "Setup")})
    record = {"counts": {"train": 1087, "validation": 355, "test": 355}}
    row = _rows(study, **{token: record})[0]
    assert (row.what, row.where, row.published) == ("Examples of digits", "Setup", "23,262")
    assert row.here == ("1,797", "", "")
    assert row.note == "train 1,087, validation 355, test 355"
    row = _rows(study)[0]
    assert row.here is None and row.note == "not prepared here"


def test_ours_is_the_mean_of_the_finished_runs_with_its_interval():
    numbers = [{"learning_rate": 0.1, "batch_size": [16, 64, 128], "test_accuracy": [0.55, 1, 0]}]
    first, second, third = _rows(_study(numbers))
    assert first[:3] == ("Ours", "Table 4", ("a", "accuracy"))
    assert first[3:6] == ("Test accuracy (%), learning rate 0.1", 16, "55")
    # The mean of .5 and .7; t with one degree of freedom is 12.706, and s / sqrt(2) is .1.
    assert first.here == ("60", "\N{MINUS SIGN}67", "187") and first.note == "n 2"
    assert (second.published, second.here, second.note) == ("100", ("40", "", ""), "n 1")
    assert third.here is None and third.note == "no such batch size here"


def test_settings_are_not_mixed():
    (row,) = _rows(_study([{"batch_size": [16], "test_accuracy": [0.5]}]))
    assert row.here is None and row.note == "several settings here"


def test_times_have_quartiles():
    csv = (
        b"batch_size,seed,status,seconds_per_epoch,seconds_per_epoch_q1,seconds_per_epoch_q3\n"
        b"16,0,finished,2.0,1.9,2.2\n16,1,finished,2.0,1.9,2.2\n"
    )
    numbers = [{"batch_size": [16], "seconds_per_epoch": [3]}]
    times = {"figure": "F", "found": "F.", "numbers": numbers}
    study = _study([{"batch_size": [16], "test_accuracy": [0.5]}], time=times)
    row = _rows(study, csv, "time")[-1]
    assert row.what == "Time per epoch (s)" and row.published == "3"
    assert row.here == ("2.00", "1.90", "2.20") and row.note == "quartiles"


@pytest.mark.parametrize("csv", [b"", b"batch_size,seed,status\n16,0,finished\n"])
def test_what_was_not_measured_is_reported(csv):
    (row,) = _rows(_study([{"batch_size": [16], "test_accuracy": [0.5]}]), csv)
    assert row.here is None and row.note == "not measured here"


def test_a_number_links_to_its_own_experiment_of_several_with_one_title():
    study = _study([{"batch_size": [64], "test_accuracy": [0.5]}])
    first = study.experiments["a"]
    study = dataclasses.replace(
        study, experiments={"a": first, "b": dataclasses.replace(first, name="b")}
    )
    shown = content.Figure("Accuracy", "", csv=CSV, name="accuracy")
    found = {
        name: content.ExperimentResults(each, [], figures=[shown])
        for name, each in study.experiments.items()
    }
    html = study_page.build(study, content.Inputs("", "", found))
    assert re.findall('href="#figure-(.)">Figure . here', html) == ["1", "2"]


def test_what_has_nothing_here_to_compare_is_folded(finished, monkeypatch):
    study, results, path = finished
    inputs = content.read(study, results, path)
    here = published_beside.Row("", "", ("", ""), "Loss", 16, "0.5", wording.Estimate("0.4"), "")
    absent = here._replace(batch_size=6000, here=None, note="no such batch size here")
    for rows, tables in (([here, absent], 2), ([absent], 1), ([here], 1), ([], 0)):
        monkeypatch.setattr(published_beside, "build", lambda *_, rows=rows: rows)
        html = study_page.build(study, inputs)
        assert html.count('class="answers beside"') == tables
        folded = "Published numbers with nothing here to compare: 1" in html
        assert folded == (absent in rows)
