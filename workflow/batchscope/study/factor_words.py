"""Write factors and their values for people, in the words of `run_factors.Factor`."""

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


def plain_value(value: Any) -> Any:
    return value.item() if hasattr(value, "item") else value


def _words(factor_name: str, value: Any) -> str:
    metadata = FACTORS[factor_name].metadata if factor_name in FACTORS else Factor("")
    name = factor_name.removeprefix(external_columns.USER_PREFIX).replace("_", " ")
    if isinstance(value, bool):
        return name if value else f"no {name}"
    if value in metadata.phrases:
        return metadata.phrases[value]
    if factor_name == "delay_seconds":
        return f"delay of {display.number(1000 * value)} ms"
    if isinstance(value, int | float):
        text = display.tick(value) if value < 0 else display.shortest(value)
    else:
        text = metadata.titles.get(value, str(value))
    if metadata.phrase:
        return metadata.phrase.format(text, s="" if value == 1 else "s")
    return f"no {name}" if value == "none" else f"{name} {text.replace('_', ' ')}"
