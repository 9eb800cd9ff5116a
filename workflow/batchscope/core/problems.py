"""Problems of a study file: a place, the received value, the expected one."""

import difflib
import re
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, NamedTuple

from batchscope.core import display

Place = tuple[str | int, ...]  # keys and positions from the root of the configuration

_SHOWN = 60  # characters of a received value
_MAX_NAMED = 32  # names in a message that suggests none
_MAX_LISTED = 20  # names in a message that suggests one


class Problem(NamedTuple):
    """A problem at a place of a study file, with the received value and the nearest fix."""

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
    return text if len(text) <= _SHOWN else text[: _SHOWN - 3] + "..."


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
    """Return the name that is most similar to a misspelt one; None if none is similar."""
    plain = str(text).lower().replace("-", "_").replace(" ", "_")
    return next(iter(difflib.get_close_matches(plain, list(names), n=1)), None)


def hint(text: str, names: Iterable[str]) -> str:
    """Return the correction of a text: a missing blank, or the nearest name."""
    match = nearest(text, names)
    return missing_blank(text) or (f" Did you mean '{match}'?" if match else "")


def missing_blank(text: str) -> str:
    """Return the hint that `key:value` lacks a blank, without which YAML reads it as a text."""
    match = re.match(r"([a-z]\w+):(?![\s/:])(.+)", text)
    return f" Did you mean `{match[1]}: {clip(match[2])}`, with a blank?" if match else ""


def received(
    place: Place, value: Any, expected: str, names: Iterable[str] = (), why: str = ""
) -> Problem:
    fix = hint(value, names) if isinstance(value, str) else ""
    return Problem(place, f"Expected {expected.rstrip(',')} (received {show(value)}{why}).{fix}")


def unmet(path: Path, expected: Callable[[Path], Any]) -> str | None:
    """Return None if a path is as expected; otherwise the system's reason, which may be empty.

    Args:
        expected: Such as `Path.is_file`, or a function that reads the path.

    Returns:
        Such as ` (Permission denied)`.
    """
    try:
        return "" if expected(path) is False else None
    except OSError as error:
        return f" ({error.strerror})"


def missing(place: Place, expected: str) -> Problem:
    return Problem(place, f"Missing key. Expected {expected}.")


def unknown(place: Place, noun: str, names: Iterable[str]) -> Problem:
    """Return the problem of an unknown key, the last part of `place`."""
    names = sorted(names)
    fix = hint(str(place[-1]), names)
    if fix and len(names) > _MAX_LISTED:  # the list would hide the nearest name
        return Problem(place, f"Unknown {noun}.{fix}")
    choices = ", ".join(names[:_MAX_NAMED]) or "none"
    if hidden := len(names[_MAX_NAMED:]):
        choices += f" and {hidden} more, which `python workflow/run.py explain` lists"
    return Problem(place, f"Unknown {noun}.{fix} Known {display.plural(noun)}: {choices}.")


def merged(problems: Iterable[Problem]) -> list[Problem]:
    """Return the problems sorted by place, the first of each place only."""
    by_place = {problem.place: problem for problem in reversed([*problems])}
    # Positions in lists come before keys, and by their numbers.
    return sorted(
        by_place.values(),
        key=lambda problem: [(isinstance(part, str), part) for part in problem.place],
    )
