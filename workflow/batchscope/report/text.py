"""Numbers and other values as words for people."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from markupsafe import Markup, escape

from batchscope.catalogue import parameters

ABSENT = "\N{EN DASH}"
MINUS = "\N{MINUS SIGN}"
_ALIGNED_SPAN = 100  # ratio of largest to smallest value up to which decimals are aligned


class Estimate(NamedTuple):
    """A number and its interval, as text; the interval may be empty."""

    value: str
    low: str = ""
    high: str = ""


def format_number(value: float, digits: int = 4) -> str:
    """Returns a number for reading: significant digits, no needless exponent."""
    if not math.isfinite(value):
        return ABSENT
    if value == int(value) and abs(value) < 1e6:
        return str(int(value))
    if 10**digits <= abs(value) < 1e9:
        return f"{value:.0f}"
    return _short_exponent(f"{value:.{digits}g}")


def common_decimals(values: Sequence[float], digits: int = 4) -> int | None:
    """Returns the decimals that show a column's largest value to so many digits.

    None where one number of decimals does not suit: whole numbers, values far apart, or very
    large or small ones.
    """
    sizes = [abs(value) for value in values if value and math.isfinite(value)]
    if not sizes or all(value == int(value) for value in sizes):
        return None
    largest = max(sizes)
    decimals = digits - 1 - math.floor(math.log10(largest))
    if largest > _ALIGNED_SPAN * min(sizes) or not 0 <= decimals <= 6:
        return None
    return min(decimals, max(_decimals(value, decimals) for value in sizes))


def _decimals(value: float, most: int) -> int:
    """Returns the decimals that a number needs, at most so many."""
    return next((count for count in range(most) if round(value, count) == value), most)


def _short_exponent(text: str) -> str:
    mantissa, e, exponent = text.partition("e")
    return f"{mantissa}e{int(exponent)}" if e else text


def format_interval(value: float | None, low: float | None, high: float | None) -> Estimate | None:
    """Returns a value and its interval, to two significant digits of the half-width.

    None where there is no value; a value without an interval keeps four digits.
    """
    if not is_number(value):
        return None
    if not (is_number(low) and is_number(high)) or high <= low:
        return Estimate(_signed(format_number(value)))
    numbers = (value, low, high)
    decimals = 1 - math.floor(math.log10((high - low) / 2))
    largest = max(abs(number) for number in numbers)
    if decimals > 6 or largest >= 1e6:
        digits = max(1, min(6, decimals + 1 + math.floor(math.log10(largest))))
        texts = [_short_exponent(f"{number:.{digits}g}") for number in numbers]
    else:
        texts = [f"{number:.{max(0, decimals)}f}" for number in numbers]
    return Estimate(*map(_signed, texts))


def _signed(text: str) -> str:
    return text.replace("-", MINUS)


def is_number(value: Any) -> bool:
    """Returns whether a value is a finite number."""
    return isinstance(value, int | float) and math.isfinite(value)


def number(text: str) -> float | None:
    """Returns the number behind a text, or None."""
    try:
        return float(text)
    except ValueError:
        return None


def format_p(value: float | None) -> str:
    """Returns a p-value for reading."""
    if not is_number(value):
        return ABSENT
    return "< 0.001" if value < 0.001 else f"{value:.3f}"


def lower(label: str) -> str:
    """Returns a label as it stands within a sentence; a name such as SAM keeps its capitals."""
    return label if label[1:2].isupper() else label[:1].lower() + label[1:]


def capital(text: str) -> str:
    """Returns a text with a capital first letter."""
    return text[:1].upper() + text[1:]


def plural(count: int, noun: str) -> str:
    """Returns a count and its noun: `1 run`, `2 runs`."""
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


def plain(value: Any) -> str:
    """Returns any value of a record or configuration as text."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        return parameters.format_number(value) if math.isfinite(value) else ABSENT
    if isinstance(value, dict):
        return json.dumps(value, ensure_ascii=False)
    if isinstance(value, list | tuple):
        return listed(value)
    return ABSENT if value is None else str(value)


def listed(values: Iterable[Any]) -> str:
    """Returns values with commas between them."""
    return ", ".join(plain(value) for value in values)


def size(count: float) -> str:
    """Returns a number of bytes in units for people."""
    for unit in ("bytes", "kB", "MB", "GB"):
        if count < 1000 or unit == "GB":
            return f"{format_number(count, 3)} {unit}"
        count /= 1000
    raise AssertionError


def moment(text: str) -> str:
    """Returns an ISO time without its seconds: `2026-11-21 02:53 UTC`."""
    match = re.fullmatch(r"(\d{4}-\d\d-\d\d)[T ](\d\d:\d\d)(?::[\d.]+)?(.*)", text)
    if match is None:
        return text
    zone = {"Z": "UTC", "+00:00": "UTC", "": ""}.get(match[3], match[3])
    return f"{match[1]} {match[2]} {zone}".rstrip()


def marked(text: str) -> Markup:
    """Returns escaped text with what stands between backticks as code."""
    parts = re.split(r"(``?)(.+?)\1", text)
    plain_parts, codes = parts[::3], parts[2::3]
    result = Markup(escape(plain_parts[0]))
    for code, rest in zip(codes, plain_parts[1:], strict=True):
        result += Markup("<code>{}</code>{}").format(code, rest)
    return result
