"""Numbers, counts, lists and durations as people read them."""

import math
import pickle

import numpy as np
import pytest

from batchscope.core import display
from batchscope.core.errors import UserError

NAN = math.nan
MINUS = "\N{MINUS SIGN}"

ONE_VALUE = {
    display.shortest: [(256, "256"), (np.float64(0.1), "0.1"), (1e-5, "1e-5"), (20.0, "20")],
    display.number: [
        *((0.00012345, "0.000123"), (1234.5, "1230"), (-0.25, f"{MINUS}0.25"), (-9.5e-17, "0")),
    ],
    display.cell: [
        *((123.456, "123.5"), (40.0, "40"), (0.0871234, "0.08712"), (123456.7, "123457")),
        *((-12.0, f"{MINUS}12"), (9.516e-17, "0"), (2.5e12, "2.5e12"), (NAN, display.ABSENT)),
    ],
    display.tick: [
        *((0.05, "0.05"), (20.0, "20"), (3e7, "30000000"), (-0.0, "0"), (-2e-6, f"{MINUS}2e-6")),
    ],
    display.listed: [(["set"], "set"), ([], ""), (("set", "cases", "vary"), "set, cases and vary")],
    display.grouped: [(12345.6, "12,346"), (1.2345, "1.23")],
    display.percent: [
        *((0.98765, "98.8 %"), (-0.0004, "0.0 %"), (0.0714, "7.1 %"), (0.99951, "100 %")),
        *((math.nan, "nan %"), (-1.1764, f"{MINUS}118 %")),
    ],
    display.batch_size: [(1024.0, "1024"), (53.07, "53.1")],
    display.p_value: [(0.0009, "< 0.001"), (0.0123, "0.012")],
    display.duration: [(0, "0 s"), (89, "89 s"), (600, "10 min"), (36000, "10.0 h")],
    display.lower: [("Test loss", "test loss"), ("SAM sharpness", "SAM sharpness")],
}


@pytest.mark.parametrize(
    ("write", "value", "text"),
    [(write, *pair) for write, pairs in ONE_VALUE.items() for pair in pairs],
)
def test_one_value(write, value, text):
    assert write(value) == text


@pytest.mark.parametrize(
    ("numbers", "expected"),
    [
        ((0.0159954, 0.0157, 0.0163), "0.01600 [0.01570, 0.01630]"),
        ((0.21, -0.0004, 0.41), "0.21 [0.00, 0.41]"),
        ((-0.0041, -0.0102, 0.0020), f"{MINUS}0.0041 [{MINUS}0.0102, 0.0020]"),
        ((9.516e-17, -1e-16, 3e-16), "0"),
        ((1234.5, 1100.0, 1369.0), "1234 [1100, 1369]"),
        ((-2e-9, -3e-9, -1e-9), f"{MINUS}2e-9 [{MINUS}3e-9, {MINUS}1e-9]"),
        ((0.3189, 0.3119, 0.4792), "0.319 [0.312, 0.479]"),  # a median next to a quartile
        # Not symmetric: by the narrower half, and no end above zero becomes zero.
        ((72.3, 44.7, 741.0), "72 [45, 741]"),
        ((15.0, 0.3, 741.0), "15 [0.3, 740]"),
        # An interval below zero stays below it.
        ((-0.0299, -0.0593, -0.000476), f"{MINUS}0.03 [{MINUS}0.059, {MINUS}0.00048]"),
        ((0.5, NAN, NAN), "0.5"),
        ((0.5, 0.25, math.inf), "0.5"),
        ((1.0769230769, 1.0769230769 - 1e-15, 1.0769230769 + 1e-15), "1.08 [1.08, 1.08]"),
    ],
)
def test_an_interval_rounds_its_value_and_its_ends(numbers, expected):
    assert display.estimate(*numbers).bracketed == expected


def test_what_rounding_leaves_of_zero_is_zero_in_points():
    assert display.estimate(2.8e-17, unit=display.POINTS).bracketed == "0"


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("Größe μ 語", "Größe μ 語"),
        ("\x1b[1;31mred\x1b[0m", "red"),
        ("\x1b]0;owned\x07x", r"\x1b]0;owned\x07x"),
        ("a\tb\r\n\x9b\udcff\u202e", r"a\tb\r\n\x9b\udcff\u202e"),
    ],
)
def test_a_terminal_obeys_nothing_in_a_text(text, shown):
    assert display.printable(text) == shown == display.printable(shown)


def test_errors_keep_their_lines_alone():
    assert str(UserError("a\n\x1b]0;b\x07")) == "a\n" + r"\x1b]0;b\x07"
    assert str(pickle.loads(pickle.dumps(UserError("\x07")))) == r"\x07"
