"""Values as pages and terminal show them, most as filters of templates; see also `wording`."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping, Sequence
from typing import Any

import pandas
from markupsafe import Markup, escape

from batchscope import wording
from batchscope.study import columns, tasks
from batchscope.study.outcomes import LEAST_WITH_INTERVAL, Verdict
from batchscope.study.tables import clipped
from batchscope.wording import PLAIN, POINTS, FormattedEstimate, Unit

_SECONDS, _MILLISECONDS = Unit(" s"), Unit(" ms", 1000.0)
ESTIMATE = ("estimate", "low", "high")
# Outcomes that no table of runs has: what is taken to a target.
_TAKEN = {"updates": "Updates", "examples": "Examples", "seconds": "Time"}
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
    found = columns.describe(column)
    named = found.label if found and column not in _TAKEN else ""
    return named or _TAKEN.get(column) or wording.capital(column.replace("_", " "))


def unit(column: str, values: Sequence[Any] = ()) -> Unit:
    """Returns how an outcome is written: a share as it is, short times in milliseconds."""
    if "seconds" in column:
        known = [float(value) for value in values if pandas.notna(value)]
        return _MILLISECONDS if known and max(known) < 1 else _SECONDS
    found = columns.describe(column)
    named = found.unit if found and column not in _TAKEN else ""
    return Unit(f" {named}") if named not in ("", "share") else PLAIN


def of_difference(column: str) -> Unit:
    return POINTS if tasks.is_share(column) else PLAIN


def difference(row: Mapping[str, Any]) -> tuple[str, str]:
    values = with_interval([row[name] for name in ESTIMATE], row["n"])
    return _parts(values, of_difference(row["outcome"]))


def margin(value: float, how: Unit) -> str:
    text = rounded(how.times * abs(float(value)))
    return text + (how.suffix.rstrip("s") if text == "1" else how.suffix)


def with_interval(values: Sequence[Any], count: float) -> Sequence[Any]:
    return [values[0], math.nan, math.nan] if count < LEAST_WITH_INTERVAL else values


def whole(value: Any) -> str:
    """Returns a whole number as text; an empty one where there is none."""
    return "" if pandas.isna(value) else f"{int(value)}"


def rounded(value: Any) -> str:
    """Returns a number within a sentence; an empty text where there is none."""
    return "" if pandas.isna(value) else wording.number(float(value))


def level(column: str, values: Sequence[Any], unit: Unit = PLAIN) -> str:
    """Returns a mean with its interval, cut where the outcome cannot be."""
    value, *ends = values
    if any(map(pandas.isna, ends)):
        return bracketed(values, unit)
    return bracketed([value, *clipped(column, map(float, ends))], unit)


def bracketed(values: Sequence[Any], unit: Unit = PLAIN) -> str:
    """Returns a value with its interval, `1.27 [1.13, 1.44]`; an open end is a dash."""
    return " ".join(filter(None, _parts(values, unit)))


def _parts(values: Sequence[Any], unit: Unit) -> tuple[str, str]:
    value, low, high = (math.nan if pandas.isna(each) else float(each) for each in values)
    if math.isnan(value):
        return "", ""
    if math.isnan(low) == math.isnan(high):
        found = wording.estimate(value, low, high, unit)
        return found.value, f"[{found.low}, {found.high}]" if found.low else ""
    ends = ["–" if math.isnan(end) else wording.number(unit.times * end) for end in (low, high)]
    return wording.number(unit.times * value), f"[{', '.join(ends)}]"


def format_interval(
    value: float | None, low: float | None, high: float | None
) -> FormattedEstimate | None:
    """Returns a value and its interval as `wording.estimate` does; None where there is no value."""
    return wording.estimate(value, low, high) if is_number(value) else None


def is_number(value: Any) -> bool:
    return isinstance(value, int | float) and math.isfinite(value)


def parsed(text: str) -> float | None:
    """Returns the number behind a text, or None."""
    try:
        return float(text)
    except ValueError:
        return None


def plain(value: Any) -> str:
    """Returns any value of a record or configuration as text."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        return wording.shortest(value) if math.isfinite(value) else wording.ABSENT
    if isinstance(value, dict):
        return json.dumps(value, ensure_ascii=False)
    if isinstance(value, list | tuple):
        return ", ".join(map(plain, value))
    return wording.ABSENT if value is None else str(value)


def markdown(text: Any) -> Markup:
    marked = re.sub(r"([\\`*_\[\]|])", r"\\\1", str(escape(text)))
    return Markup(" ".join(marked.replace("&#34;", '"').replace("&#39;", "'").split()))


def counted(number: int, noun: str, several: str = "") -> str:
    """Returns a number with its noun: `1 run`, `1,000 runs`."""
    return f"{number:,} {noun if number == 1 else several or wording.plural(noun)}"


def cells(found: list[tuple[str, list[str]]], last: str = "and") -> str:
    """Returns names with their values: `batch size 4, epoch 1 and 2`."""
    return ", ".join(" ".join(filter(None, [name, wording.listed(of, last)])) for name, of in found)
