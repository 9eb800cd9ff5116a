"""What the report says of a machine: one column per configuration, nothing that is not there."""

from __future__ import annotations

import re

import numpy as np
import pandas
import pytest

from batchscope.report import page, timing_section
from batchscope.study import tables

NOTHING = pandas.DataFrame(columns=[*tables.FIRST, *tables.OF_TIMINGS["throughput"].columns])
TIMED = {
    "highest_examples_per_second": 850.6,
    "plateau_examples_per_second": 900.0,
    **{"knee_fitted": 40.2, "knee_fitted_low": 36.6, "knee_fitted_high": 44.2},
    **{"knee_batch_size": 48, "still_rising": False, "noise_floor": 1.031},
    **{"fixed_seconds": 0.0056, "fixed_seconds_low": 0.0049, "fixed_seconds_high": 0.0064},
    **{"blocks": 40, "disturbed_blocks": 0},
}


def row(**values: object) -> dict[str, object]:
    names = [*tables.FIRST, *tables.OF_TIMINGS["sweeps"].columns]
    given = {"machine": "local", "sweep": "s", "model": "small_cnn", "dataset": "digits"}
    return {**dict.fromkeys(names), **given, "loop": "graph", **values}


def built(*rows: dict[str, object], throughput: pandas.DataFrame = NOTHING):
    return timing_section.build(pandas.DataFrame(rows), throughput)


def cells(*rows: dict[str, object], **more: pandas.DataFrame) -> dict[str, list[str]]:
    """Returns the cells of each row of the page's table, by name."""
    html = str(
        page._environment()
        .get_template("machine.html.j2")
        .module.machine(built(*rows, **more), "T")
    )
    found = re.findall(r'<tr data-row="(\w+)"><th.*?</th>(.*?)</tr>', html, re.S)
    return {name: re.findall(r"<td>(.*?)</td>", text, re.S) for name, text in found}


def timed(**changes: object) -> dict[str, list[str]]:
    return cells(row(**{**TIMED, **changes}))


def test_numbers_with_units_and_intervals():
    found = timed()
    assert found["highest_examples_per_second"] == ["851 examples/s"]
    assert found["plateau_examples_per_second"] == ["900 examples/s"]
    assert "40.2 [36.6, 44.2]" in found["knee"][0] and "48" in found["knee"][0]
    assert found["fixed_seconds"] == ["5.60 [4.90, 6.40] ms"]
    assert found["noise_floor"] == ["3.1 %"] and found["blocks"] == ["0 of 40"]
    # What was not measured has no line.
    assert not {"max_batch_size", "memory_mb_per_image", "by_size"} & found.keys()


def test_a_knee_that_is_not_there_is_reported():
    none = {name: None for name in TIMED if name.startswith("knee_")}
    for more in ({"still_rising": True}, {}, {"knee_batch_size": 48}):
        (text,) = timed(**{**none, **more})["knee"]
        assert ("48" in text) == ("knee_batch_size" in more) and "[" not in text


def test_too_noisy_to_tell():
    """Nothing that a level of the throughput is read from, beside a configuration that is not."""
    empty = {name: None for name in TIMED if name.startswith(("knee_", "plateau", "still"))}
    known = {**TIMED, "half_batch": 9.0}
    noisy = {**TIMED, **empty, "noise_floor": 8.1}
    found = cells(row(device="cpu", **known), row(device="gpu", **noisy))
    levels = ("plateau_examples_per_second", "knee", "half_batch")
    assert len({found[name][1] for name in levels}) == 1
    assert found["noise_floor"][1] == "710 %"


def test_throughput_is_reported_at_some_sizes_from_the_smallest_to_the_largest():
    sizes = [64, 1, 2, 4, 8, 16, 32, 128, 256]
    known = [{"machine": "local", "sweep": "s", "batch_size": size} for size in sizes]
    frame = pandas.DataFrame(
        [{**one, "examples_per_second": 10.0 * one["batch_size"]} for one in known]
    )
    texts = cells(row(), throughput=frame)["by_size"]
    assert texts == ["1: 10, 4: 40, 16: 160, 64: 640, 256: 2560 examples/s"]
    assert built(row(machine="other"), throughput=frame) is None  # another machine's
    frame.loc[frame["batch_size"] > 2, "examples_per_second"] = np.nan
    assert cells(row(), throughput=frame)["by_size"] == ["1: 10, 2: 20 examples/s"]


def test_what_waits_has_no_column_and_is_named():
    waiting = row(device="gpu", status="no_gpu")
    found = built(row(device="cpu", **TIMED), waiting)
    assert [each["title"] for each in found["configurations"]] == ["CPU"]
    assert [each["title"] for each in found["left_out"]] == ["GPU"]
    # Of what was searched on a GPU, the times alone wait.
    largest = {"max_batch_size": 64, "max_batch_size_bound": "resolved"}
    both = (row(device="cpu", **TIMED), {**waiting, **largest})
    assert not built(*both)["left_out"] and cells(*both)["max_batch_size"][1] == "64"


@pytest.mark.parametrize("rows", [[row()], [row(device="gpu", status="no_gpu")], []])
def test_nothing_measured_is_no_answer(rows):
    assert timing_section.build(pandas.DataFrame(rows, columns=list(row())), NOTHING) is None
