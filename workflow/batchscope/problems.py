"""What is wrong with a configuration: a place, what was received, what is expected.

`Findings` collects it during a pass over the configuration.
"""

import difflib
import functools
import re
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from batchscope import wording

Place = tuple[str | int, ...]  # keys and positions from the root of the configuration

_SHOWN = 60  # characters of a received value

_MOST_NAMED = 32  # known names where none was probably meant
_MOST_LISTED = 20  # known names beside the one that was probably meant


@dataclass(frozen=True)
class Problem:
    """What was received at a place, what is expected, and the nearest fix."""

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
    text = text if text.isprintable() else repr(text)[1:-1]
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
    return clip(str(value))


def nearest(text: Any, known: Iterable[str]) -> str | None:
    """Returns the known name that a misspelt one most likely stands for."""
    known = list(known)
    plain = str(text).lower().replace("-", "_").replace(" ", "_")
    if plain in known:
        return plain
    matches = difflib.get_close_matches(plain, known, n=1, cutoff=0.6)
    return matches[0] if matches else None


def _hint(text: Any, known: Iterable[str]) -> str:
    match = nearest(text, known)
    return f" Did you mean '{match}'?" if match else ""


def missing_blank(text: str) -> str:
    """Returns the hint that `key:value` lacks a blank, which makes a text of it; else nothing."""
    match = re.match(r"([a-z]\w+):(?![\s/:])(.+)", text)
    return f" Did you mean `{match[1]}: {clip(match[2])}`, with a blank?" if match else ""


def received(
    place: Place, value: Any, expected: str, known: Iterable[str] = (), why: str = ""
) -> Problem:
    """Returns the problem of a value that is not what is expected there."""
    verb = "are" if expected.startswith(("at most", "at least", "two ")) else "is"
    text = f"received {show(value)}{why}; {expected} {verb} expected."
    hint = (missing_blank(value) or _hint(value, known)) if isinstance(value, str) else ""
    return Problem(place, text + hint)


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
    return Problem(place, f"missing; {expected} is expected.")


def unknown(
    place: Place, noun: str, known: Iterable[str], aliases: Mapping[str, str] | None = None
) -> Problem:
    """Returns the problem of a key, the last of `place`, that is none of the known ones.

    Args:
        aliases: Other names of known ones, as in paths -> the known one.
    """
    known, key = sorted(known), str(place[-1])
    meant = (aliases or {}).get(key, key)
    hint = missing_blank(key) or _hint(meant, known)
    if hint and len(known) > _MOST_LISTED:  # the list would hide the word that was meant
        return Problem(place, f"unknown {noun}.{hint}")
    choices = ", ".join(known[:_MOST_NAMED]) or "none"
    if more := len(known[_MOST_NAMED:]):
        choices += f" and {more} more, which `python workflow/run.py explain` lists"
    return Problem(place, f"unknown {noun}.{hint} Known {wording.plural(noun)}: {choices}.")


def inside(raw: Any, part: str | int) -> Any:
    """Returns what a map or list of the file has at a key or position; None where it has not."""
    if isinstance(raw, dict):
        return raw.get(part)
    there = isinstance(raw, list) and isinstance(part, int) and part < len(raw)
    return raw[part] if there else None


def within(place: Place, roots: Collection[Place]) -> bool:
    return any(place[:length] in roots for length in range(len(place) + 1))


def merged(problems: Iterable[Problem]) -> list[Problem]:
    """Returns the problems sorted by place, the first of each place only."""
    by_place: dict[Place, Problem] = {}
    for problem in problems:
        by_place.setdefault(problem.place, problem)
    return [by_place[place] for place in sorted(by_place, key=order)]


def order(place: Place) -> list[tuple[bool, int, str]]:
    return [(False, part, "") if isinstance(part, int) else (True, 0, part) for part in place]


class Findings:
    """The problems and warnings of one pass over a configuration, at their places in the file.

    Args:
        raw: The file.
        structure: Problems of its structure; nothing at or below their places is reported again.
        survivors: Lists that lost broken items -> the positions of those that are left.
        replaced: Places whose values the section `reduced` gave: in the file they stand there.

    Attributes:
        problems: In the order of their finding; see `merged`.
        warnings: Lines on what does not stop a study, each once.
    """

    def __init__(
        self,
        raw: Any,
        structure: list[Problem],
        survivors: Mapping[Place, list[int]],
        replaced: Collection[Place] = (),
    ) -> None:
        self.problems: list[Problem] = list(structure)
        self.warnings: dict[str, None] = {}
        self.structure = frozenset(problem.place for problem in structure)
        self.raw, self._survivors, self._replaced = raw, survivors, frozenset(replaced)

    def _origin(self, place: Place) -> Place:
        """Returns where in the file something stands that a check found in the sound parts."""
        found: Place = ()
        raw = self.raw
        if within(place, self._replaced):
            found, raw = ("reduced",), self.raw["reduced"]
        for count, part in enumerate(place):
            if isinstance(raw, str):
                continue  # a word that stands for a list of it
            if isinstance(part, int):
                part = self._survivors.get(place[:count], range(part + 1))[part]
            found = (*found, part)
            raw = inside(raw, part)
        return found

    def report(self, *problems: Problem) -> None:
        """Takes problems, but those that the structure explains."""
        for problem in problems:
            place = self._origin(problem.place)
            if not within(place, self.structure):
                self.problems.append(Problem(place, problem.text))

    def warn(self, problem: Problem) -> None:
        self.warnings[Problem(self._origin(problem.place), problem.text).line] = None

    def broken(self, *roots: Place) -> bool:
        """Whether a problem lies at or below a root, in the file or in `reduced`."""
        wide = [*map(self._origin, roots), *(("reduced", *root) for root in roots)]
        return any(within(problem.place, wide) for problem in self.problems)

    def misses_a_key(self, home: Place, known: Collection[str]) -> bool:
        """Whether a map cannot be read, or has a key at fault that is none of the known ones."""
        at = self._origin(home)
        return within(at, self.structure) or any(
            place[: len(at)] == at and not {*place[len(at) :]} & {*known}
            for place in self.structure
        )

    def names_at(self, place: Place) -> set[str]:
        """Returns the keys of a map of the file or of its section `reduced`, sound or not."""
        found: set[str] = set()
        for root in ((), ("reduced",)):
            raw = functools.reduce(inside, (*root, *place), self.raw)
            found |= {*raw} if isinstance(raw, dict) else set()
        return found
