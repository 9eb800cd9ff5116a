"""Make the messages about a study file: `place: problem (received X). Fix.`

A function returns a whole `Problem` (`received`, `missing_key`, `unknown`) or a part of its text.
"""

import difflib
import re
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, NamedTuple

from batchscope.core import display
from batchscope.core.errors import ConfigError

Place = tuple[str | int, ...]  # keys and positions from the root of the configuration

_MAX_CHARACTERS = 60  # longer received values are cut
_MAX_NAMES = 20  # names that a message lists


class Problem(NamedTuple):
    """A problem at a place of a study file; the text has the received value and the fix."""

    place: Place
    text: str

    @property
    def line(self) -> str:
        return f"{place_text(self.place)}: {self.text}"


def place_text(place: Place) -> str:
    """Return a place as text: `experiments.gap.vary.learning_rate[2]`."""
    parts = (f"[{part}]" if isinstance(part, int) else f".{clip(part)}" for part in place)
    return "".join(parts).removeprefix(".")


def clip(text: str) -> str:
    text = display.printable(text)
    return text if len(text) <= _MAX_CHARACTERS else text[: _MAX_CHARACTERS - 3] + "..."


def show(value: Any) -> str:
    """Return a received value in words, on one line."""
    if value is None:
        return "nothing"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return f"'{clip(value)}'" if value else "an empty text"
    if isinstance(value, dict):
        return "a map" if value else "an empty map"
    if isinstance(value, list | tuple):
        return "a list" if value else "an empty list"
    if isinstance(value, float) and value.is_integer() and abs(value) < 1e15:
        return str(int(value))
    return clip(str(value))


def nearest(text: Any, names: Iterable[str]) -> str | None:
    plain = str(text).lower().replace("-", "_").replace(" ", "_")
    return next(iter(difflib.get_close_matches(plain, list(names), n=1)), None)


def hint(text: str, names: Iterable[str]) -> str:
    """Return the question that suggests a missing blank or the nearest name; "" without one."""
    match = nearest(text, names)
    return missing_blank(text) or (f" Did you mean '{match}'?" if match else "")


def missing_blank(text: str) -> str:
    """Return the hint that `key:value` lacks a blank; YAML reads it as a text."""
    match = re.match(r"([a-z]\w+):(?![\s/:])(.+)", text)
    return f" Did you mean `{match[1]}: {clip(match[2])}`, with a blank?" if match else ""


def received(
    place: Place, value: Any, expected: str, names: Iterable[str] = (), why: str = ""
) -> Problem:
    fix = hint(value, names) if isinstance(value, str) else ""
    return Problem(place, f"Expected {expected.rstrip(',')} (received {show(value)}{why}).{fix}")


def why_unmet(path: Path, expected: Callable[[Path], Any]) -> str | None:
    """Return the reason why a path is not as expected; None if it is.

    Args:
        expected: A test such as `Path.is_file`, or a function that reads the path.

    Returns:
        The system's reason, such as ` (Permission denied)`; "" if the system states none.
    """
    try:
        return "" if expected(path) is False else None
    except OSError as error:
        return f" ({error.strerror})"


def unknown(place: Place, noun: str, names: Iterable[str]) -> Problem:
    """Return the problem that the last part of a place is not among the names of its kind."""
    names = sorted(names)
    fix = hint(str(place[-1]), names)
    if fix and len(names) > _MAX_NAMES:  # a long list would hide the suggestion
        return Problem(place, f"Unknown {noun}.{fix}")
    choices = display.short_list(names, most=_MAX_NAMES) or "none"
    return Problem(place, f"Unknown {noun}.{fix} Known {display.plural(noun)}: {choices}.")


def raise_sorted(problems: Iterable[Problem]) -> None:
    """Raise a `ConfigError` with the first problem of each place, sorted by place, if any."""
    by_place = {problem.place: problem for problem in reversed([*problems])}
    # Numbers and texts cannot be compared, so positions in lists come before keys.
    places = sorted(by_place, key=lambda place: [(isinstance(part, str), part) for part in place])
    if places:
        raise ConfigError([by_place[place].line for place in places])
