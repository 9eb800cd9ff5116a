"""What an entry of the catalogue says of a measure, a timing, a column or a figure.

The entry is all that door, rules, schema, messages, tables, versions and reference know of it;
the module of the same name in batchscope.measures, timing or figures does the work.
"""

from __future__ import annotations

import enum
import functools
import importlib
import itertools
import pkgutil
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, TypeVar

from batchscope.catalogue.name_codec import format_value
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
    """A column of a table.

    Attributes:
        doc: What it holds.
        unit: Its unit, or an empty string.
        kind: `float`, `int`, `str` or `bool`; empty where its values say what they are.
        label: What people call it; of a column of runs.csv that is an outcome, which a study may
            state something about. Names in braces are those of the column's settings.
        direction: What it does with growing batch size, `rises` or `falls`, where somebody has
            stated it: then every study is asked.
        source: Who stated it.
        at_epochs: Whether a record of one of an experiment's `at_epochs` fills it too.
        words: Setting's value -> words for it, in the label.
        adds_up: Whether it is a count that adds up over the timing jobs of a configuration.
    """

    doc: str
    unit: str = ""
    kind: str = "float"
    label: str = ""
    direction: str = ""
    source: str = ""
    at_epochs: bool = True
    words: dict[str, str] = field(default_factory=dict)
    adds_up: bool = False


Text = functools.partial(Column, kind="str")
Integer = functools.partial(Column, kind="int")


def interval(
    name: str, low: str = "Lower end of its 95 % interval.", high: str = "Upper end."
) -> dict[str, Column]:
    """Returns the columns of both ends of a column's interval, given what they hold."""
    return {f"{name}_low": Column(low), f"{name}_high": Column(high)}


@dataclass(frozen=True)
class Table:
    """A table of every experiment, written as a CSV file of its name.

    Attributes:
        columns: Its columns beside those that say what a row is of.
        rows: Of a measure, the function that makes its rows of a record and the record's path.
        keys: Columns that distinguish its rows beside the factors, the seed and the machine; None
            of a table that no claim may be of.
        measures: Measures or timings that fill it, one of them; where empty the entry that has it,
            or else any training.
        figures: Figures that show it, the first to be preferred; where empty those of the entry.
    """

    columns: dict[str, Column] = field(default_factory=dict)
    rows: Callable[[dict[str, Any], Path], Iterable[dict[str, Any]]] | None = None
    keys: tuple[str, ...] | None = None
    measures: tuple[str, ...] = ()
    figures: tuple[str, ...] = ()


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

    Attributes:
        column: Column of the figure's table; where `{...}` stands for the values of a measure's
            setting there is a panel for each, and title and label may name them too.
        title: Its heading.
        label: Label of its vertical axis, with the unit.
        scale: What that axis is.
        error: Column of the values' own errors, drawn where there is one seed.
        ends: Columns of the ends of bars; without them a mean has its interval over seeds.
        unless: Column of what says the same: a panel whose every value equals it is left out.
        counted_on: Column of the examples that a share is counted on: its binomial error is drawn.
        bounds: Whether a run that nothing stopped gives a lower bound.
    """

    column: str
    title: str
    label: str
    scale: Scale = Scale.AUTO
    error: str = ""
    ends: tuple[str, ...] = ()
    unless: str = ""
    counted_on: str = ""
    bounds: bool = False

    @property
    def columns(self) -> list[str]:
        """All the columns that it reads."""
        more = (self.error, *self.ends, self.unless, self.counted_on)
        return [self.column, *filter(None, more)]


@dataclass(frozen=True)
class Figure:
    """A figure that can be drawn of every experiment with the right measures.

    Attributes:
        name: Name of its files.
        title: Its title.
        category: What it is listed under.
        caption: What it shows and how to read it, in a sentence or two.
        kind: Module of batchscope.figures.kinds that draws it.
        table: Table that it shows.
        panels: Its panels.
        columns: Columns of that table that it needs beside those of its panels.
        lines: Column whose values make lines of their own in each panel, beside the series.
        facets: Column whose values make panels of their own.
        over: Columns of its horizontal axes, a panel for each; of what is over progress alone.
        also_over: Columns over which the same figure is drawn too: the report switches.
        of: Of such a figure, the name of the first.
        best_rate: Whether each batch size is shown at its best learning rate alone.
        doublings: Whether columns are shown in doublings from the smallest batch size, the last as
            the sum of the others.
        target: Whether the loss to reach is drawn too, where there is one.
        asked: Whether it is drawn only where a study names it.
        measures: Measures or timings that the experiment must have asked for, `a|b` is either;
            of an entry's figure the entry where empty.
        varied: Factors of which it must have several values.
        needs: What else it needs.
        own: Columns without which it is not drawn of trainings that were made elsewhere, `a|b` is
            either, in place of its measures; None where their tables never suffice.
    """

    name: str
    title: str
    category: str
    caption: str
    kind: str = "against_batch_size"
    table: str = "runs"
    panels: tuple[Panel, ...] = ()
    columns: tuple[str, ...] = ()
    lines: str = ""
    facets: str = ""
    over: tuple[str, ...] = ()
    also_over: tuple[str, ...] = ()
    of: str = ""
    best_rate: bool = False
    doublings: bool = False
    target: bool = False
    asked: bool = False
    measures: tuple[str, ...] = ()
    varied: tuple[str, ...] = ()
    needs: tuple[Need, ...] = ()
    own: tuple[str, ...] | None = ()

    def shows(self, column: str) -> bool:
        """Returns whether a panel is of this column."""
        patterns = (re.sub(r"\\{\w+\\}", ".+", re.escape(one.column)) for one in self.panels)
        return any(re.fullmatch(pattern, column) for pattern in patterns)

    @property
    def along(self) -> str:
        """Its horizontal axis, where it is drawn beside the same figure over another."""
        return self.over[0] if self.of else ""

    def variants(self) -> Iterator[Figure]:
        """Yields the same figure over its other axes."""
        for axis in self.also_over:
            yield replace(
                self,
                name=f"{self.name}_by_{axis}",
                title=f"{self.title} by {OVER[axis]}",
                over=(axis,),
                also_over=(),
                of=self.name,
            )


@dataclass(frozen=True, kw_only=True)
class Entry:
    """What measures and timings have in common.

    Attributes:
        name: Its name in the configuration, in paths, and of its rule and module.
        version: Names the numbers that it gives: raised when these change, and only then.
        doc: What it is, in a sentence.
        settings: Its settings; every one has a birth value. Append; never reorder.
        columns: Columns that it fills in runs.csv; `{...}` stands for each value of a setting.
        problems: Yields the problems of incompatible settings.
        figures: Figures of it alone.
        tables: Tables of it alone, by name.
        at_epochs: Whether it gives something for each of an experiment's `at_epochs`; a measure
            then has a setting `epoch`, and one more record for each.
        also_writes: Suffixes of what it writes beside its record.
        memory_mb: Memory that a cluster is asked for, MB.
        minutes: Time that a cluster is asked for.
        order: Where it stands in lists and tables.
    """

    name: str
    version: str
    doc: str
    settings: tuple[Parameter, ...] = ()
    columns: dict[str, Column] = field(default_factory=dict)
    problems: Problems = lambda settings: iter(())
    figures: tuple[Figure, ...] = ()
    tables: dict[str, Table] = field(default_factory=dict)
    at_epochs: bool = False
    also_writes: tuple[str, ...] = ()
    memory_mb: int = 4000
    minutes: int = 60
    order: int = 100

    def __post_init__(self) -> None:
        """Lets figures and tables that state nothing else be of the entry itself."""
        own = [
            each if each.measures else replace(each, measures=(self.name,)) for each in self.figures
        ]
        object.__setattr__(self, "figures", tuple(own))
        filling, shown = (self.name,), tuple(figure.name for figure in own)
        tables = {
            name: replace(table, measures=table.measures or filling, figures=table.figures or shown)
            for name, table in self.tables.items()
        }
        object.__setattr__(self, "tables", tables)

    @property
    def parameters(self) -> dict[str, Parameter]:
        """Its settings by name."""
        return by_name(*self.settings)

    def columns_for(self, settings: Settings) -> tuple[str, ...]:
        """Returns the columns of runs.csv that it fills."""
        found = []
        for name in self.columns:
            keys = re.findall(r"\{(\w+)\}", name)
            for values in itertools.product(*(settings[key] for key in keys)):
                texts = {
                    key: format_value(self.parameters[key], (value,))
                    for key, value in zip(keys, values, strict=True)
                }
                found.append(name.format(**texts))
        return tuple(found)


@dataclass(frozen=True, kw_only=True)
class Measure(Entry):
    """A measure of a finished run, or of two.

    Attributes:
        pairs: Whether it is of two runs, which `between` in the configuration names.
        weights: Weights of the run that it reads: `initial`, `final`, `best`, or `middle`, those
            after the stored epoch nearest half of the training.
        reads: Other files of the run that it reads.
        data: Whether it reads the data set and builds the model, which takes TensorFlow.
        factors: Factor -> the value that a run must have for it.
    """

    pairs: bool = False
    weights: tuple[str, ...] = ("final", "best")
    reads: tuple[str, ...] = ()
    data: bool = True
    factors: dict[str, Any] = field(default_factory=dict)


REPEATS = Parameter(
    "repeats",
    "rep",
    "int",
    1,
    "Timing jobs of each configuration, each a process of its own, in turns with those of the "
    "others: a time gets intervals and verdicts over them. Of a training's configuration there "
    "are as many as seeds, and none is stated. In a path, which of them it is.",
    minimum=1,
    maximum=100,
)


@dataclass(frozen=True, kw_only=True)
class Timing(Entry):
    """A timing, which has the machine to itself.

    Every timing has the setting `REPEATS` as its last.

    Attributes:
        trains: Whether it times the configuration of a training, in a training experiment;
            any other times a sweep over batch sizes, in a timing experiment.
        batch_sizes: What one job of a sweep is of: `together` (all batch sizes, in turns), `each`
            (one of them) or `searched` (it looks for one).
        seconds: Whether it gives the examples per second of trainings, and so the seconds of their
            trajectories: of its own experiment if it `trains`, else of those that it is beside.
        frameworks: Whether it takes frameworks beside TensorFlow.
        forked: Whether a new copy of the process that local jobs fork from may take it, since
            neither an import nor the memory that it leaves behind is part of its numbers.
    """

    trains: bool = False
    batch_sizes: str = "together"
    seconds: bool = False
    frameworks: bool = False
    forked: bool = False

    def __post_init__(self) -> None:
        """Adds the setting that all timings have."""
        super().__post_init__()
        object.__setattr__(self, "settings", (*self.settings, REPEATS))


Kind = TypeVar("Kind", bound=Entry)


def discover(package: str, path: list[str], kind: type[Kind]) -> dict[str, Kind]:
    """Returns the entries of a package, `ENTRY` in each of its modules, by name and in order.

    Args:
        package: Name of the package.
        path: Its `__path__`.

    Raises:
        ValueError: If a module has no entry of its own name.
    """
    found = []
    for module in pkgutil.iter_modules(path):
        entry = getattr(importlib.import_module(f"{package}.{module.name}"), "ENTRY", None)
        if not isinstance(entry, kind) or entry.name != module.name:
            text = f"Expected ENTRY, a {kind.__name__} of that name, in {package}.{module.name}."
            raise ValueError(f"{text} Received: {entry!r}")
        found.append(entry)
    return {entry.name: entry for entry in sorted(found, key=lambda each: (each.order, each.name))}
