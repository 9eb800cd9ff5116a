"""Specifications of measures, timings, tables, columns and figures.

The command line, the rules, the schema, the tables and the reference are made from them. The module
of a measure or timing assigns its specification to `ENTRY`, see `catalogue.registry`.
"""

from __future__ import annotations

import enum
import functools
import itertools
import math
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Annotated, Any, Self

from pydantic import Field

from batchscope.catalogue.model import Integer, Model
from batchscope.catalogue.setting import Parameter, Setting, parameters
from batchscope.errors import UserError

# Values of factors or settings by name.
Values = dict[str, Any]
# Factors, settings and the number of training examples (None if unknown) -> settings that do not
# fit, each with the problem.
Problems = Callable[[Values, Values, int | None], Iterator[tuple[str, str]]]
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


TextColumn = functools.partial(Column, kind="str")
IntegerColumn = functools.partial(Column, kind="int")
PositiveColumn = functools.partial(Column, least=0.0)
PercentColumn = functools.partial(Column, least=0.0, most=100.0)


def interval(
    name: str, low: str = "Lower end of its 95 % interval.", high: str = "Upper end."
) -> dict[str, Column]:
    return {f"{name}_low": Column(low), f"{name}_high": Column(high)}


@dataclass(frozen=True)
class Table:
    """A table of every experiment, written as a CSV file of its name."""

    columns: dict[str, Column] = field(default_factory=dict)  # beside what a row is of
    # Yields the rows of a record, from the record and its path. The record of a sweep also has
    # `batch_sizes`. Only tables with the column `repeat` have the rows of further jobs.
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


def no_problems(
    factors: Values, settings: Values, training_examples: int | None
) -> Iterator[tuple[str, str]]:
    yield from ()


@dataclass(frozen=True, kw_only=True)
class Entry:
    """Specification that measures and timings have in common.

    Attributes:
        version: Version of the numbers. Raise it when they change, and only then.
        name: Name in the study file and in paths, that of the module.
        doc: First paragraph of the module's docstring.
        settings: Model of the settings. Append fields, never reorder them: names of paths follow
            their order.
        columns: Columns of runs.csv; `{setting}` in a name stands for each value of a setting.
        problems: Yields the settings that do not fit a run's factors or its training set.
        figures: Figures that need this entry alone.
        tables: Tables by name.
        at_epochs: Whether there is a value for each of an experiment's `at_epochs`. A measure then
            has a setting `epoch`, and one more record for each epoch.
        also_writes: Suffixes of the files that are written next to the record.
        memory_mb: Memory to request from a cluster.
        minutes: Time to request from a cluster.
        order: Position in lists and tables.
    """

    version: str
    name: str = ""
    doc: str = ""
    settings: type[Model] = Model
    columns: dict[str, Column] = field(default_factory=dict)
    problems: Problems = no_problems
    figures: tuple[Figure, ...] = ()
    tables: dict[str, Table] = field(default_factory=dict)
    at_epochs: bool = False
    also_writes: tuple[str, ...] = ()
    memory_mb: int = 4000
    minutes: int = 60
    order: int = 100

    @functools.cached_property
    def parameters(self) -> dict[str, Parameter]:
        """Settings by name, in the order in which names of paths spell them."""
        return parameters(self.settings)

    def columns_for(self, settings: Values) -> tuple[str, ...]:
        """Return the columns of runs.csv that these settings fill."""
        names = []
        for pattern in self.columns:
            keys = re.findall(r"\{(\w+)\}", pattern)
            for values in itertools.product(*(settings[key] for key in keys)):
                pairs = zip(keys, values, strict=True)
                texts = {key: self.parameters[key].text((value,)) for key, value in pairs}
                names.append(pattern.format(**texts))
        return tuple(names)

    def check(self, factors: Values, settings: Values, training_examples: int) -> None:
        """Raise `UserError` if the settings do not fit a run's factors and training set."""
        for setting, problem in self.problems(factors, settings, training_examples):
            raise UserError(f"{self.name}.{setting}: {problem}")

    def completed(self, name: str, doc: str) -> Self:
        """Return the specification with its name and doc; its figures and tables need it alone."""
        names = tuple(figure.name for figure in self.figures)
        figures = tuple(
            replace(figure, measures=figure.measures or (name,)) for figure in self.figures
        )
        tables = {
            key: replace(table, measures=table.measures or (name,), figures=table.figures or names)
            for key, table in self.tables.items()
        }
        return replace(self, name=name, doc=doc, figures=figures, tables=tables)


@dataclass(frozen=True, kw_only=True)
class Measure(Entry):
    """Specification of a measure of a finished run, or of a pair of runs.

    Attributes:
        weights: Weights that it reads: `initial`, `final`, `best`, or `middle`, the snapshot
            nearest half of the training.
        reads: Other files of the run that it reads.
        data: Whether it reads the data set and builds the model, for which it needs TensorFlow.
        factors: Factors and the value that a run must have for it.
        outcomes: Whether it gives losses and metrics of every split: logs of commands and of
            external runs have these without the measure.
    """

    weights: tuple[str, ...] = ("final", "best")
    reads: tuple[str, ...] = ()
    data: bool = True
    factors: dict[str, Any] = field(default_factory=dict)
    outcomes: bool = False

    @property
    def pairs(self) -> bool:
        """Whether it needs two runs, which the setting `between` selects."""
        return "between" in self.settings.model_fields

    @property
    def subjects(self) -> tuple[str, ...]:
        return ("run", "other") if self.pairs else ("run",)


MOST_REPEATS = 100


class TimingSettings(Model):
    """Settings of every timing."""

    repeats: Annotated[Integer, Field(ge=1, le=MOST_REPEATS), Setting("rep")] = 1
    """Timing jobs of each configuration, each a process of its own, in turns with those of the
    others: a time gets intervals and verdicts over them. A training's configuration has as many
    as seeds, and states none. In a path, which of them it is.
    """


REPEATS = parameters(TimingSettings)["repeats"]


@dataclass(frozen=True, kw_only=True)
class Timing(Entry):
    """Specification of a timing. Its job runs alone on the machine.

    Attributes:
        trains: Whether it times the configuration of a training, in a training experiment. Any
            other timing times a sweep over batch sizes, in a timing experiment.
        batch_sizes: Batch sizes of a job of a sweep: `together` (all, in turns), `each` (one), or
            `searched` (none, it searches for one).
        seconds: Whether its examples per second give the seconds of trajectories: of its own
            experiment if it `trains`, else of those that name it under `beside`.
        forked: Whether the fork server may run it. Imports and the memory that an earlier job left
            must not change its numbers.
    """

    settings: type[TimingSettings] = TimingSettings
    trains: bool = False
    batch_sizes: str = "together"
    seconds: bool = False
    forked: bool = False

    @functools.cached_property
    def parameters(self) -> dict[str, Parameter]:
        """Settings by name; names of paths spell `repeats` last."""
        settings = parameters(self.settings)
        repeats = settings.pop(REPEATS.name)
        return {**settings, REPEATS.name: repeats}

    @property
    def subjects(self) -> tuple[str, ...]:
        return ("machine", "timing" if self.trains else "sweep")
