"""Maps from factors to values: their types in a study file, factors of commands, and words.

The keys `set`, `cases` and `defaults` have a type `...Factors` (one value per factor), and `vary` a
type `...Lists` (several values). They follow from `run_factors`: a new factor, or its words, goes
there and needs no line here. A command may have any factors. `command_factors` describes them: our
numbers and truth values keep their type, every other factor is a `FreeFactor`. `describe` puts a
map into words.
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from pydantic import ConfigDict, Field, create_model

from batchscope.core import display
from batchscope.study import log_format, model
from batchscope.study.model import GeneratedModel, Model, Parameter, Scalar, Unique, mapping
from batchscope.study.run_factors import EVERY_FACTOR, FACTORS, SWEEP_FACTORS, Factor

# Alias of a factor in names of runs -> name of the factor.
NAME_BY_ALIAS = {factor.alias: name for name, factor in FACTORS.items() if factor.alias != name}
# No factor of a command may have these names: they are other placeholders or have their own keys.
RESERVED_NAMES = ("seed", "threads", "device", "replicas", "gpus", "run_dir")
_MAX_TEXT_LENGTH = 24  # A name of a run spells at most these characters of a text.
# Factors that may distinguish series: those of trainings and of timings, and the machine.
SERIES_FACTORS = {
    **EVERY_FACTOR,
    "machine": Parameter("machine", str, None, "", Factor("", phrase="{}")),
}


class FreeFactor(Parameter):
    """A factor of a command, with any numbers, truth values and texts as values."""

    kind = "str"

    def text(self, value: Any) -> str:
        """Return the text of a value in a path; a text that paths cannot have gets a digest."""
        if not isinstance(value, str):
            return argument_text(value)
        short = re.sub(r"[^a-z0-9_.]+", "-", value.lower()).strip("-")[:_MAX_TEXT_LENGTH]
        return value if value == short and value else f"{short}-{model.digest(value)}"


def argument_text(value: Any) -> str:
    """Return a value as the command has it in its arguments."""
    if isinstance(value, bool):
        return "true" if value else "false"
    return value if isinstance(value, str) else model.number_text(value)


def _command_factor(name: str) -> Parameter:
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
    return {name: _command_factor(name) for name in ordered}


class OpenFactors(GeneratedModel):
    """A map from any factors to values."""

    model_config = ConfigDict(extra="allow")
    __pydantic_extra__: dict[str, Scalar]


class _OpenLists(OpenFactors):
    __pydantic_extra__: dict[str, Unique[Scalar]]


def factor_fields(factors: Mapping[str, Parameter], lists: bool = False) -> dict[str, Any]:
    """Return optional fields of a model, one for the value of each factor, or for its values."""
    return {
        name: (
            Unique[factor.annotation] if lists else factor.annotation,
            Field(None, description=factor.doc),
        )
        for name, factor in factors.items()
    }


def _map_types(
    name: str,
    factors: Mapping[str, Parameter],
    base: type[Model] = GeneratedModel,
    list_base: type[Model] = GeneratedModel,
) -> tuple[Any, Any]:
    """Return the types of a map from factors to values, and of one from factors to lists."""
    values = create_model(name, __base__=base, **factor_fields(factors))
    lists = create_model(f"{name}Lists", __base__=list_base, **factor_fields(factors, lists=True))
    return mapping(values), mapping(lists)


def _without(factors: Mapping[str, Parameter], *names: str) -> dict[str, Parameter]:
    return {key: factor for key, factor in factors.items() if key not in names}


TrainingFactors, TrainingLists = _map_types("TrainingFactors", _without(FACTORS, "seed"))
TimingFactors, TimingLists = _map_types("TimingFactors", SWEEP_FACTORS)
DefaultFactors, _ = _map_types("DefaultFactors", _without(EVERY_FACTOR, "seed"))
CommandFactors, CommandLists = _map_types(
    "CommandFactors",
    {key: _command_factor(key) for key in _without(FACTORS, *RESERVED_NAMES)},
    OpenFactors,
    _OpenLists,
)


def describe(factors: Mapping[str, Any]) -> str:
    return ", ".join(_words(name, plain_value(value)) for name, value in factors.items())


def plain_value(value: Any) -> Any:
    return value.item() if hasattr(value, "item") else value


def _words(factor_name: str, value: Any) -> str:
    metadata = SERIES_FACTORS[factor_name].metadata if factor_name in SERIES_FACTORS else Factor("")
    name = factor_name.removeprefix(log_format.USER_PREFIX).replace("_", " ")
    if isinstance(value, bool):
        return name if value else f"no {name}"
    if value in metadata.phrases:
        return metadata.phrases[value]
    if factor_name == "delay_seconds":
        return f"delay of {display.number(1000 * value)} ms"
    if isinstance(value, int | float):
        text = display.tick(value) if value < 0 else display.shortest(value)
    else:
        text = str(value)
    if metadata.phrase:
        return metadata.phrase.format(text, s="" if value == 1 else "s")
    return f"no {name}" if value == "none" else f"{name} {text.replace('_', ' ')}"
