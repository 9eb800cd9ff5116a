"""Words for people: numbers, percentages, counts, lists, sizes, durations, first letters.

A number with an interval has two significant digits of the interval's half width, and the value
and both ends have as many decimals (`estimate`). A number without one has three significant digits
(`number`), a share in per cent no more (`percent`); rows of runs have four (`cell`). Counts, batch
sizes and limits that somebody set are given whole. A number that rounds to zero has no minus sign.
"""

import math
import re
from collections.abc import Iterable, Sequence
from typing import NamedTuple

ABSENT = "\N{EN DASH}"
MINUS = "\N{MINUS SIGN}"
_NOTHING = 1e-15  # of a sum of numbers near 1, what the rounding of doubles leaves in place of 0
_EXACT = 1e-6  # an interval narrower than so much of its value has no digits to show
_MOST_DECIMALS = 6
_COLOURS = re.compile(r"\x1b\[[0-9;]*m")


class FormattedEstimate(NamedTuple):
    """A number and its interval, as text; the interval may be empty."""

    value: str
    low: str = ""
    high: str = ""

    @property
    def bracketed(self) -> str:
        """`55 [52, 57]`, or the value alone where there is no interval."""
        return f"{self.value} [{self.low}, {self.high}]" if self.low else self.value


class Unit(NamedTuple):
    """How a quantity is written: what it is multiplied by, and what stands behind the number."""

    suffix: str = ""
    times: float = 1.0


PLAIN, POINTS = Unit(), Unit(" points", 100.0)


def shortest(value: float) -> str:
    text = repr(value if isinstance(value, int) else float(value))
    return _short_exponent(text).removesuffix(".0")


def number(value: float, digits: int = 3) -> str:
    return tick(float(f"{value:.{digits}g}"))


def cell(value: float, digits: int = 4) -> str:
    """Returns a number in a table: significant digits, but none before the point is lost."""
    if not math.isfinite(value):
        return ABSENT
    if value == int(value) and abs(value) < 1e6:
        return _minus(str(int(value)))
    if 10**digits <= abs(value) < 1e9:
        return fixed(value, 0)
    return _minus(_short_exponent(f"{_something(value):.{digits}g}"))


def fixed(value: float, decimals: int) -> str:
    return _minus(f"{round(value, decimals) + 0.0:.{decimals}f}")


def estimate(
    value: float, low: float | None = None, high: float | None = None, unit: Unit = PLAIN
) -> FormattedEstimate:
    """Returns a finite value and its interval, multiplied by a unit and rounded by the interval.

    All have the decimals that show two significant digits of its half width: of the narrower half,
    or of a tenth of the width where a median lies next to a quartile. Where an end of an interval
    beside zero would become zero, each number has two significant digits. A value without ends
    (None, NaN) has three.
    """
    ends = [math.nan if end is None else end for end in (low, high)]
    numbers = [unit.times * _something(one) for one in (value, *ends)]
    width = numbers[2] - numbers[1]
    if not 0 < width < math.inf:
        return FormattedEstimate(number(numbers[0]))
    if width <= _EXACT * abs(numbers[0]):
        return FormattedEstimate(*(number(one) for one in numbers))
    halves = (numbers[0] - numbers[1], numbers[2] - numbers[0])
    narrow = max(min(halves), width / 10) if min(halves) > 0 else width / 2
    decimals = 1 - math.floor(math.log10(narrow))
    largest = max(map(abs, numbers))
    nearest = max(numbers[1], -numbers[2])  # above zero where the interval holds no zero
    if nearest > 0 and round(nearest, max(decimals, 0)) == 0:
        return FormattedEstimate(*(number(one, 2) for one in numbers))
    if decimals > _MOST_DECIMALS or largest >= 1e6:
        digits = max(1, min(6, decimals + 1 + math.floor(math.log10(largest))))
        return FormattedEstimate(*(_minus(_short_exponent(f"{one:.{digits}g}")) for one in numbers))
    return FormattedEstimate(*(fixed(one, max(decimals, 0)) for one in numbers))


def tick(value: float) -> str:
    if value == 0 or 1e-4 < abs(value) < 1e6:
        return _minus(f"{value + 0.0:.10g}")
    return _minus(shortest(float(f"{_something(value):.4g}")))


def grouped(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else number(value)


def batch_size(value: float) -> str:
    return f"{value:.0f}" if value >= 100 else number(value)


def _short_exponent(text: str) -> str:
    # Without the sign and the zeros that the exponent does not need.
    mantissa, e, exponent = text.partition("e")
    return f"{mantissa}e{int(exponent)}" if e else text


def _minus(text: str) -> str:
    # A power keeps the sign that one types.
    return f"{MINUS}{text[1:]}" if text.startswith("-") else text


def _something(value: float) -> float:
    return 0.0 if abs(value) < _NOTHING else value


def percent(share: float, decimals: int = 1) -> str:
    """Returns a share as a percentage, of at most three significant digits: `98.8 %`, `118 %`."""
    _, _, power = f"{100 * share:.2e}".partition("e")  # no power: not a finite number
    return f"{fixed(100 * share, max(0, min(decimals, 2 - int(power or 0))))} %"


def p_value(p: float, equals: str = "") -> str:
    """Returns a p-value with what stands before its number: `= 0.012`, or `< 0.001`."""
    return "< 0.001" if p < 0.001 else f"{equals}{p:.3f}"


def plural(noun: str) -> str:
    return noun if noun.endswith("s") else f"{noun}s"


def count(number: int, noun: str, several: str = "") -> str:
    """Returns `1 run` or `2 runs`; `several` are the words for several, by default the plural."""
    return f"{number} {noun if number == 1 else several or plural(noun)}"


def aside(text: str) -> str:
    """Returns ` (eager)`, what stands in brackets behind something; nothing of an empty text."""
    return f" ({text})" if text else ""


def titled(title: str, label: str) -> str:
    """Returns `Loss, Adam`, a title with a label where there is one."""
    return f"{title}, {label}" if label else title


def listed(words: Iterable[object], last: str = "and") -> str:
    """Returns words as a sentence has them: `set, cases and vary`."""
    *first, end = [str(word) for word in words] or [""]
    return f"{', '.join(first)} {last} {end}" if first else end


def some(items: Sequence[str], count: int | None = None, most: int = 3) -> str:
    """Return the first items, and the number of the others of `count` in all."""
    more = (len(items) if count is None else count) - len(items[:most])
    return listed([*items[:most], *([f"{more:,} more"] if more else [])])


def size(count: float, digits: int = 3) -> str:
    """Returns a number of bytes in the unit that reads best: `2.67 MB`."""
    units = ("bytes", "kB", "MB", "GB")
    power = min(int(math.log10(max(count, 1)) // 3), 3)
    return f"{cell(count / 1000**power, digits)} {units[power]}"


def duration(seconds: float) -> str:
    """Returns a time in the unit that reads best: `40 s`, `12 min`, `2.5 h`."""
    if seconds < 90:
        return f"{seconds:.0f} s"
    if seconds < 90 * 60:
        return f"{seconds / 60:.0f} min"
    return f"{seconds / 3600:.1f} h"


def printable(text: str) -> str:
    """Return a line with escapes for control characters, and without a terminal's colours.

    Text from users' files passes here where it enters: a terminal obeys control characters.
    """
    text = _COLOURS.sub("", text)
    return "".join(char if char.isprintable() else repr(char)[1:-1] for char in text)


def capital(text: str) -> str:
    return text if text.startswith("tf.") else text[:1].upper() + text[1:]


def lower(text: str) -> str:
    return text if text[1:2].isupper() else text[:1].lower() + text[1:]
