"""Write factors and their values in words, which `run_factors.Factor` holds, for people."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from batchscope.core import display
from batchscope.study import external_columns
from batchscope.study.run_factors import EVERY_FACTOR, Factor
from batchscope.study.setting import Parameter

# Factors that may distinguish series: those of trainings and of timings, and the machine.
FACTORS = {**EVERY_FACTOR, "machine": Parameter("machine", str, None, "", Factor("", phrase="{}"))}


def describe(factors: Mapping[str, Any]) -> str:
    return ", ".join(_words(name, plain_value(value)) for name, value in factors.items())


def value_words(name: str, value: Any) -> str:
    """Return words for the value of a factor, without its name: `Adam`, `half-life`."""
    text = str(value)
    if name not in FACTORS:
        return text
    default = text.replace("_", " ") if FACTORS[name].choices else text
    return _metadata(name).titles.get(text, default)


def plain_value(value: Any) -> Any:
    return value.item() if hasattr(value, "item") else value


def _metadata(name: str) -> Factor:
    return FACTORS[name].metadata if name in FACTORS else Factor("")


def _words(factor_name: str, value: Any) -> str:
    metadata = _metadata(factor_name)
    name = factor_name.removeprefix(external_columns.PREFIX).replace("_", " ")
    if isinstance(value, bool):
        return name if value else f"no {name}"
    if value in metadata.phrases:
        return metadata.phrases[value]
    if factor_name == "delay_seconds":
        return f"delay of {display.number(1000 * value)} ms"
    text = value_words(factor_name, value)
    if metadata.noun:
        is_integer = isinstance(value, float) and value.is_integer()
        text = display.count(int(value) if is_integer else value, metadata.noun)
    elif isinstance(value, int | float):
        text = display.tick(value) if value < 0 else display.shortest(value)
    if metadata.phrase or metadata.noun:
        return (metadata.phrase or "{}").format(text)
    return f"no {name}" if value == "none" else f"{name} {text.replace('_', ' ')}"
