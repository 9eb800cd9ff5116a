"""The codec between the factors of a training run and its name in paths.

Whatever changes a number stands in its path. A run is named by its factors::

    digits-1f0a93c2+small_cnn+bs=256+lr=0.1+opt=sgd+ep=40+seed=0

Core factors are always spelled. Every other one is spelled only where it differs from its
*birth value*, which is frozen on the day the factor is added, so that no old name ever
changes. What is trained with is the value parsed back from the name.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Collection
from typing import Any, NamedTuple

from batchscope.catalogue import name_codec, run_factors
from batchscope.catalogue.parameters import Parameter, Value


def digest(definition: Any) -> str:
    """Returns 8 hexadecimal digits that stand for a JSON-like definition."""
    canonical = json.dumps(definition, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(canonical.encode()).hexdigest()[:8]


def token(name: str, definition_digest: str | None) -> str:
    """Returns the name of a data set or model in a path: `name` or `name-1f0a93c2`."""
    return f"{name}-{definition_digest}" if definition_digest else name


def split_token(text: str) -> tuple[str, str | None]:
    """Returns name and digest (or None) of a data set's or model's token."""
    match = re.fullmatch(rf"({name_codec.NAME_PATTERN})(?:-([0-9a-f]{{8}}))?", text)
    if match is None:
        raise ValueError(f"Expected name or name-1f0a93c2. Received: {text!r}")
    return match[1], match[2]


def run_name(factors: dict[str, Value]) -> str:
    """Returns the name of a run.

    Args:
        factors: Full name -> value; `dataset` and `model` are tokens. Factors left out have
            their birth value.

    Raises:
        ValueError: If the name is longer than 200 characters or a value does not survive.
    """
    core = {name for name, each in run_factors.FACTORS.items() if each.core}
    return _spell(factors, tuple(run_factors.FACTORS), core)


def parse_run(name: str) -> dict[str, Value]:
    """Returns every factor of a run, by full name, in the registry's order.

    Raises:
        ValueError: If the name is not one that `run_name` would have written.
    """
    return dict(_parse(name, tuple(run_factors.FACTORS), run_name))


class Configuration(NamedTuple):
    """What the timing of a training is of: its name in paths, what a step's time depends on."""

    name: str
    factors: dict[str, Value]


def timing_name(factors: dict[str, Value]) -> str:
    """Returns the name of a run's timing configuration: what its time per step depends on."""
    return _spell(factors, run_factors.TIMING_FACTORS, run_factors.TIMING_CORE)


def parse_timing(name: str) -> dict[str, Value]:
    """Returns every factor of a timing configuration, by full name."""
    return dict(_parse(name, run_factors.TIMING_FACTORS, timing_name))


def configuration(name: str) -> Configuration:
    """Returns a timing configuration by its name; raises ValueError as `parse_run` does."""
    return Configuration(name, parse_timing(name))


def _aliased(order: tuple[str, ...]) -> dict[str, Parameter]:
    """Returns the factors that a name holds with their alias: all but data set and model."""
    return {name: run_factors.FACTORS[name] for name in order if name not in ("dataset", "model")}


def _spell(factors: dict[str, Value], order: tuple[str, ...], always: Collection[str]) -> str:
    parts = [str(factors["dataset"]), str(factors["model"])]
    parts += name_codec.encode(_aliased(order), factors, always)
    return name_codec.checked("+".join(parts))


def _parse(name: str, order: tuple[str, ...], spell: Any) -> list[tuple[str, Value]]:
    parts = name.split("+")
    if len(parts) < 3:
        raise ValueError(f"Expected dataset+model+factors. Received: {name!r}")
    values: dict[str, Any] = {"dataset": parts[0], "model": parts[1]}
    for part in parts[:2]:
        split_token(part)
    values.update(name_codec.decode(_aliased(order), parts[2:], name))
    try:
        written = spell(values)
    except (KeyError, TypeError) as error:
        raise ValueError(f"Expected every core factor in {name!r}. Missing: {error}") from None
    if written != name:
        raise ValueError(f"Expected the canonical name {written!r}. Received: {name!r}")
    return [(key, values.get(key, run_factors.FACTORS[key].birth)) for key in order]
