"""Make and parse the names of runs, settings, timing sweeps and runs of commands in paths.

A path spells every setting that changes the numbers behind it. A run is named by its factors::

    digits-1f0a93c2+small_cnn+bs=256+lr=0.1+opt=sgd+ep=40+seed=0

A name always spells the factors without a default. It spells other factors, and all settings of
measures, only if they differ from their default. Defaults never change, so names stay valid.
"""

import itertools
import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from batchscope.study.factor_maps import command_factors
from batchscope.study.model import Parameter
from batchscope.study.registry import ENTRIES
from batchscope.study.run_factors import FACTORS, SWEEP_FACTORS, TIMING_CORE, TIMING_FACTORS

MAX_NAME_LENGTH = 200
IDS = ("dataset", "model")  # These factors begin a name, without their alias.
# A data set may be named `command` as well, but then a model follows, not the batch size.
COMMAND_PATTERN = r"command-[0-9a-f]{8}\+bs=[a-z0-9_.=+-]+"
_MIN_RANGE = 3  # From three on, successive batch sizes are written as a range.


class LongNameError(ValueError):
    """A name is too long for a path."""


def token(name: str, definition_digest: str | None) -> str:
    """Return the name of a data set or model in a path: `name` or `name-1f0a93c2`."""
    return f"{name}-{definition_digest}" if definition_digest else name


def split_token(text: str) -> tuple[str, str | None]:
    """Return name and digest (or None) of a data set's or model's name in a path."""
    match = re.fullmatch(r"([a-z][a-z0-9_]*)(?:-([0-9a-f]{8}))?", text)
    if match is None:
        raise ValueError(f"Expected name or name-1f0a93c2. Received: {text!r}")
    return match[1], match[2]


@dataclass(frozen=True)
class Codec:
    """Codec between values and a name, `id+id+alias=value+...`; `default` if that is empty."""

    parameters: Mapping[str, Parameter]  # all parameters in the order of the name
    ids: tuple[str, ...] = ()  # parameters that come first, without alias
    always_spelled: Collection[str] = ()  # parameters that are spelled at their default too

    def name(self, values: Mapping[str, Any]) -> str:
        """Return the name of values by full name; a missing one has its default.

        Raises:
            ValueError: If the name is too long or has other characters than paths may have.
        """
        parts = [str(values[key]) for key in self.ids]
        for key, parameter in self.parameters.items():
            value = values.get(key, parameter.default)
            is_spelled = key in self.always_spelled or value != parameter.default
            if key not in self.ids and is_spelled:
                parts.append(f"{parameter.alias}={parameter.text(value)}")
        name = "+".join(parts) or "default"
        if len(name) > MAX_NAME_LENGTH:
            raise LongNameError(
                f"Expected at most {MAX_NAME_LENGTH} characters. Received: {name!r}"
            )
        if re.fullmatch(r"[a-z0-9_.=+-]+", name) is None:
            raise ValueError(f"Expected lower-case letters, digits and _.=+-. Received: {name!r}")
        return name

    def parse(self, name: str) -> dict[str, Any]:
        """Return every value of a name by full name, in the order of the parameters.

        Raises:
            ValueError: If `Codec.name` would not return this name.
        """
        parts = [] if name == "default" else name.split("+")
        values: dict[str, Any] = dict(zip(self.ids, parts, strict=False))
        by_alias = {parameter.alias: key for key, parameter in self.parameters.items()}
        for part in parts[len(self.ids) :]:
            alias, _, text = part.partition("=")
            if alias not in by_alias:
                raise ValueError(f"Expected alias=value in {name!r}. Received: {part!r}")
            values[by_alias[alias]] = self.parameters[by_alias[alias]].parse(text)
        if missing := {*self.ids, *self.always_spelled} - values.keys():
            raise ValueError(f"Expected {', '.join(sorted(missing))} in {name!r}.")
        if self.name(values) != name:
            raise ValueError(f"Expected the canonical name {self.name(values)}. Received: {name!r}")
        return {key: values.get(key, item.default) for key, item in self.parameters.items()}


_REQUIRED = {name for name, factor in FACTORS.items() if factor.required}
_RUN = Codec(FACTORS, IDS, _REQUIRED)
_TIMING = Codec({name: FACTORS[name] for name in TIMING_FACTORS}, IDS, TIMING_CORE)
run_name, parse_run = _RUN.name, _RUN.parse
# A timing configuration has the factors of a run that its time per step depends on.
timing_name, parse_timing = _TIMING.name, _TIMING.parse


class Configuration(NamedTuple):
    """A timing configuration with its name in paths."""

    name: str
    factors: dict[str, Any]


def configuration(name: str) -> Configuration:
    return Configuration(name, parse_timing(name))


def settings_name(measure: str, settings: dict[str, Any]) -> str:
    return Codec(ENTRIES[measure].parameters).name(settings)


def parse_settings(measure: str, name: str) -> dict[str, Any]:
    return Codec(ENTRIES[measure].parameters).parse(name)


@dataclass(frozen=True)
class Sweep:
    """A timing job over several batch sizes in turns, so that disturbances affect them equally.

    Its name is such as `digits-1f0a93c2+mlp+bs=1-4_8+opt=sgd+dev=cpu+th=1`.
    """

    factors: dict[str, Any]  # factors without the batch size
    batch_sizes: tuple[int, ...] = ()  # ascending; empty for a job that searches for one

    @property
    def name(self) -> str:
        return _SWEEP.name({**self.factors, "batch_size": self.batch_sizes})


class _BatchSizes(Parameter):
    """The batch sizes of a sweep, such as `1-4_8`; three or more in succession are a range."""

    def text(self, value: Iterable[int]) -> str:
        parts: list[str] = []
        ordered = enumerate(sorted(set(value)))
        for _, successive in itertools.groupby(ordered, lambda pair: pair[1] - pair[0]):
            texts = [str(size) for _, size in successive]
            parts += [f"{texts[0]}-{texts[-1]}"] if len(texts) >= _MIN_RANGE else texts
        return "_".join(parts)

    def parse(self, text: str) -> tuple[int, ...]:
        sizes: list[int] = []
        for part in text.split("_"):
            match = re.fullmatch(r"([1-9]\d{0,8})(?:-([1-9]\d{0,8}))?", part)
            if match is None:
                raise ValueError(f"Expected batch sizes such as 1-4_8. Received: {text!r}")
            sizes += range(int(match[1]), int(match[2] or match[1]) + 1)
        return tuple(sizes)


_SIZES = _BatchSizes("batch_size", tuple[int, ...], (), "", FACTORS["batch_size"].metadata)
# A job that searches for a batch size has none in its name.
_SWEEP = Codec({**SWEEP_FACTORS, "batch_size": _SIZES}, IDS, set(TIMING_CORE) - {"batch_size"})


def parse_sweep(name: str) -> Sweep:
    factors = _SWEEP.parse(name)
    return Sweep(factors, factors.pop("batch_size"))


def group_into_sweeps(combinations: Iterable[dict[str, Any]]) -> Iterator[Sweep]:
    """Yield one sweep for every combination of all factors but the batch size, in order."""
    sizes: dict[tuple[tuple[str, Any], ...], set[int]] = {}
    names = [name for name in SWEEP_FACTORS if name != "batch_size"]
    for combination in combinations:
        factors = tuple((name, combination[name]) for name in names)
        sizes.setdefault(factors, set()).add(combination["batch_size"])
    for factors, batch_sizes in sizes.items():
        yield Sweep(dict(factors), tuple(sorted(batch_sizes)))


def command_name(token: str, values: Mapping[str, Any]) -> str:
    """Return the name of a command's run: `command-1f0a93c2+bs=32+lr=0.1+width=64+seed=0`.

    A name spells every factor, ours by alias. A text that paths cannot have gets a digest.
    """
    factors = command_factors(values)
    return Codec(factors, ("command",), factors).name({"command": token, **values})


def is_command(run: str) -> bool:
    return re.fullmatch(COMMAND_PATTERN, run) is not None
