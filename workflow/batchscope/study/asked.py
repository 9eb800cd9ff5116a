"""What an experiment asks for under `measure` or `timing`: names, their settings, pairs of runs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from pydantic_core import InitErrorDetails, PydanticCustomError, ValidationError

from batchscope.catalogue.entries import REPEATS, Entry, Measure, Timing
from batchscope.catalogue.fields import Keyed, Refused
from batchscope.catalogue.parameters import Parameter, readers
from batchscope.catalogue.readers import FieldReader, absent, below, expected, problem, unknown_key
from batchscope.catalogue.run_factors import FACTORS, Affects, affecting
from batchscope.problems import Place

# Both runs of a pair start from the same weights: these fix what the weights are.
_FIXED = affecting(Affects.WEIGHTS)
EXPECTED_PAIR = "a map from one factor to two values (small run, large run)"


@dataclass(frozen=True)
class Asked:
    """A measure or timing that an experiment asks for.

    Attributes:
        at: Its place below the key.
        settings: Every setting, by full name.
        between: Factor -> its value in the first and in the second run of each pair.
    """

    at: Place
    name: str
    settings: dict[str, Any]
    between: dict[str, tuple[Any, Any]] = field(default_factory=dict)


@dataclass(frozen=True)
class AskedOf(FieldReader):
    """A list of measures or timings, or a map from them to settings.

    Attributes:
        entries: Those that there are.
        noun: What one is called.
    """

    entries: Mapping[str, Entry]
    noun: str

    @property
    def expected(self) -> str:
        return f"a list of {self.noun}s, or a map from {self.noun}s to settings"

    def read(self, raw: Any) -> tuple[Asked, ...]:
        """Returns what is asked for."""
        if not isinstance(raw, dict | list | str) or not raw:
            raise expected(self.expected)
        found: dict[str, Asked] = {}
        wrong: list[Any] = []
        for at, name, settings in self._items(raw, wrong):
            try:
                asked = self._asked(at, name, settings)
                if name in found:
                    raise problem(f"received '{name}' again; every {self.noun} once is expected.")
                found[name] = asked
            except PydanticCustomError as error:
                wrong.append(InitErrorDetails(type=error, loc=at, input=name))
            except ValidationError as error:
                wrong += below(at, error)
        if wrong:
            raise ValidationError.from_exception_data(self.noun, wrong)
        return tuple(found.values())

    def _items(self, raw: Any, wrong: list[Any]) -> Iterator[tuple[Place, str, Any]]:
        """Yields place, name and settings of each; what is neither word nor map is wrong."""
        if isinstance(raw, dict):
            yield from (((name,), name, settings) for name, settings in raw.items())
            return
        for index, item in enumerate([raw] if isinstance(raw, str) else raw):
            if isinstance(item, str):
                yield (index,), item, None
            elif isinstance(item, dict) and item:
                yield from (((index, name), name, settings) for name, settings in item.items())
            else:
                error = expected(f"a {self.noun}, or a {self.noun} with its settings")
                wrong.append(InitErrorDetails(type=error, loc=(index,), input=item))

    def _asked(self, at: Place, name: str, given: Any) -> Asked:
        if name not in self.entries:
            choices = sorted(self.entries)
            if at[-1] == name:  # a key
                raise unknown_key(self.noun, choices, {})
            raise expected(f"one of {', '.join(choices)}", choices)
        entry = self.entries[name]
        stated = _settings(entry).read({} if given is None else given)
        between = stated.pop("between", {})
        if isinstance(entry, Measure) and entry.pairs and not between:
            home = ("between",) if at[-1] == name else (name, "between")
            lacking = InitErrorDetails(type=absent(EXPECTED_PAIR), loc=home, input=None)
            raise ValidationError.from_exception_data(name, [lacking])
        frozen = {one.name: one.default for one in entry.settings}
        return Asked(at, name, {**frozen, **stated}, between)

    def json_schema(self) -> dict[str, Any]:
        """Returns the schema of a list of names or maps, or of a map."""
        of_settings = {
            name: {**_settings(entry).json_schema(), "type": ["object", "null"]}
            for name, entry in self.entries.items()
        }
        several = {
            "type": "object",
            "minProperties": 1,
            "additionalProperties": False,
            "properties": of_settings,
        }
        name = {"enum": list(self.entries)}
        item = {"if": {"type": "string"}, "then": name, "else": several}
        listed = {"type": "array", "minItems": 1, "items": item}
        return {"if": {"type": "array"}, "then": listed, "else": item}


@dataclass(frozen=True)
class _Fixed(FieldReader):
    """A factor in which the runs of a pair may not differ."""

    factor: Parameter

    def read(self, raw: Any) -> None:
        text = f"received '{self.factor.name}', which changes the initial weights; another factor "
        raise problem(f"{text}is expected: both runs start from the same weights.")

    def json_schema(self) -> dict[str, Any]:
        return {"not": {}}


@dataclass(frozen=True)
class _Two(FieldReader):
    """A factor's values in the two runs of a pair."""

    factor: Parameter

    @property
    def alias(self) -> str:
        return self.factor.alias

    expected = "a list of two values (small run, large run)"

    def read(self, raw: Any) -> tuple[Any, Any]:
        if not isinstance(raw, list) or len(raw) != 2:
            raise expected(self.expected)
        wrong, values = [], []
        for index, item in enumerate(raw):
            try:
                values.append(self.factor.read_item(item))
            except PydanticCustomError as error:
                wrong.append(InitErrorDetails(type=error, loc=(index,), input=item))
        if wrong:
            raise ValidationError.from_exception_data(self.factor.name, wrong)
        if values[0] == values[1]:
            raise problem("received the same value twice; two values are expected.")
        return values[0], values[1]

    def json_schema(self) -> dict[str, Any]:
        items = self.factor.json_item()
        return {"type": "array", "minItems": 2, "maxItems": 2, "items": items}


def given_elsewhere(entry: Entry) -> dict[str, str]:
    """Returns the settings that no study states of a measure or timing -> what gives each."""
    found = {}
    if entry.at_epochs and "epoch" in entry.parameters:
        found["epoch"] = "an epoch given by the experiment's own key 'at_epochs'"
    if isinstance(entry, Timing) and entry.trains:
        wanted = "as many timing jobs as the experiment has seeds, which is not stated"
        found[REPEATS.name] = wanted
    return found


def _between() -> Keyed:
    factors = readers(FACTORS)
    fields = {name: (_Fixed if name in _FIXED else _Two)(one) for name, one in factors.items()}
    return Keyed(fields, "factor", EXPECTED_PAIR, least=1, most=1)


def _settings(entry: Entry) -> Keyed:
    fields: dict[str, FieldReader] = {one.name: one for one in entry.settings}
    fields |= {name: Refused(wanted) for name, wanted in given_elsewhere(entry).items()}
    if isinstance(entry, Measure) and entry.pairs:
        fields["between"] = _between()
    return Keyed(fields, "setting", "a map of settings, or nothing")
