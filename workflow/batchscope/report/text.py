"""Values of tables as texts of the page and the terminal: labels, units, and missing values.

`core.display` formats a number. A function belongs here if it also knows the column, or if it turns
a missing value into an empty text. All functions are filters of templates.
"""

import json
import math
import re
from collections.abc import Mapping, Sequence
from typing import Any

import pandas
from markupsafe import Markup, escape

from batchscope.core import display
from batchscope.core.display import PLAIN, POINTS, FormattedEstimate, Unit
from batchscope.study import table_entries, tasks
from batchscope.study.outcomes import MIN_SEEDS_FOR_INTERVAL, Verdict
from batchscope.study.table_entries import clipped_to_range

_SECONDS, _MILLISECONDS = Unit(" s"), Unit(" ms", 1000.0)
ESTIMATE = ("estimate", "low", "high")
# Cost to a target -> label. Costs are no columns of runs.csv.
_COSTS = {"updates": "Updates", "examples": "Examples", "seconds": "Time"}
VERDICTS = {
    Verdict.WITHIN: "within the margin",
    Verdict.BEYOND: "worse than the margin allows",
    Verdict.SUPPORTED: "supported",
    Verdict.CONTRADICTED: "contradicted",
    Verdict.NOT_RESOLVED: "not resolved",
    Verdict.PROVISIONAL: "fewer than 6 seeds",
    Verdict.ONE_SEED: "one seed",
    Verdict.NOT_TESTABLE: "not testable",
}


def label(column: str) -> str:
    described = None if column in _COSTS else table_entries.describe(column)
    name = described.label if described else _COSTS.get(column)
    return name or display.capital(column.replace("_", " "))


def unit(column: str, values: Sequence[Any] = ()) -> Unit:
    """Return the unit of an outcome; short times are in milliseconds."""
    if "seconds" in column:
        times = [float(value) for value in values if pandas.notna(value)]
        return _MILLISECONDS if times and max(times) < 1 else _SECONDS
    described = table_entries.describe(column)
    name = described.unit if described and column not in _COSTS else ""
    return Unit(f" {name}") if name not in ("", "share") else PLAIN


def difference_unit(column: str) -> Unit:
    return POINTS if tasks.is_share(column) else PLAIN


def difference(row: Mapping[str, Any]) -> FormattedEstimate:
    values = with_interval([row[name] for name in ESTIMATE], row["n"])
    return estimate(values, difference_unit(row["outcome"])) or FormattedEstimate("")


def margin(value: float, unit: Unit) -> str:
    text = rounded(unit.times * abs(float(value)))
    return text + (unit.suffix.rstrip("s") if text == "1" else unit.suffix)


def with_interval(values: Sequence[Any], count: float) -> Sequence[Any]:
    return [values[0], math.nan, math.nan] if count < MIN_SEEDS_FOR_INTERVAL else values


def integer(value: Any) -> str:
    return "" if pandas.isna(value) else f"{int(value)}"


def rounded(value: Any) -> str:
    return "" if pandas.isna(value) else display.cell(float(value), 3)


def level(column: str, values: Sequence[Any], unit: Unit = PLAIN) -> str:
    """Return a mean with its interval, within the possible values of the outcome."""
    value, *ends = values
    ends = ends if any(map(pandas.isna, ends)) else clipped_to_range(column, map(float, ends))
    return bracketed([value, *ends], unit)


def bracketed(values: Sequence[Any], unit: Unit = PLAIN) -> str:
    """Return a value with its interval, `1.27 [1.13, 1.44]`; an unbounded end is a dash."""
    formatted = estimate(values, unit)
    return formatted.bracketed if formatted else ""


def estimate(values: Sequence[Any], unit: Unit = PLAIN) -> FormattedEstimate | None:
    """Return a value and the ends of its interval as text; None without a finite value."""
    value, low, high = (math.nan if pandas.isna(end) else float(end) for end in values)
    if not math.isfinite(value):
        return None
    formatted = display.estimate(value, low, high, unit)
    if math.isnan(low) != math.isnan(high):  # The interval is unbounded on one side.
        ends = [display.cell(unit.times * end, 3) for end in (low, high)]
        formatted = formatted._replace(low=ends[0], high=ends[1])
    return formatted


def is_number(value: Any) -> bool:
    return isinstance(value, int | float) and math.isfinite(value)


def parsed(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None


def plain(value: Any) -> str:
    """Return a value of a record or a configuration as text."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        return display.shortest(value) if math.isfinite(value) else display.ABSENT
    if isinstance(value, dict):
        return json.dumps(value, ensure_ascii=False)
    if isinstance(value, list | tuple):
        return ", ".join(map(plain, value))
    return display.ABSENT if value is None else str(value)


def markdown(text: Any) -> Markup:
    marked = re.sub(r"([\\`*_\[\]|])", r"\\\1", str(escape(text)))
    return Markup(" ".join(marked.replace("&#34;", '"').replace("&#39;", "'").split()))


def counted(number: int, noun: str) -> str:
    """Return a count as `display.count` does, with commas in large numbers: `1,234 runs`."""
    return f"{number:,} {noun if number == 1 else display.plural(noun)}"


def cells(factors: list[tuple[str, list[str]]], last: str = "and") -> str:
    """Return names with their values: `batch size 4, epoch 1 and 2`."""
    texts = ([name, display.listed(values, last)] for name, values in factors)
    return ", ".join(" ".join(filter(None, pair)) for pair in texts)
