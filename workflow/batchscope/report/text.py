"""Numbers and other values as the page shows them; see also `batchscope.wording`."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Sequence
from typing import Any

from markupsafe import Markup, escape

from batchscope import wording
from batchscope.wording import Estimate

_ALIGNED_SPAN = 100  # ratio of largest to smallest value up to which decimals are aligned


def common_decimals(values: Sequence[float]) -> int | None:
    """Returns the decimals that show a column's largest value to four digits.

    None of whole numbers, values far apart, or very large or small ones.
    """
    sizes = [abs(value) for value in values if value and math.isfinite(value)]
    if not sizes or all(value == int(value) for value in sizes):
        return None
    largest = max(sizes)
    decimals = 3 - math.floor(math.log10(largest))
    if largest > _ALIGNED_SPAN * min(sizes) or not 0 <= decimals <= 6:
        return None
    enough = (few for few in range(decimals) if all(round(size, few) == size for size in sizes))
    return next(enough, decimals)


def format_interval(value: float | None, low: float | None, high: float | None) -> Estimate | None:
    """Returns a value and its interval as `wording.estimate` does; None where there is no value."""
    return wording.estimate(value, low, high) if is_number(value) else None


def is_number(value: Any) -> bool:
    """Returns whether a value is a finite number."""
    return isinstance(value, int | float) and math.isfinite(value)


def parsed(text: str) -> float | None:
    """Returns the number behind a text, or None."""
    try:
        return float(text)
    except ValueError:
        return None


def format_p(value: float | None) -> str:
    """Returns a p-value for reading."""
    return wording.p_value(value) if is_number(value) else wording.ABSENT


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
