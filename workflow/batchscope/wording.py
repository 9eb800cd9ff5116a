"""Words for people: numbers, percentages, counts, lists, sizes, durations, first letters.

Texts that names and paths are made of are `batchscope.catalogue.parameters`' own.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable

ABSENT = "\N{EN DASH}"

Write = Callable[[float], str]


def shortest(value: float) -> str:
    """Returns the shortest text of a finite number that reads back as it: 0.1, 256, 1e-5."""
    text = repr(value if isinstance(value, int) else float(value))
    return short_exponent(text).removesuffix(".0")


def number(value: float, digits: int = 3) -> str:
    """Returns a number within a sentence: rounded to significant digits, 1230 for 1234.5."""
    return tick(float(f"{value:.{digits}g}"))


def cell(value: float, digits: int = 4) -> str:
    """Returns a number in a table: significant digits, but none before the point is lost."""
    if not math.isfinite(value):
        return ABSENT
    if value == int(value) and abs(value) < 1e6:
        return str(int(value))
    if 10**digits <= abs(value) < 1e9:
        return f"{value:.0f}"
    return short_exponent(f"{value:.{digits}g}")


def tick(value: float) -> str:
    """Returns a number on an axis: 0.05, 20, 2e-6."""
    if value == 0 or 1e-4 < abs(value) < 1e6:
        return f"{value:.10g}"
    return shortest(float(f"{value:.4g}"))


def grouped(value: float) -> str:
    """Returns a number of a wide range: 12,345 from 100 on, three significant digits below."""
    return f"{value:,.0f}" if value >= 100 else number(value)


def short_exponent(text: str) -> str:
    """Returns the text of a number without sign and zeros that its exponent does not need."""
    mantissa, e, exponent = text.partition("e")
    return f"{mantissa}e{int(exponent)}" if e else text


def percent(share: float, decimals: int = 1) -> str:
    """Returns a share as a percentage: `98.8 %`."""
    return f"{100 * share:.{decimals}f} %"


def points(difference: float) -> str:
    """Returns a difference of shares in percentage points: `1.2 points`."""
    return f"{100 * difference:.1f} points"


def interval(low: float, high: float, write: Write = number) -> str:
    """Returns `95 % interval 1.2 to 1.4`, or an empty string where there is none."""
    if not (math.isfinite(low) and math.isfinite(high)):
        return ""
    return f"95 % interval {write(low)} to {write(high)}"


def plural(noun: str) -> str:
    """Returns the plural of a noun, which may be one already."""
    return noun if noun.endswith("s") else f"{noun}s"


def count(number: int, noun: str, several: str = "") -> str:
    """Returns a number with its noun: `1 run`, `2 runs`.

    Args:
        number: How many.
        noun: One of them, with what else of the sentence agrees with the number.
        several: The same of several; the noun's plural by default.
    """
    return f"{number} {noun if number == 1 else several or plural(noun)}"


def listed(words: Iterable[object], last: str = "and") -> str:
    """Returns words as a sentence has them: `set, cases and vary`."""
    *first, end = [str(word) for word in words] or [""]
    return f"{', '.join(first)} {last} {end}" if first else end


def size(count: float, digits: int = 3) -> str:
    """Returns a number of bytes in the unit that reads best: `2.67 MB`."""
    for unit in ("bytes", "kB", "MB"):
        if count < 1000:
            return f"{cell(count, digits)} {unit}"
        count /= 1000
    return f"{cell(count, digits)} GB"


def duration(seconds: float) -> str:
    """Returns a time in the unit that reads best: `40 s`, `12 min`, `2.5 h`."""
    if seconds < 90:
        return f"{seconds:.0f} s"
    if seconds < 90 * 60:
        return f"{seconds / 60:.0f} min"
    return f"{seconds / 3600:.1f} h"


def capital(text: str) -> str:
    """Returns a text with a capital first letter."""
    return text[:1].upper() + text[1:]


def lower(text: str) -> str:
    """Returns a text as it stands within a sentence; a name such as SAM keeps its capitals."""
    return text if text[1:2].isupper() else text[:1].lower() + text[1:]
