"""The keys by which an experiment names the logs of external runs, and how they are read."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar

from pydantic import BeforeValidator, Field

from batchscope.catalogue import columns, command_factors, own_columns, tasks
from batchscope.catalogue.fields import Keyed, Refused, Section, one_of, text, words
from batchscope.catalogue.parameters import Parameter
from batchscope.catalogue.readers import FieldReader, expected
from batchscope.logs import AUTO, FORMATS, Source, names
from batchscope.logs.files import escaped


@dataclass(frozen=True)
class Texts(FieldReader):
    """A map from any names to texts."""

    expected: str
    empty: bool = False  # whether a text may be

    def read(self, raw: Any) -> dict[str, str]:
        """Returns the texts by their names."""
        named = isinstance(raw, dict) and all(
            isinstance(key, str) and "=" not in key and isinstance(value, str | int | float)
            for key, value in raw.items()
        )
        if not named or not (self.empty or all(map(str, raw.values()))):
            raise expected(self.expected)
        return {key: command_factors.word(value) for key, value in raw.items()}

    def json_schema(self) -> dict[str, Any]:
        return {"type": "object", "additionalProperties": {"type": "string"}}


_BETTER = Parameter(kind="str", choices=(tasks.LOWER, tasks.HIGHER))
_NO_METRIC = Refused("a name of a metric that none of ours has: lower case, without its data,")


def _better(key: str) -> FieldReader:
    """Returns what reads which values are better; what refuses a name that another column has."""
    split = names.is_split(key.partition("_")[0])
    known = {key, *own_columns.of_metrics([key])} & {*columns.COLUMNS, *columns.TRAJECTORIES}
    named = re.fullmatch("[a-z][a-z0-9_]{0,39}", key) and "__" not in key and key[-1:] != "_"
    return _BETTER if named and not (split or known or names.ours(key)) else _NO_METRIC


OwnMetrics = Annotated[
    dict[str, str],
    Keyed(
        {},
        "metric",
        "a map from metrics to lower or higher, such as {word_error: lower},",
        least=1,
        others=_better,
    ),
]


_COLUMNS = "a map from our columns to the logs' own, such as {validation_loss: val/loss},"


class ReadAs(Section):
    """How logs are read."""

    format: one_of(AUTO, *FORMATS) = AUTO
    """Format of the logs; auto recognises it by their content."""
    columns: Annotated[dict[str, str], Texts(_COLUMNS)] = {}
    """Our name of a column -> the logs' own, or that of a parameter that they state."""
    examples_per_epoch: Annotated[float, Parameter(kind="float", above=0)] = None
    """Training examples of an epoch, where the logs count epochs."""


class Log(ReadAs):
    """The log of a run that a command makes."""

    wanted: ClassVar[str] = "a map with file, format, columns or examples_per_epoch"
    file: text("a path that begins with {run_dir}", r"\{run_dir\}(/.+)?") = ""
    """What the command writes, in {run_dir}; what it prints if left out."""


class Logs(ReadAs):
    """Logs of external runs."""

    wanted: ClassVar[str] = "the path of a CSV file, or a map with files"
    files: words("a path or a pattern")
    """Paths and patterns, seen from the folder of this file: `{name}` stands for a factor, as in
    logs/bs{batch_size}_seed{seed}.csv, `*`, `**` and `?` for anything; `{{` is a brace.
    """
    pattern: text("a pattern") = ""
    """Factors in the names of runs that one file holds, or in any whole parts of the paths:
    bs{batch_size}_seed{seed}.
    """

    def source(self, metrics: tuple[str, ...] = ()) -> Source:
        """Returns what is read, with the metrics that the experiment names."""
        return Source(
            self.files,
            self.format,
            tuple(self.columns.items()),
            self.examples_per_epoch,
            self.pattern,
            metrics,
        )


def _as_map(raw: Any) -> Any:
    if not isinstance(raw, str):
        return raw
    return {"files": escaped(raw)}


def _or_a_path(schema: dict[str, Any]) -> None:
    schema["anyOf"] = [{"type": "string", "minLength": 1}, {"$ref": schema.pop("$ref")}]


Runs = Annotated[Logs, BeforeValidator(_as_map), Field(json_schema_extra=_or_a_path)]
