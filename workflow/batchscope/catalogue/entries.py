"""What an entry of the catalogue says of a measure, a timing, a column or a figure.

The entry is all that CLI, rules, schema, messages, tables, versions and reference know of it; the
module of the same name in batchscope.measures, timing or figures does the work.
"""

from __future__ import annotations

import enum
import functools
import importlib
import itertools
import math
import pkgutil
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, TypeVar

from batchscope.catalogue.parameters import Parameter, by_name

Settings = dict[str, Any]
# Yields a setting, and in words what is wrong with it beside the others.
Problems = Callable[[Settings], Iterator[tuple[str, str]]]
# Column of what a training has used up -> words for it.
OVER = {
    "epoch": "epoch",
    "updates": "updates",
    "examples": "examples",
    "seconds": "training time",
}


@dataclass(frozen=True)
class Column:
    """A column of a table; one of runs.csv with a label is an outcome, which claims may be of."""

    doc: str
    unit: str = ""
    kind: str = "float"  # or `int`, `str`, `bool`; empty where its values say what they are
    label: str = ""  # what people call it; names in braces are those of its settings
    direction: str = ""  # `rises` or `falls` with the batch size, where somebody has stated it
    source: str = ""  # who stated it: then every study is asked
    at_epochs: bool = True  # whether a record of one of an experiment's `at_epochs` fills it too
    words: dict[str, str] = field(default_factory=dict)  # for a setting's values, in the label
    adds_up: bool = False  # whether it is a count that adds up over the jobs of a configuration
    least: float = -math.inf  # what no value lies below
    most: float = math.inf  # what none lies above


Text = functools.partial(Column, kind="str")
Integer = functools.partial(Column, kind="int")
Positive = functools.partial(Column, least=0.0)
Share = functools.partial(Column, least=0.0, most=1.0)
Percent = functools.partial(Column, least=0.0, most=100.0)


def interval(
    name: str, low: str = "Lower end of its 95 % interval.", high: str = "Upper end."
) -> dict[str, Column]:
    return {f"{name}_low": Column(low), f"{name}_high": Column(high)}


@dataclass(frozen=True)
class Table:
    """A table of every experiment, written as a CSV file of its name."""

    columns: dict[str, Column] = field(default_factory=dict)  # beside what a row is of
    # Makes a measure's rows of a record and the record's path.
    rows: Callable[[dict[str, Any], Path], Iterable[dict[str, Any]]] | None = None
    # What distinguishes rows beside factors, seed and machine; None where no claim may be of it.
    keys: tuple[str, ...] | None = None
    measures: tuple[str, ...] = ()  # one of them fills it; if empty its entry, or any training
    figures: tuple[str, ...] = ()  # show it, the first to be preferred; if empty those of the entry


class Need(enum.Enum):
    """What a figure may need of an experiment, beside measures and factors.

    A figure that a study names is drawn without EVALUATIONS, SECONDS or BATCH_SIZES all the same;
    without one of the others it is refused.
    """

    AT_EPOCHS = "at_epochs"  # several numbers of epochs that it reads from each training
    MARGINS = "margins"  # a margin that it states
    PREFIXES = "prefixes"  # a training before its end is a shorter one: no rate that falls to it
    EVALUATIONS = "evaluations"  # all runs have `evaluate_every`
    SECONDS = "seconds"  # the time of its steps is known
    BATCH_SIZES = "batch_sizes"  # it trains at three batch sizes
    COMMAND = "command"  # a command makes its runs


class Scale(enum.StrEnum):
    """What a vertical axis is."""

    AUTO = ""  # logarithmic where positive values span much, else linear
    LINEAR = "linear"
    LOG = "log"
    ZERO = "zero"  # linear from zero, so that heights compare as they do
    PERCENT = "percent"  # shares as percentages, on the same axis in all panels


@dataclass(frozen=True)
class Panel:
    """A panel of a figure.

    Where the column has `{...}` for the values of a measure's setting there is a panel for each of
    them; title and label may name them too. What `{metric}`, `{first}` and so on stand for says
    `catalogue.figures.learned`.
    """

    column: str  # of the figure's table
    title: str
    label: str  # of its vertical axis, with the unit
    scale: Scale = Scale.AUTO
    error: str = ""  # column of the values' own errors, drawn where there is one seed
    ends: tuple[str, ...] = ()  # columns of the ends of bars, in place of an interval over seeds
    unless: str = ""  # column of what says the same: a panel that equals it throughout is left out
    counted_on: str = ""  # column of the examples that a share is of: its binomial error is drawn
    bounds: bool = False  # whether a run that nothing stopped gives a lower bound

    @property
    def columns(self) -> list[str]:
        more = (self.error, *self.ends, self.unless, self.counted_on)
        return [self.column, *filter(None, more)]


@dataclass(frozen=True)
class Figure:
    """A figure that can be drawn of every experiment with the right measures."""

    name: str  # of its files
    title: str
    category: str  # what it is listed under
    caption: str  # what it shows and how to read it, in a sentence or two
    kind: str = "against_batch_size"  # module of batchscope.figures.kinds that draws it
    table: str = "runs"
    panels: tuple[Panel, ...] = ()
    columns: tuple[str, ...] = ()  # of the table that it needs beside those of its panels
    lines: str = ""  # column whose values make lines in each panel, beside the series
    facets: str = ""  # column whose values make panels
    over: tuple[str, ...] = ()  # columns of its horizontal axes, a panel for each
    also_over: tuple[str, ...] = ()  # columns over which it is drawn too: the report switches
    of: str = ""  # name of the figure that this one is over another axis
    best_rate: bool = False  # whether each batch size is shown at its best learning rate alone
    doublings: bool = False  # whether columns are shown in doublings, the last their sum
    target: bool = False  # whether the loss to reach is drawn too, where there is one
    asked: bool = False  # whether it is drawn only where a study names it
    # What the experiment must measure or time, `a|b` is either; of an entry's figure the entry.
    measures: tuple[str, ...] = ()
    varied: tuple[str, ...] = ()  # factors that must have several values
    needs: tuple[Need, ...] = ()
    # Columns that external runs must have, in place of its measures; None where none suffice.
    own: tuple[str, ...] | None = ()

    def shows(self, column: str) -> bool:
        patterns = (re.sub(r"\\{\w+\\}", ".+", re.escape(one.column)) for one in self.panels)
        return any(re.fullmatch(pattern, column) for pattern in patterns)

    @property
    def along(self) -> str:
        return self.over[0] if self.of else ""

    def variants(self) -> Iterator[Figure]:
        for axis in self.also_over:
            name, title = f"{self.name}_by_{axis}", f"{self.title} by {OVER[axis]}"
            yield replace(self, name=name, title=title, over=(axis,), also_over=(), of=self.name)


@dataclass(frozen=True, kw_only=True)
class Entry:
    """What measures and timings have in common."""

    version: str  # of the numbers that it gives: raised when these change, and only then
    name: str = ""  # in the configuration, in paths and of its rule: that of its module
    doc: str = ""  # what it is, in a sentence: the docstring of its module
    settings: tuple[Parameter, ...] = ()  # all with a frozen default. Append; never reorder
    columns: dict[str, Column] = field(default_factory=dict)  # of runs.csv, by a setting's `{name}`
    problems: Problems = lambda settings: iter(())  # of incompatible settings
    figures: tuple[Figure, ...] = ()  # of it alone
    tables: dict[str, Table] = field(default_factory=dict)  # of it alone, by name
    # Whether it gives something for each of an experiment's `at_epochs`; a measure then has a
    # setting `epoch`, and one more record for each.
    at_epochs: bool = False
    also_writes: tuple[str, ...] = ()  # suffixes of what it writes beside its record
    memory_mb: int = 4000  # that a cluster is asked for, as the minutes are
    minutes: int = 60
    order: int = 100  # where it stands in lists and tables

    @property
    def parameters(self) -> dict[str, Parameter]:
        return by_name(*self.settings)

    def columns_for(self, settings: Settings) -> tuple[str, ...]:
        """Returns the columns of runs.csv that it fills."""
        one = {key: replace(each, many=False) for key, each in self.parameters.items()}
        found = []
        for name in self.columns:
            keys = re.findall(r"\{(\w+)\}", name)
            for values in itertools.product(*(settings[key] for key in keys)):
                texts = (one[key].text(value) for key, value in zip(keys, values, strict=True))
                found.append(name.format(**dict(zip(keys, texts, strict=True))))
        return tuple(found)


@dataclass(frozen=True, kw_only=True)
class Measure(Entry):
    """A measure of a finished run, or of two."""

    pairs: bool = False  # whether it is of two runs, which `between` in the configuration names
    # Weights that it reads: `initial`, `final`, `best`, or `middle`, the kept epoch nearest half.
    weights: tuple[str, ...] = ("final", "best")
    reads: tuple[str, ...] = ()  # other files of the run
    data: bool = True  # whether it reads the data set and builds the model, which takes TensorFlow
    factors: dict[str, Any] = field(default_factory=dict)  # factor -> what a run must have for it

    @property
    def subjects(self) -> tuple[str, ...]:
        return ("run", "other") if self.pairs else ("run",)


REPEATS = Parameter(
    "repeats",
    "rep",
    "int",
    1,
    "Timing jobs of each configuration, each a process of its own, in turns with those of the "
    "others: a time gets intervals and verdicts over them. A training's configuration has as many "
    "as seeds, and states none. In a path, which of them it is.",
    minimum=1,
    maximum=100,
)


@dataclass(frozen=True, kw_only=True)
class Timing(Entry):
    """A timing, which has the machine to itself; it also has the setting `REPEATS`."""

    # Whether it times the configuration of a training, in a training experiment; any other times a
    # sweep over batch sizes, in a timing experiment.
    trains: bool = False
    # What one job of a sweep is of: `together` (all batch sizes, in turns), `each` (one of them) or
    # `searched` (it looks for one).
    batch_sizes: str = "together"
    # Whether its examples per second give the seconds of trajectories: of its own experiment if it
    # `trains`, else of those that it is beside.
    seconds: bool = False
    # Whether a copy of the process that local jobs fork from may take it, since neither an import
    # nor the memory that it leaves behind is part of its numbers.
    forked: bool = False

    @property
    def subjects(self) -> tuple[str, ...]:
        return ("machine", "timing" if self.trains else "sweep")


Kind = TypeVar("Kind", bound=Entry)


def discover(package: str, path: list[str], kind: type[Kind]) -> dict[str, Kind]:
    """Returns the entries of a package, `ENTRY` in each of its modules, by name and in order.

    Raises:
        ValueError: If a module has no entry.
    """
    found = []
    for info in pkgutil.iter_modules(path):
        module = importlib.import_module(f"{package}.{info.name}")
        entry = getattr(module, "ENTRY", None)
        if not isinstance(entry, kind):
            text = f"Expected ENTRY, a {kind.__name__}, in {module.__name__}."
            raise ValueError(f"{text} Received: {entry!r}")
        found.append(_completed(entry, info.name, " ".join(module.__doc__.split())))
    return {entry.name: entry for entry in sorted(found, key=lambda each: (each.order, each.name))}


def _completed(entry: Kind, name: str, doc: str) -> Kind:
    """Returns an entry with its name, doc and what all have; figures of no other are its own."""
    names = tuple(figure.name for figure in entry.figures)
    return replace(
        entry,
        name=name,
        doc=doc,
        settings=(*entry.settings, REPEATS) if isinstance(entry, Timing) else entry.settings,
        figures=tuple(replace(each, measures=each.measures or (name,)) for each in entry.figures),
        tables={
            key: replace(each, measures=each.measures or (name,), figures=each.figures or names)
            for key, each in entry.tables.items()
        },
    )
