"""Timings in the report: one column per configuration, rows with a value only."""

from __future__ import annotations

import math
import re

import pandas
import pytest

from batchscope.report import page, timing_section
from batchscope.study import tables

TIMED = {
    "highest_examples_per_second": 850.6,
    "plateau_examples_per_second": 900.0,
    **{"knee_fitted": 40.2, "knee_fitted_low": 36.6, "knee_fitted_high": 44.2},
    **{"knee_batch_size": 48, "still_rising": False, "noise_floor": 1.031},
    **{"fixed_seconds": 0.0056, "fixed_seconds_low": 0.0049, "fixed_seconds_high": 0.0064},
    **{"blocks": 40, "disturbed_blocks": 0},
}


def row(**values: object) -> dict[str, object]:
    names = [*tables.TIMING_FIRST_COLUMNS, *tables.TIMING_TABLES["sweeps"].columns]
    given = {"machine": "local", "sweep": "s", "model": "small_cnn", "dataset": "digits"}
    return {**dict.fromkeys(names), **given, "loop": "graph", **values}


def built(*rows: dict[str, object]):
    return timing_section.build(pandas.DataFrame(rows).replace({None: math.nan}))


def cells(*rows: dict[str, object]) -> dict[str, list[str]]:
    """Return the cells of each row of the page's table, by name."""
    template = page._environment().get_template("machine.html.j2")
    html = str(template.module.machine(built(*rows), "T"))
    lines = re.findall(r'<tr data-row="(\w+)"><th.*?</th>(.*?)</tr>', html, re.S)
    return {name: re.findall(r"<td>(.*?)</td>", text, re.S) for name, text in lines}


def timed(**changes: object) -> dict[str, list[str]]:
    return cells(row(**{**TIMED, **changes}))


def test_numbers_with_units_and_intervals():
    found = timed()
    assert found["highest_examples_per_second"] == ["851 examples/s"]
    assert found["plateau_examples_per_second"] == ["900 examples/s"]
    assert "40.2 [36.6, 44.2]" in found["knee"][0] and "48" in found["knee"][0]
    assert found["fixed_seconds"] == ["5.60 [4.90, 6.40] ms"]
    assert found["noise_floor"] == ["3.1 %"] and found["blocks"] == ["0 of 40"]
    # A value that was not measured has no line.
    assert not {"max_batch_size", "memory_mb_per_image"} & found.keys()


def test_a_knee_that_is_not_there_is_reported():
    none = {name: None for name in TIMED if name.startswith("knee_")}
    levels = {"rises": {"still_rising": True}, "": {}, "levels_off": {"knee_batch_size": 48}}
    for level, more in levels.items():
        (text,) = timed(**{**none, **more})["knee"]
        assert ("48" in text) == ("knee_batch_size" in more) and "[" not in text
        (configuration,) = built(row(**{**TIMED, **none, **more}))["configurations"]
        assert configuration["level"] == level


def test_too_noisy_to_tell():
    """Nothing that a level of the throughput is read from, beside a configuration that is not."""
    empty = {name: None for name in TIMED if name.startswith(("knee_", "plateau", "still"))}
    known = {**TIMED, "half_batch": 9.0}
    noisy = {**TIMED, **empty, "noise_floor": 8.1}
    found = cells(row(device="cpu", **known), row(device="gpu", **noisy))
    levels = ("plateau_examples_per_second", "knee", "half_batch")
    assert len({found[name][1] for name in levels}) == 1
    assert found["noise_floor"][1] == "710 %"


def test_a_configuration_that_waits_has_no_column_and_is_named():
    waiting = row(device="gpu", status="no_gpu")
    answer = built(row(device="cpu", **TIMED), waiting)
    assert [timed["title"] for timed in answer["configurations"]] == ["CPU"]
    assert [timed["title"] for timed in answer["left_out"]] == ["GPU"]
    # The largest batch size was searched on a GPU; only its times wait.
    largest = {"max_batch_size": 64, "max_batch_size_bound": "resolved"}
    both = (row(device="cpu", **TIMED), {**waiting, **largest})
    assert not built(*both)["left_out"] and cells(*both)["max_batch_size"][1] == "64"


@pytest.mark.parametrize("rows", [[row()], [row(device="gpu", status="no_gpu")], []])
def test_nothing_measured_is_no_answer(rows):
    assert timing_section.build(pandas.DataFrame(rows, columns=list(row()))) is None
