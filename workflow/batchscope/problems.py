"""Problems of a study file: a place, the received value, the expected one."""

import difflib
import re
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, NamedTuple

from batchscope import wording

Place = tuple[str | int, ...]  # keys and positions from the root of the configuration

_SHOWN = 60  # characters of a received value

_MOST_NAMED = 32  # known names where none was probably meant
_MOST_LISTED = 20  # known names beside the one that was probably meant


class Problem(NamedTuple):
    """A problem at a place of a study file, with the received value and the nearest fix."""

    place: Place
    text: str

    @property
    def line(self) -> str:
        return f"{place_text(self.place)}: {self.text}"


def place_text(place: Place) -> str:
    """Returns a place as text: `experiments.gap.vary.learning_rate[2]`."""
    text = ""
    for part in place:
        if isinstance(part, int):
            text += f"[{part}]"
        else:
            text += f".{clip(part)}" if text else clip(part)
    return text


def clip(text: str) -> str:
    text = wording.printable(text)
    return text if len(text) <= _SHOWN else text[: _SHOWN - 3] + "..."


def show(value: Any) -> str:
    """Returns a received value in words, on one line."""
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


def nearest(text: Any, known: Iterable[str]) -> str | None:
    """Returns the known name that a misspelt one most likely stands for."""
    known = list(known)
    plain = str(text).lower().replace("-", "_").replace(" ", "_")
    if plain in known:
        return plain
    matches = difflib.get_close_matches(plain, known, n=1, cutoff=0.6)
    return matches[0] if matches else None


def hint(text: str, known: Iterable[str]) -> str:
    """Return the correction of a text: a missing blank, or the nearest known name."""
    match = nearest(text, known)
    return missing_blank(text) or (f" Did you mean '{match}'?" if match else "")


def missing_blank(text: str) -> str:
    """Returns the hint that `key:value` lacks a blank, which makes a text of it; else nothing."""
    match = re.match(r"([a-z]\w+):(?![\s/:])(.+)", text)
    return f" Did you mean `{match[1]}: {clip(match[2])}`, with a blank?" if match else ""


def received(
    place: Place, value: Any, expected: str, known: Iterable[str] = (), why: str = ""
) -> Problem:
    """Return the problem of a value that is not as expected."""
    fix = hint(value, known) if isinstance(value, str) else ""
    return Problem(place, f"Expected {expected.rstrip(',')} (received {show(value)}{why}).{fix}")


def unmet(path: Path, expected: Callable[[Path], Any]) -> str | None:
    """Returns None where a path is what is expected; else "", or what the system says of it.

    Args:
        expected: Such as `Path.is_file`, or what reads the path.

    Returns:
        Such as ` (Permission denied)`, where the system does not let anyone look.
    """
    try:
        return "" if expected(path) is False else None
    except OSError as error:
        return f" ({error.strerror})"


def missing(place: Place, expected: str) -> Problem:
    return Problem(place, f"Missing key. Expected {expected}.")


def unknown(place: Place, noun: str, known: Iterable[str]) -> Problem:
    """Return the problem of a key, the last of `place`, that is none of the known ones."""
    known, key = sorted(known), str(place[-1])
    fix = hint(key, known)
    if fix and len(known) > _MOST_LISTED:  # the list would hide the nearest name
        return Problem(place, f"Unknown {noun}.{fix}")
    choices = ", ".join(known[:_MOST_NAMED]) or "none"
    if more := len(known[_MOST_NAMED:]):
        choices += f" and {more} more, which `python workflow/run.py explain` lists"
    return Problem(place, f"Unknown {noun}.{fix} Known {wording.plural(noun)}: {choices}.")


def merged(problems: Iterable[Problem]) -> list[Problem]:
    """Return the problems sorted by place, the first of each place only."""
    by_place: dict[Place, Problem] = {}
    for problem in problems:
        by_place.setdefault(problem.place, problem)
    return [by_place[place] for place in sorted(by_place, key=_order)]


def _order(place: Place) -> list[tuple[bool, int, str]]:
    return [(False, part, "") if isinstance(part, int) else (True, 0, part) for part in place]
