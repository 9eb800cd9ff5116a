"""Models of the maps of factors in a study file: `defaults`, `set`, `vary` and `cases`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pydantic import ConfigDict, Field, create_model

from batchscope.study import command_factors
from batchscope.study.model import GeneratedModel, Model, Scalar, Unique, mapping
from batchscope.study.run_factors import EVERY_FACTOR, FACTORS, SWEEP_FACTORS
from batchscope.study.setting import Parameter

# Placeholders of a command that are no factors, and factors with keys of their own.
RESERVED = ("seed", "threads", "device", "replicas", "gpus", "run_dir")


class OpenFactors(GeneratedModel):
    """A map of factors, also of names that only a command knows."""

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


def _models(
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


TrainingFactors, TrainingLists = _models("TrainingFactors", _without(FACTORS, "seed"))
TimingFactors, TimingLists = _models("TimingFactors", SWEEP_FACTORS)
DefaultFactors, _ = _models("DefaultFactors", _without(EVERY_FACTOR, "seed"))
CommandFactors, CommandLists = _models(
    "CommandFactors",
    {key: command_factors.factor(key) for key in _without(FACTORS, *RESERVED)},
    OpenFactors,
    _OpenLists,
)
