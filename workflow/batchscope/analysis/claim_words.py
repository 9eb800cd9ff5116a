"""What a claim tests, in words for its row of the ledger."""

from __future__ import annotations

import math
from typing import Any

from batchscope import wording
from batchscope.analysis import run_series
from batchscope.catalogue import tables, value_ranges
from batchscope.study.claims import RATIO, Cells, Test

# Type -> what its effect is.
_EFFECTS = {
    "trend": "per doubling",
    "equivalence": "largest difference",
    "value": "mean",
    "comparison": "difference",
    "interaction": "difference per doubling",
    "argmax": "difference from the next best",
    "order": "smallest difference",
    "exception": "factor from the line between its neighbours",
}


def effect(test: Test, doublings: bool = True) -> str:
    """Returns what the effect of a test is: `largest difference`, `per doubling of epoch`.

    `doublings`: whether its slopes are per doubling, or per unit.
    """
    words = _EFFECTS[test.type]
    if test.type == "comparison" and test.scale != RATIO:
        return f"{words} ({cells(test.of)} minus {cells(test.to)})"
    if test.scale == RATIO:
        words = f"factor {words}" if test.type == "trend" else words.replace("difference", "ratio")
    if words.endswith("per doubling"):
        words = f"{words.replace('per doubling', _per(doublings))} of {_name(test.over)}"
    return words


def _per(doublings: bool) -> str:
    return "per doubling" if doublings else "per unit"


def display_unit(kind: str, unit: str) -> wording.Unit:
    """Returns the unit to show the numbers of a test in: shares in per cent, differences in points.

    `unit` is that of the column that is tested; empty where there is none.
    """
    if unit not in ("share", "%"):
        return wording.Unit(f" {unit}" if unit else "")
    return wording.Unit(" %" if kind == "value" else " points", 100.0 if unit == "share" else 1.0)


def is_ratio(test: Test) -> bool:
    """Returns whether the effect of a test is a ratio, which has no unit."""
    return test.scale == RATIO or test.type == "exception"


def stated(test: Test, doublings: bool = True) -> str:
    """Returns what a test states: `test accuracy falls over batch size (at epoch 1)`."""
    over, sides = _name(test.over), f"{cells(test.of)} against {cells(test.to)}"
    ways = {"rises": "above", "falls": "below"}
    words = {
        "trend": f"{test.direction} over {over}",
        "equivalence": f"differs by {_bounds(test)} over {over}",
        "value": f"is {_bounds(test)}",
        "comparison": f"with {sides}: {test.scale} {_bounds(test)}",
        "interaction": f"{_per(doublings)} of {over}, {sides}: {test.scale} {_bounds(test)}",
        "argmax": f"is {test.best} at {over} {wording.listed(map(_value, test.chosen), 'or')}",
        "order": "rises from " + " to ".join(map(cells, test.order)),
        "exception": f"at {over} {wording.listed(map(_value, test.chosen))} lies "
        f"{ways.get(test.direction)} the line between its neighbours",
    }[test.type]
    found = tables.column(test.table, test.column)
    what = found.label if found and found.label else test.column.replace("_", " ")
    at = f" ({cells(test.cells)})" if test.cells else ""
    return f"{wording.lower(what)} {words}{at}"


def cells(cells: Cells) -> str:
    """Returns cells in words: `batch size 4, epoch 1 and 2`; empty for all."""
    return ", ".join(
        run_series.describe({name: values[0]}) if len(values) == 1 else _several(name, values)
        for name, values in cells.items()
    )


def _bounds(test: Test) -> str:
    found = tables.column(test.table, test.column)
    unit = display_unit(test.type, found.unit if found and not is_ratio(test) else "")

    def amount(end: float) -> str:
        number = wording.tick(unit.times * end)
        if unit.suffix == " points" and number in ("1", f"{wording.MINUS}1"):
            return f"{number} point"
        return number + (unit.suffix if end else "")

    low, high = test.low, test.high
    if test.type == "equivalence":
        return f"less than {'a factor of ' if is_ratio(test) else ''}{amount(high)}"
    # Where a value cannot be beyond a bound, that bound says nothing beside the other.
    least, most = value_ranges.possible(test.column) if test.type == "value" else (low, high)
    if math.isinf(high) or least < low < most <= high:
        return f"above {amount(low)}"
    if math.isinf(low) or low <= least < high < most:
        return f"below {amount(high)}"
    # The lower end may be what no decimals write: 1 / 1.05.
    return f"between {wording.number(unit.times * low, 4)} and {amount(high)}"


def _several(name: str, values: tuple[Any, ...]) -> str:
    if name in ("optimizer", "device", "framework"):  # which their values name
        return wording.listed(run_series.describe({name: value}) for value in values)
    return f"{_name(name)} {wording.listed(map(_value, values))}"


def _value(value: Any) -> str:
    return wording.shortest(value) if isinstance(value, int | float) else str(value)


def _name(factor: str) -> str:
    return "number of epochs" if factor == "at_epoch" else factor.replace("_", " ")
