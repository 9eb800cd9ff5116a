"""Numbers, counts, lists, sizes and durations as people read them."""

from __future__ import annotations

import ast
import math
from pathlib import Path

import numpy as np
import pytest

import batchscope
from batchscope import wording

NAN = math.nan


@pytest.mark.parametrize(
    ("write", "value", "text"),
    [
        (wording.shortest, 256, "256"),
        (wording.shortest, np.float64(0.1), "0.1"),
        (wording.shortest, np.int64(256), "256"),
        (wording.shortest, 1e-5, "1e-5"),
        (wording.shortest, 20.0, "20"),
        (wording.number, 0.00012345, "0.000123"),
        (wording.number, 1234.5, "1230"),
        (wording.cell, 1234.5, "1234"),
        (wording.cell, 0.0, "0"),
        (wording.cell, 40.0, "40"),
        (wording.cell, 0.0871234, "0.08712"),
        (wording.cell, 1.2e-5, "1.2e-5"),
        (wording.cell, 123456.7, "123457"),
        (wording.cell, -3.14159, "-3.142"),
        (wording.cell, 2.5e12, "2.5e12"),
        (wording.cell, NAN, wording.ABSENT),
        (wording.tick, 0.05, "0.05"),
        (wording.tick, 20.0, "20"),
        (wording.tick, 0, "0"),
        (wording.tick, 2e-6, "2e-6"),
        (wording.tick, 3e7, "30000000"),
        (wording.grouped, 12345.6, "12,346"),
        (wording.grouped, 1.2345, "1.23"),
        (wording.percent, 0.98765, "98.8 %"),
        (wording.points, 0.0123, "1.2 points"),
        (wording.duration, 0, "0 s"),
        (wording.duration, 89, "89 s"),
        (wording.duration, 600, "10 min"),
        (wording.duration, 36000, "10.0 h"),
        (wording.size, 0, "0 bytes"),
        (wording.size, 1500, "1.5 kB"),
        (wording.size, 115_000, "115 kB"),
        (wording.size, 2.5e9, "2.5 GB"),
        (wording.size, 3.2e12, "3200 GB"),
        (wording.capital, "a run", "A run"),
        (wording.capital, "", ""),
        (wording.lower, "Test loss", "test loss"),
        (wording.lower, "SAM sharpness", "SAM sharpness"),
    ],
)
def test_one_value(write, value, text):
    assert write(value) == text


def test_digits_are_the_callers():
    assert wording.number(1234.5, 2) == "1200" and wording.cell(0.0871234, 2) == "0.087"
    assert wording.percent(0.98765, 0) == "99 %"
    assert wording.size(7_126_000, 2) == "7.1 MB"


def test_intervals():
    assert wording.interval(1.0, 2.0) == "95 % interval 1 to 2"
    assert wording.interval(0.1, 0.2, wording.percent) == "95 % interval 10.0 % to 20.0 %"
    assert wording.interval(NAN, NAN) == wording.interval(0.0, math.inf) == ""


def test_counts_agree_with_their_nouns():
    assert [wording.count(n, "run") for n in (0, 1, 2)] == ["0 runs", "1 run", "2 runs"]
    assert wording.count(1, "class has", "classes have") == "1 class has"
    assert wording.count(3, "class has", "classes have") == "3 classes have"


def test_lists():
    assert wording.listed(["set"]) == "set" and wording.listed([]) == ""
    assert wording.listed(("set", "cases", "vary")) == "set, cases and vary"
    assert wording.listed(iter(["a", "b"]), "or") == "a or b"


def test_no_module_writes_its_own():
    """A noun with an s for the plural, a list with its last word, a first letter."""
    for path in Path(batchscope.__file__).parent.rglob("*.py"):
        if path.stem == "wording":
            continue
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.IfExp):
                ends = {
                    getattr(value, "value", None)
                    for branch in (node.body, node.orelse)
                    for value in (branch, *getattr(branch, "values", ())[-1:])
                }
                assert "s" not in ends, f"{path.name}:{node.lineno}: wording.count is expected"
            if isinstance(node, ast.Call) and getattr(node.func, "attr", "") == "join":
                glue = getattr(node.func.value, "value", None)
                assert glue not in (" and ", " or "), (
                    f"{path.name}:{node.lineno}: wording.listed is expected"
                )
            if isinstance(node, ast.Call) and getattr(node.func, "attr", "") in ("upper", "lower"):
                assert not ast.unparse(node.func.value).endswith(("[0]", "[:1]")), (
                    f"{path.name}:{node.lineno}: wording.capital or wording.lower is expected"
                )
