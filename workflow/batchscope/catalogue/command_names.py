"""Runs that a command of the user's makes: their factors, and their names in paths.

    command-1f0a93c2+bs=32+lr=0.1+width=64+seed=0

The digest stands for the command and all that it is given. Every factor of the grid is spelled:
one of ours by its alias, any other by its own name. A text that no path holds has a digest.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from batchscope.catalogue import run_names
from batchscope.catalogue.parameters import number_text
from batchscope.catalogue.readers import expected, number, plain
from batchscope.catalogue.run_factors import FACTORS, Factor

# A data set may be called `command` too: behind its name stands a model.
PATTERN = r"command-[0-9a-f]{8}\+bs=[a-z0-9_.=+-]+"
ALIASES = {factor.alias: name for name, factor in FACTORS.items() if factor.alias != name}
_LONGEST = 24  # characters of a text that a name spells
_MOST = 500  # characters of a text


@dataclass(frozen=True, kw_only=True)
class OwnFactor(Factor):
    """A factor whose values the command alone knows: numbers, truth values and texts."""

    @property
    def expected_item(self) -> str:
        return f"a number, true, false or a text of at most {_MOST} characters"

    def read_item(self, raw: Any) -> Any:
        """Returns the value that one scalar stands for."""
        value = plain(raw)
        text = isinstance(value, str) and value.isprintable() and len(value) <= _MOST
        if not (text or isinstance(value, bool) or number(value) is not None):
            raise expected(self.expected_item)
        return value

    def text(self, value: Any) -> str:
        """Returns the text of a value in a path."""
        if not isinstance(value, str):
            return word(value)
        short = re.sub(r"[^a-z0-9_.]+", "-", value.lower()).strip("-")[:_LONGEST]
        return value if value == short and value else f"{short}-{run_names.digest(value)}"

    def json_item(self) -> dict[str, Any]:
        return {"type": ["number", "string", "boolean"]}


def word(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return value if isinstance(value, str) else number_text(value)


def factor(name: str) -> Factor:
    """Returns the factor of a name: one of ours keeps its kind of number, and no list of words."""
    ours = FACTORS.get(name)
    if ours is None or ours.kind == "str":
        return OwnFactor(name=name, alias=ours.alias if ours else name)
    return replace(ours, default=None, words=(), titles={}, phrases={})


def factors(names: Iterable[str]) -> dict[str, Factor]:
    """Return factors in the order of names: the batch size, ours, the others, the seed."""
    names = {*names} - {"batch_size", "seed"}
    ours = [name for name in FACTORS if name in names]
    ordered = ("batch_size", *ours, *sorted(names - {*FACTORS}), "seed")
    return {name: factor(name) for name in ordered}


def name(token: str, values: Mapping[str, Any]) -> str:
    """Returns the name of a run by the command's token and every factor.

    Raises:
        ValueError: If it is too long.
    """
    own = factors(values)
    return run_names.Codec(own, ("command",), own).name({"command": token, **values})


def is_command(run: str) -> bool:
    return re.fullmatch(PATTERN, run) is not None


def checked(run: str) -> str:
    """Returns the name of a run that a command makes, or raises ValueError."""
    if not is_command(run):
        raise ValueError(f"Expected the name of a run of a command. Received: {run!r}")
    return run
