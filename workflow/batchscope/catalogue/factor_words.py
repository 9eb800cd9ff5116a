"""Words for factors and their values, as a Factor states them: in legends and in sentences."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from batchscope import wording
from batchscope.catalogue import own_columns
from batchscope.catalogue.run_factors import EVERY_FACTOR, Factor

# What may distinguish series: the factors of trainings and of times, and the machine.
FACTORS = {**EVERY_FACTOR, "machine": Factor(name="machine", kind="str", phrase="{}")}


def factor(name: str) -> Factor:
    return FACTORS.get(name, Factor())


def describe(factors: Mapping[str, Any]) -> str:
    """Returns words for some factors: `learning rate 0.1, adam`."""
    return ", ".join(_words(name, plain(value)) for name, value in factors.items())


def value_words(name: str, value: Any) -> str:
    """Returns words for a factor's value where its name stands before: `Adam`, `half-life`."""
    entry, text = factor(name), str(value)
    return entry.titles.get(text) or (text.replace("_", " ") if entry.choices else text)


def plain(value: Any) -> Any:
    return value.item() if hasattr(value, "item") else value


def _words(factor_name: str, value: Any) -> str:
    entry = factor(factor_name)
    name = factor_name.removeprefix(own_columns.OWN).replace("_", " ")
    if isinstance(value, bool):
        return name if value else f"no {name}"
    if value in entry.phrases:
        return entry.phrases[value]
    if factor_name == "delay_seconds":
        return f"delay of {wording.number(1000 * value)} ms"
    words = value_words(factor_name, value)
    if entry.noun:
        whole = isinstance(value, float) and value.is_integer()
        words = wording.count(int(value) if whole else value, entry.noun)
    elif isinstance(value, int | float):
        words = wording.tick(value) if value < 0 else wording.shortest(value)
    if entry.phrase or entry.noun:
        return (entry.phrase or "{}").format(words)
    return f"no {name}" if value == "none" else f"{name} {words.replace('_', ' ')}"
