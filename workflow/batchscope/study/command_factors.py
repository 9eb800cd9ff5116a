"""The factors of a command's runs, known to the pipeline or not."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from batchscope.study import setting
from batchscope.study.model import Scalar
from batchscope.study.run_factors import FACTORS, FALLING, Factor
from batchscope.study.setting import Parameter

ALIASES = {factor.alias: name for name, factor in FACTORS.items() if factor.alias != name}
_LONGEST = 24  # characters of a text that a name spells


class FreeFactor(Parameter):
    """A factor with any numbers, truth values and texts as values."""

    kind = "str"

    def text(self, value: Any) -> str:
        """Return the text of a value in a path; a text that paths cannot have gets a digest."""
        if not isinstance(value, str):
            return word(value)
        short = re.sub(r"[^a-z0-9_.]+", "-", value.lower()).strip("-")[:_LONGEST]
        return value if value == short and value else f"{short}-{setting.digest(value)}"


def word(value: Any) -> str:
    """Return a value as the command has it in its arguments."""
    if isinstance(value, bool):
        return "true" if value else "false"
    return value if isinstance(value, str) else setting.number_text(value)


def factor(name: str) -> Parameter:
    """Return a factor by name: one of the pipeline keeps its type of number, but not its words."""
    ours = FACTORS.get(name)
    if ours is None or ours.kind == "str":
        alias = ours.alias if ours else name
        return FreeFactor(name, Scalar, None, "", Factor(alias))
    return replace(ours, default=None)


def factors(names: Iterable[str]) -> dict[str, Parameter]:
    """Return factors in the order of names: batch size, ours, others by alphabet, seed."""
    between = set(names) - {"batch_size", "seed"}
    ours = [name for name in FACTORS if name in between]
    ordered = ("batch_size", *ours, *sorted(between - set(FACTORS)), "seed")
    return {name: factor(name) for name in ordered}


def schedule(runs: Iterable[Mapping[str, Any]]) -> str:
    """Return a schedule of runs that falls towards the horizon; empty if none does."""
    schedules = (factors.get("schedule") for factors in runs)
    return next((schedule for schedule in schedules if schedule in FALLING), "")
