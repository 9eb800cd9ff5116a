"""Names in paths, versions of steps: what says which numbers a file holds.

Whatever changes a number stands in its path. A run is named by its factors::

    digits-1f0a93c2+small_cnn+bs=256+lr=0.1+opt=sgd+ep=40+seed=0

Core factors are always spelled. Every other one, and every setting of a measure, is spelled only
where it differs from its *frozen default*, so that no old name ever changes.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from batchscope.catalogue import run_factors
from batchscope.catalogue.entries import REPEATS, Entry
from batchscope.catalogue.parameters import Parameter, Value
from batchscope.catalogue.registry import MEASURES, TIMINGS

MAX_NAME_LENGTH = 200
IDS = ("dataset", "model")  # first in a name, without their alias
ENTRIES: dict[str, Entry] = {**MEASURES, **TIMINGS}
# Versions of the costly steps. Raise a string, here or in an entry, when the numbers of its step
# change, and only then: Snakemake carries it as the step's one parameter, and a new one recomputes
# the step.
VERSIONS = {
    "prepare_data": "prepare_data-v2",
    "train": "train-v3",
    "run_command": "run_command-v1",
    **{name: entry.version for name, entry in ENTRIES.items()},
}


def digest(definition: Any) -> str:
    canonical = json.dumps(definition, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(canonical.encode()).hexdigest()[:8]


def token(name: str, definition_digest: str | None) -> str:
    """Returns the name of a data set or model in a path: `name` or `name-1f0a93c2`."""
    return f"{name}-{definition_digest}" if definition_digest else name


def split_token(text: str) -> tuple[str, str | None]:
    """Returns name and digest (or None) of a data set's or model's name in a path."""
    match = re.fullmatch(r"([a-z][a-z0-9_]*)(?:-([0-9a-f]{8}))?", text)
    if match is None:
        raise ValueError(f"Expected name or name-1f0a93c2. Received: {text!r}")
    return match[1], match[2]


@dataclass(frozen=True)
class Codec:
    """The codec between values and a name: `id+id+alias=value+...`, or `default` if that is empty.

    A name is canonical: what it is parsed to is spelled as the same name.
    """

    parameters: Mapping[str, Parameter]  # in the order of the name
    ids: tuple[str, ...] = ()  # those that come first, without alias
    always: Collection[str] = ()  # those that are spelled at their frozen default too

    def name(self, values: Mapping[str, Any]) -> str:
        """Returns the name of values by full name; what is left out has its frozen default.

        Raises:
            ValueError: If it is too long or has a character that does not pass everywhere.
        """
        parts = [str(values[key]) for key in self.ids]
        for key, parameter in self.parameters.items():
            value = values.get(key, parameter.default)
            if key not in self.ids and (key in self.always or value != parameter.default):
                parts.append(f"{parameter.alias}={parameter.text(value)}")
        name = "+".join(parts) or "default"
        if len(name) > MAX_NAME_LENGTH:
            raise ValueError(f"Expected at most {MAX_NAME_LENGTH} characters. Received: {name!r}")
        if re.fullmatch(r"[a-z0-9_.=+-]+", name) is None:
            raise ValueError(f"Expected lower-case letters, digits and _.=+-. Received: {name!r}")
        return name

    def parse(self, name: str) -> dict[str, Any]:
        """Returns every value behind a name, by full name, in the order of the parameters.

        Raises:
            ValueError: If it is not what `name` would have written.
        """
        parts = [] if name == "default" else name.split("+")
        values: dict[str, Any] = dict(zip(self.ids, parts, strict=False))
        for text in values.values():
            split_token(text)
        by_alias = {each.alias: key for key, each in self.parameters.items()}
        for part in parts[len(self.ids) :]:
            alias, equals, text = part.partition("=")
            if not equals or alias not in by_alias or by_alias[alias] in values:
                raise ValueError(f"Expected alias=value in {name!r}. Received: {part!r}")
            values[by_alias[alias]] = self.parameters[by_alias[alias]].parse(text)
        if missing := {*self.ids, *self.always} - values.keys():
            raise ValueError(f"Expected {', '.join(sorted(missing))} in {name!r}.")
        if self.name(values) != name:
            raise ValueError(f"Expected the canonical name {self.name(values)}. Received: {name!r}")
        return {key: values.get(key, each.default) for key, each in self.parameters.items()}


_RUN = Codec(
    run_factors.FACTORS, IDS, {key for key, each in run_factors.FACTORS.items() if each.core}
)
_TIMING = Codec(
    {key: run_factors.FACTORS[key] for key in run_factors.TIMING_FACTORS},
    IDS,
    run_factors.TIMING_CORE,
)
# Names of runs by all factors, `dataset` and `model` by their names in paths.
run_name, parse_run = _RUN.name, _RUN.parse
# Names of timing configurations: what a run's time per step depends on.
timing_name, parse_timing = _TIMING.name, _TIMING.parse


class Configuration(NamedTuple):
    """What the timing of a training is of: its name in paths, what a step's time depends on."""

    name: str
    factors: dict[str, Value]


def configuration(name: str) -> Configuration:
    """Returns a timing configuration by its name; raises ValueError as `parse_run` does."""
    return Configuration(name, parse_timing(name))


def settings_name(measure: str, settings: dict[str, Any]) -> str:
    """Returns the name of a measure's or timing's settings, `default` where none is spelled."""
    return Codec(ENTRIES[measure].parameters).name(settings)


def job_settings(timing: str, settings: dict[str, Any], repeat: int) -> str:
    return settings_name(timing, {**settings, REPEATS.name: repeat})


def parse_settings(measure: str, name: str) -> dict[str, Any]:
    """Returns every setting behind a name that `settings_name` has written, or ValueError."""
    return Codec(ENTRIES[measure].parameters).parse(name)
