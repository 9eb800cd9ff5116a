"""The keys of an experiment whose runs a command of the user's makes, and how they are read."""

from __future__ import annotations

import re
import shlex
from dataclasses import dataclass, replace
from typing import Annotated, Any, ClassVar

from batchscope.catalogue import command_factors
from batchscope.catalogue.fields import Count, Keyed, ListOf, Refused, Section, whole
from batchscope.catalogue.parameters import Parameter, reader
from batchscope.catalogue.readers import FieldReader, expected, number, plain, read_items
from batchscope.catalogue.run_factors import FACTORS
from batchscope.study.log_keys import Log, Texts

_MOST = 500  # characters of a text
_RESERVED = {
    "seed": Refused("a seed given by the experiment's own key 'seeds'"),
    **dict.fromkeys(
        ("threads", "device", "replicas"),
        Refused("`resources: {threads: 4, gpu: 1}` in the experiment"),
    ),
    **dict.fromkeys(("gpus", "run_dir"), Refused("another name than a placeholder's own")),
}


@dataclass(frozen=True)
class _Free(Parameter):
    """A factor whose values the command alone knows: numbers, truth values and texts."""

    @property
    def expected_item(self) -> str:
        return f"a number, true, false or a text of at most {_MOST} characters"

    def read_item(self, raw: Any) -> Any:
        """Returns the value that one scalar stands for."""
        value = plain(raw)
        text = isinstance(value, str) and value.isprintable() and len(value) <= _MOST
        if not (text or isinstance(value, bool) or number(value) is not None):
            raise expected(self.expected_item)
        return value

    def json_item(self) -> dict[str, Any]:
        return {"type": ["number", "string", "boolean"]}


def command_reader(name: str) -> Parameter:
    factor = command_factors.factor(name)
    if isinstance(factor, command_factors.FreeFactor):
        return _Free(name=name, alias=factor.alias)
    return replace(reader(factor), words=())


def own_factor(key: str) -> Parameter | None:
    """Returns the factor of a name that none of ours has; None for what may be no name."""
    named = re.fullmatch("[a-z][a-z0-9_]{0,59}", key) and key not in command_factors.ALIASES
    return command_reader(key) if named else None


def _own_list(key: str) -> ListOf | None:
    return ListOf(one) if (one := own_factor(key)) else None


_OURS = {name: command_reader(name) for name in FACTORS}
_LISTS = {name: ListOf(one) for name, one in _OURS.items()}
FreeFactors = Annotated[
    dict[str, Any],
    Keyed(_OURS | _RESERVED, "factor", "a map from factors to values", others=own_factor),
]
FreeLists = Annotated[
    dict[str, Any],
    Keyed(_LISTS | _RESERVED, "factor", "a map from factors to lists of values", others=_own_list),
]


@dataclass(frozen=True)
class _Word(FieldReader):
    """A text, or a number that stands for its own."""

    expected = 'a text, a placeholder in quotes ("{seed}"),'

    def read(self, raw: Any) -> str:
        if not isinstance(raw, str | int | float):
            raise expected(self.expected)
        return command_factors.word(raw)

    def json_schema(self) -> dict[str, Any]:
        return {"type": ["string", "number", "boolean"]}


_WORD = _Word()


@dataclass(frozen=True)
class _Words(FieldReader):
    """A command: a list of words, or a text that is split as a shell does, and given to none."""

    expected = "a command: a list of words, or a text whose quotes are closed,"

    def read(self, raw: Any) -> tuple[str, ...]:
        """Returns the argument vector."""
        try:
            words = shlex.split(raw) if isinstance(raw, str) else raw
        except ValueError:
            words = []
        if not isinstance(words, list) or not words:
            raise expected(self.expected)
        return read_items(_WORD.read, words, distinct=False)

    def json_schema(self) -> dict[str, Any]:
        several = {"type": "array", "minItems": 1, "items": _WORD.json_schema()}
        return {"anyOf": [{"type": "string"}, several]}


class Resources(Section):
    """What a run needs."""

    wanted: ClassVar[str] = "a map with threads, gpu or mem_mb"
    threads: whole(1, 4096) = 1
    """Threads of a run."""
    gpu: whole(0, 1024) = 0
    """GPUs of a run; without any, none is visible to it."""
    mem_mb: Count = 2000
    """Memory of its first attempt on a cluster; later ones get more."""


Words = Annotated[tuple[str, ...], _Words()]
_FLAG = Parameter(kind="bool")
_INPUTS = ListOf(Parameter(kind="str", wanted="a path", pattern=".+"), word=True)


class Commanded(Section):
    """What an experiment says of its command."""

    command: Words = ()
    """What makes a run: a list of words, or a text that is split into words; no shell is started.
    {factor} stands for a factor's value, {run_dir} for the run's own folder, {threads} and {gpus}
    for its resources, {{ for a brace. It runs in the folder of this file.
    """
    inputs: Annotated[tuple[str, ...], _INPUTS] = ()
    """Files and folders that its runs depend on, such as the script: where one changes, all runs
    are new ones.
    """
    requires: Annotated[tuple[str, ...], _INPUTS] = ()
    """Files and folders that a run cannot do without, such as the interpreter of another
    environment, with placeholders as in `command`. While one is missing, its runs are left out.
    """
    log: Log = Log()
    """Where a run's evaluations are."""
    env: Annotated[dict[str, str], Texts("a map from variables to texts", empty=True)] = {}
    """Variables of its environment, with placeholders as in `command`."""
    resources: Resources = Resources()
    """What a run needs."""
    alone: Annotated[bool, _FLAG] = False
    """Whether each run has the machine to itself, so that its times count as seconds."""
    resume: Annotated[bool, _FLAG] = False
    """Whether a run that was killed goes on from what is in its folder, which is emptied else."""
