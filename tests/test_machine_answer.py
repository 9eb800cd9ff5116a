"""What the report says of a machine: one column per configuration, nothing that is not there."""

from __future__ import annotations

import pandas
import pytest

from batchscope import timing_tables
from batchscope.report import machine_answer


def row(**values: object) -> dict[str, object]:
    names = [*timing_tables.FIRST, *timing_tables.SWEEPS]
    given = {"machine": "local", "model": "small_cnn", "dataset": "digits", "loop": "graph"}
    return {**dict.fromkeys(names), **given, **values}


def answer(*rows: dict[str, object]) -> dict[str, list[str]]:
    found = machine_answer.build(pandas.DataFrame(rows))
    return {} if found is None else dict(found["rows"])


TIMED = {
    "plateau_images_per_second": 850.6,
    "knee_batch_size": 48,
    "still_rising": False,
    "fixed_seconds": 0.0056,
    "fixed_seconds_low": 0.0049,
    "fixed_seconds_high": 0.0064,
    "noise_floor": 1.031,
    "blocks": 40,
    "disturbed_blocks": 0,
}


def test_numbers_with_units_and_intervals():
    found = answer(row(**TIMED))
    assert found["Highest throughput"] == ["850.6 images/s"]
    assert found["Knee: batch size of 90 % of it"] == ["48"]
    assert found["Fixed cost of a step"][0].startswith("5.6")
    assert "ms [4.9" in found["Fixed cost of a step"][0]
    assert found["Noise floor"] == ["3.1 %"]
    assert found["Blocks that other processes disturbed"] == ["none of 40"]
    # What was not measured has no line.
    assert "Largest batch size" not in found and "Memory" not in found


def test_a_knee_that_is_not_there_is_said_so():
    rising = answer(row(**{**TIMED, "still_rising": True}))
    falling = answer(row(**{**TIMED, "knee_batch_size": None}))
    assert "still rising" in rising["Knee: batch size of 90 % of it"][0]
    assert "not resolved" in falling["Knee: batch size of 90 % of it"][0]


@pytest.mark.parametrize(
    ("disturbed", "words"), [(3, "3 of 40"), (30, "30 of 40"), (30, "the machine was not alone")]
)
def test_a_machine_that_was_not_alone(disturbed, words):
    found = answer(row(**{**TIMED, "disturbed_blocks": disturbed}))
    told = found["Blocks that other processes disturbed"][0]
    assert words in told
    assert ("not alone" in told) == (disturbed > 10)


def test_the_largest_batch_is_told_with_its_bound():
    memory = {"max_batch_size": 1408, "memory_limit_mb": 2000.0, "max_batch_size_bound": "resolved"}
    assert answer(row(**memory))["Largest batch size"] == ["1408 within 2000 MB"]
    open_end = answer(row(**{**memory, "max_batch_size_bound": "most_fits"}))
    assert open_end["Largest batch size"][0].startswith("at least 1408")


def test_configurations_stand_side_by_side():
    found = machine_answer.build(
        pandas.DataFrame([row(**TIMED), row(**{**TIMED, "loop": "eager", "noise_floor": None})])
    )
    assert found["titles"] == ["loop in the graph", "eager"]
    assert dict(found["rows"])["Noise floor"] == ["3.1 %", "not measured"]


def test_what_waits_has_no_column_and_is_named_below():
    waiting = row(device="gpu", status="no_gpu")
    found = machine_answer.build(pandas.DataFrame([row(device="cpu", **TIMED), waiting]))
    assert found["titles"] == ["cpu"]
    assert all(len(cells) == 1 for _, cells in found["rows"])
    assert found["left_out"] == "Left out: gpu (no GPU)."
    # Of what was searched on a GPU, the times alone wait.
    largest = {"max_batch_size": 64, "max_batch_size_bound": "resolved"}
    found = machine_answer.build(
        pandas.DataFrame([row(device="cpu", **TIMED), {**waiting, **largest}])
    )
    assert found["titles"] == ["cpu", "gpu"] and not found["left_out"]
    assert dict(found["rows"])["Largest batch size"] == ["not measured", "64"]


def test_nothing_measured_is_no_answer():
    assert machine_answer.build(pandas.DataFrame([row()])) is None
    assert machine_answer.build(pandas.DataFrame([row(device="gpu", status="no_gpu")])) is None
    assert machine_answer.build(pandas.DataFrame(columns=list(row()))) is None
