"""Format numbers, percentages, counts, lists and durations as text.

Each function takes a value and returns its text; its name is the kind of text. A number with an
interval shows two significant digits of the interval's half width; the value and both ends have
the same decimals (`estimate`). A number without an interval has three significant digits
(`number`), a percentage at most three (`percent`), a cell of a table of runs four (`cell`).
Counts, batch sizes and limits that a user set are not rounded. Zero has no minus sign.
"""

import math
import re
from collections.abc import Iterable, Sequence
from typing import NamedTuple

ABSENT = "\N{EN DASH}"
MINUS = "\N{MINUS SIGN}"
_MAX_ROUNDING_ERROR = 1e-15  # a sum of doubles near 1 may miss zero by this number
_MIN_RELATIVE_WIDTH = 1e-6  # a narrower interval, relative to its value, does not set the digits
_MAX_DECIMALS = 6
_COLOUR_CODES = re.compile(r"\x1b\[[0-9;]*m")


class FormattedEstimate(NamedTuple):
    """A number and its interval, as text; the interval may be empty."""

    value: str
    low: str = ""
    high: str = ""

    @property
    def bracketed(self) -> str:
        """`55 [52, 57]`, or the value alone without an interval."""
        return f"{self.value} [{self.low}, {self.high}]" if self.low else self.value


class Unit(NamedTuple):
    """Unit of a quantity: the text after a number, and the multiplier of the number."""

    suffix: str = ""
    times: float = 1.0


PLAIN, POINTS = Unit(), Unit(" points", 100.0)


def shortest(value: float) -> str:
    text = repr(value if isinstance(value, int) else float(value))
    return _short_exponent(text).removesuffix(".0")


def number(value: float, digits: int = 3) -> str:
    return tick(float(f"{value:.{digits}g}"))


def cell(value: float, digits: int = 4) -> str:
    """Return a number of a table: significant digits, and all digits before the point."""
    if not math.isfinite(value):
        return ABSENT
    if value == int(value) and abs(value) < 1e6:
        return _with_minus_sign(str(int(value)))
    if 10**digits <= abs(value) < 1e9:
        return fixed(value, 0)
    return _significant(_zero_if_rounding_error(value), digits)


def fixed(value: float, decimals: int) -> str:
    return _with_minus_sign(f"{round(value, decimals) + 0.0:.{decimals}f}")


def estimate(
    value: float, low: float | None = None, high: float | None = None, unit: Unit = PLAIN
) -> FormattedEstimate:
    """Return a finite value and its interval, multiplied by a unit and rounded by the interval.

    The decimals show two significant digits of the narrower half of the interval, or of a tenth of
    its width if a half is narrower than that. If an end of an interval without zero would round to
    zero, each number has two significant digits. Without ends (None, NaN) the value has three.
    """
    ends = [math.nan if end is None else end for end in (low, high)]
    numbers = [unit.times * _zero_if_rounding_error(end) for end in (value, *ends)]
    scaled, lower_end, upper_end = numbers
    width = upper_end - lower_end
    if not 0 < width < math.inf:
        return FormattedEstimate(number(scaled))
    if width <= _MIN_RELATIVE_WIDTH * abs(scaled):
        return FormattedEstimate(*map(number, numbers))
    half = min(scaled - lower_end, upper_end - scaled)
    half = max(half, width / 10) if half > 0 else width / 2
    decimals = 1 - math.floor(math.log10(half))
    largest = max(map(abs, numbers))
    distance = max(lower_end, -upper_end)  # distance of zero from the interval, if outside
    if distance > 0 and round(distance, max(decimals, 0)) == 0:
        return FormattedEstimate(*(number(end, 2) for end in numbers))
    if decimals > _MAX_DECIMALS or largest >= 1e6:
        digits = max(1, min(6, decimals + 1 + math.floor(math.log10(largest))))
        return FormattedEstimate(*(_significant(end, digits) for end in numbers))
    return FormattedEstimate(*(fixed(end, max(decimals, 0)) for end in numbers))


def tick(value: float) -> str:
    if value == 0 or 1e-4 < abs(value) < 1e6:
        return _with_minus_sign(f"{value + 0.0:.10g}")
    return _with_minus_sign(shortest(float(f"{_zero_if_rounding_error(value):.4g}")))


def grouped(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else number(value)


def batch_size(value: float) -> str:
    return f"{value:.0f}" if value >= 100 else number(value)


def _significant(value: float, digits: int) -> str:
    return _with_minus_sign(_short_exponent(f"{value:.{digits}g}"))


def _short_exponent(text: str) -> str:
    mantissa, e, exponent = text.partition("e")
    return f"{mantissa}e{int(exponent)}" if e else text


def _with_minus_sign(text: str) -> str:
    # An exponent keeps its hyphen, so that it can be copied.
    return f"{MINUS}{text[1:]}" if text.startswith("-") else text


def _zero_if_rounding_error(value: float) -> float:
    return 0.0 if abs(value) < _MAX_ROUNDING_ERROR else value


def percent(share: float, decimals: int = 1) -> str:
    """Return a share as a percentage of at most three significant digits: `98.8 %`, `118 %`."""
    _, _, power = f"{100 * share:.2e}".partition("e")  # empty if the number is not finite
    return f"{fixed(100 * share, max(0, min(decimals, 2 - int(power or 0))))} %"


def p_value(p: float) -> str:
    """Return a p-value as `< 0.001` or with three decimals."""
    return "< 0.001" if p < 0.001 else f"{p:.3f}"


def plural(noun: str) -> str:
    return noun if noun.endswith("s") else f"{noun}s"


def count(number: int, noun: str, several: str = "") -> str:
    """Return `1 run` or `2 runs`; `several` is the plural, by default with an s."""
    return f"{number} {noun if number == 1 else several or plural(noun)}"


def aside(text: str) -> str:
    return f" ({text})" if text else ""


def titled(title: str, label: str) -> str:
    return f"{title}, {label}" if label else title


def listed(items: Iterable[object], last: str = "and") -> str:
    """Return items as a list in a sentence: `set, cases and vary`."""
    *first, end = [str(item) for item in items] or [""]
    return f"{', '.join(first)} {last} {end}" if first else end


def short_list(items: Sequence[str], count: int | None = None, most: int = 3) -> str:
    """Return a sentence's list of the first items, and how many of `count` items are left out."""
    hidden = (len(items) if count is None else count) - len(items[:most])
    return listed([*items[:most], *([f"{hidden:,} more"] if hidden else [])])


def duration(seconds: float) -> str:
    """Return a time with a unit: `40 s`, `12 min`, `2.5 h`."""
    if seconds < 90:
        return f"{seconds:.0f} s"
    if seconds < 90 * 60:
        return f"{seconds / 60:.0f} min"
    return f"{seconds / 3600:.1f} h"


def printable(text: str) -> str:
    """Return a text with escaped control characters and without a terminal's colour codes.

    Text from users' files is cleaned when it is read, because a terminal obeys control characters.
    """
    text = _COLOUR_CODES.sub("", text)
    return "".join(char if char.isprintable() else repr(char)[1:-1] for char in text)


def capital(text: str) -> str:
    return text if text.startswith("tf.") else text[:1].upper() + text[1:]


def lower(text: str) -> str:
    return text if text[1:2].isupper() else text[:1].lower() + text[1:]
