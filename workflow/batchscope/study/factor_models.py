"""Types of the maps of factors in a study file: `defaults`, `set`, `vary` and `cases`.

A command may have any factors. Those of `study.run_factors` keep their type of number.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from pydantic import ConfigDict, Field, create_model

from batchscope.study import setting
from batchscope.study.model import GeneratedModel, Model, Scalar, Unique, mapping
from batchscope.study.run_factors import EVERY_FACTOR, FACTORS, FALLING, SWEEP_FACTORS, Factor
from batchscope.study.setting import Parameter

# Alias of a factor in names of runs -> name of the factor.
NAME_BY_ALIAS = {factor.alias: name for name, factor in FACTORS.items() if factor.alias != name}
# No factor of a command may have these names: they are other placeholders or have their own keys.
RESERVED_NAMES = ("seed", "threads", "device", "replicas", "gpus", "run_dir")
_MAX_TEXT_LENGTH = 24  # A name of a run spells at most these characters of a text.


class FreeFactor(Parameter):
    """A factor of a command, with any numbers, truth values and texts as values."""

    kind = "str"

    def text(self, value: Any) -> str:
        """Return the text of a value in a path; a text that paths cannot have gets a digest."""
        if not isinstance(value, str):
            return argument_text(value)
        short = re.sub(r"[^a-z0-9_.]+", "-", value.lower()).strip("-")[:_MAX_TEXT_LENGTH]
        return value if value == short and value else f"{short}-{setting.digest(value)}"


def argument_text(value: Any) -> str:
    """Return a value as the command has it in its arguments."""
    if isinstance(value, bool):
        return "true" if value else "false"
    return value if isinstance(value, str) else setting.number_text(value)


def command_factor(name: str) -> Parameter:
    """Return a factor of a command. None has a default: names of runs spell all of them."""
    factor = FACTORS.get(name)
    if factor is None or factor.kind == "str":
        return FreeFactor(name, Scalar, None, "", Factor(factor.alias if factor else name))
    return replace(factor, default=None)


def command_factors(names: Iterable[str]) -> dict[str, Parameter]:
    """Return factors in the order of names: batch size, ours, others by alphabet, seed."""
    inner = set(names) - {"batch_size", "seed"}
    pipeline_factors = [name for name in FACTORS if name in inner]
    ordered = ("batch_size", *pipeline_factors, *sorted(inner - set(FACTORS)), "seed")
    return {name: command_factor(name) for name in ordered}


def falling_schedule(runs: Iterable[Mapping[str, Any]]) -> str:
    """Return a schedule of runs that falls towards the horizon; empty if none does."""
    schedules = (factors.get("schedule") for factors in runs)
    return next((schedule for schedule in schedules if schedule in FALLING), "")


class OpenFactors(GeneratedModel):
    """A map from any factors to values."""

    model_config = ConfigDict(extra="allow")
    __pydantic_extra__: dict[str, Scalar]


class _OpenLists(GeneratedModel):
    model_config = ConfigDict(extra="allow")
    __pydantic_extra__: dict[str, Unique[Scalar]]


def value_fields(factors: Mapping[str, Parameter]) -> dict[str, Any]:
    """Return optional fields of a model, one for the value of each factor."""
    return {
        name: (factor.annotation, Field(None, description=factor.doc))
        for name, factor in factors.items()
    }


def _map_types(
    name: str,
    factors: Mapping[str, Parameter],
    base: type[Model] = GeneratedModel,
    list_base: type[Model] = GeneratedModel,
) -> tuple[Any, Any]:
    """Return the types of a map from factors to values, and from factors to lists of values."""
    lists = {
        key: (Unique[factor.annotation], Field(None, description=factor.doc))
        for key, factor in factors.items()
    }
    values_model = create_model(name, __base__=base, **value_fields(factors))
    lists_model = create_model(f"{name}Lists", __base__=list_base, **lists)
    return mapping(values_model), mapping(lists_model)


def _without(factors: Mapping[str, Parameter], *names: str) -> dict[str, Parameter]:
    return {key: factor for key, factor in factors.items() if key not in names}


TrainingFactors, TrainingLists = _map_types("TrainingFactors", _without(FACTORS, "seed"))
TimingFactors, TimingLists = _map_types("TimingFactors", SWEEP_FACTORS)
DefaultFactors, _ = _map_types("DefaultFactors", _without(EVERY_FACTOR, "seed"))
CommandFactors, CommandLists = _map_types(
    "CommandFactors",
    {key: command_factor(key) for key in _without(FACTORS, *RESERVED_NAMES)},
    OpenFactors,
    _OpenLists,
)
