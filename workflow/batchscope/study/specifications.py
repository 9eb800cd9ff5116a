"""Classes that specify measures, timings, tables, columns and figures, and parts that they share.

The command line, the rules, the schema, the tables and the reference are made from their objects:
the `ENTRY` of each measure and timing (`study.registry`), `study.table_entries` and
`study.figures`. Settings, columns and panels of several entries are at the end.
"""

import enum
import functools
import itertools
import math
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import AfterValidator, Field
from pydantic_core import PydanticCustomError

from batchscope.core.errors import UserError
from batchscope.study.model import Integer, Model, Number, Parameter, Setting, Word, parameters
from batchscope.study.run_factors import FACTORS

# Values of factors or settings by name.
Values = dict[str, Any]
# Factors, settings and training examples (None if unknown) -> invalid settings with the problem.
Problems = Callable[[Values, Values, int | None], Iterator[tuple[str, str]]]
# Column of the horizontal axis of a training -> its name in titles.
AXIS_WORDS = {
    **{name: name for name in ("epoch", "updates", "examples")},
    "seconds": "training time",
}


@dataclass(frozen=True)
class Column:
    """Column of a table. A column of runs.csv with a label is an outcome, which claims may name."""

    doc: str  # meaning, in a sentence
    unit: str = ""
    kind: str = "float"  # `int`, `float`, `str` or `bool`; empty if the values decide
    label: str = ""  # name for people; the value of a setting replaces `{setting}`
    direction: str = ""  # `rises` or `falls` with the batch size; every study tests it
    at_epochs: bool = True  # whether records at an experiment's `at_epochs` fill it too
    words: dict[str, str] = field(default_factory=dict)  # value of a setting -> text in the label
    adds_up: bool = False  # whether it is a count to sum over the jobs of a configuration
    minimum: float = -math.inf  # lowest possible value
    maximum: float = math.inf


TextColumn = functools.partial(Column, kind="str")
IntegerColumn = functools.partial(Column, kind="int")
PositiveColumn = functools.partial(Column, minimum=0.0)
PercentColumn = functools.partial(Column, minimum=0.0, maximum=100.0)


@functools.cache
def column_pattern(name: str) -> re.Pattern[str]:
    """Return the pattern of the columns of a name, where values replace the settings in braces."""
    return re.compile(re.sub(r"\\{(\w+)\\}", r"(?P<\1>[a-z0-9.-]+)", re.escape(name)))


def interval_columns(
    name: str, low: str = "Lower end of its 95 % interval.", high: str = "Upper end."
) -> dict[str, Column]:
    return {f"{name}_low": Column(low), f"{name}_high": Column(high)}


@dataclass(frozen=True)
class Table:
    """Table of an experiment, written as a CSV file.

    Attributes:
        columns: Columns after those that name the run or the sweep of a row.
        rows: Yields the rows of a record, from the record and its path. The record of a sweep also
            has `batch_sizes`. Only tables with the column `repeat` have the rows of further jobs.
        keys: Columns that distinguish the rows of a run or sweep; None if no claim may name the
            table.
        measures: Measures and timings that fill it; empty if every training does.
        figures: Figures that show it, the preferred one first.
    """

    columns: dict[str, Column] = field(default_factory=dict)
    rows: Callable[[dict[str, Any], Path], Iterable[dict[str, Any]]] | None = None
    keys: tuple[str, ...] | None = None
    measures: tuple[str, ...] = ()
    figures: tuple[str, ...] = ()


class FigureRequirement(enum.Enum):
    """Requirements of a figure, in addition to measures and factors.

    A figure that a study names is refused if AT_EPOCHS or PREFIXES is not fulfilled. The other
    requirements decide only whether it is drawn by default.
    """

    AT_EPOCHS = "at_epochs"  # The experiment has the key `at_epochs`.
    PREFIXES = "prefixes"  # A prefix of a training is a shorter training: no rate falls to the end.
    EVALUATIONS = "evaluations"  # All runs have `evaluate_every`.
    SECONDS = "seconds"  # The time of a step is known.
    BATCH_SIZES = "batch_sizes"  # The experiment trains at three batch sizes.
    COMMAND = "command"  # A command makes the runs.
    LEARNING_RATES = "learning_rates"  # The experiment varies the learning rate.


class Scale(enum.StrEnum):
    """Scale of a vertical axis."""

    AUTO = ""  # The scale is logarithmic if positive values span much, else linear.
    LINEAR = "linear"
    LOG = "log"
    ZERO = "zero"  # A linear axis begins at zero, so that heights can be compared.
    PERCENT = "percent"  # Shares are shown as percentages, on the same axis in all panels.
    DOUBLINGS = "doublings"  # Values are doublings since the smallest batch size.


@dataclass(frozen=True)
class Panel:
    """Panel of a figure.

    A column with `{setting}` has a panel for each value of the setting. Title and label may contain
    it too. `study.figures.for_tasks` replaces `{metric}`, `{first}` and so on.
    """

    column: str
    title: str
    label: str  # label of the vertical axis, with the unit
    scale: Scale = Scale.AUTO
    error: str = ""  # column of the errors of single values, drawn if there is one seed
    ends: tuple[str, ...] = ()  # columns of the ends of bars, instead of the interval over seeds
    unless: str = ""  # column with the same meaning: a panel that equals it is left out
    counted_on: str = ""  # column of the number of examples behind a share, for binomial errors
    bounds: bool = False  # whether the value of a run that did not stop by itself is a lower bound

    @property
    def columns(self) -> list[str]:
        further = (self.error, *self.ends, self.unless, self.counted_on)
        return [self.column, *filter(None, further)]


@dataclass(frozen=True)
class Figure:
    """Figure of every experiment that has the right measures.

    Attributes:
        name: Name of its files.
        category: Section of the report.
        caption: How to read it, in a sentence or two.
        kind: Module of `batchscope.figures.kinds` that draws it.
        table: Table that it shows.
        panels: Panels, in order. The title `{column}` has a panel for each value of that column.
        columns: Required columns of the table besides columns of the panels.
        lines: Column with a line in each panel for each value, in addition to the series.
        x_columns: Columns of the horizontal axes, a panel for each.
        variant_of: Name of the figure with the same content over another axis.
        measures: Required measures, `a|b` for a or b. Default: the entry that defines the figure.
        conditions: Further requirements.
        log_columns: Required columns of external runs; None if these cannot have the figure.
    """

    name: str
    title: str
    category: str
    caption: str
    kind: str = "by_batch_size"
    table: str = "runs"
    panels: tuple[Panel, ...] = ()
    columns: tuple[str, ...] = ()
    lines: str = ""
    x_columns: tuple[str, ...] = ()
    variant_of: str = ""
    measures: tuple[str, ...] = ()
    conditions: tuple[FigureRequirement, ...] = ()
    log_columns: tuple[str, ...] | None = ()

    @property
    def facet(self) -> str:
        """The column whose values have a panel each; empty without one."""
        match = re.fullmatch(r"{(\w+)}", self.panels[0].title) if self.panels else None
        return match[1] if match and match[0] not in self.panels[0].column else ""

    def shows(self, column: str) -> bool:
        return any(column_pattern(panel.column).fullmatch(column) for panel in self.panels)

    @property
    def variant_axis(self) -> str:
        return self.x_columns[0] if self.variant_of else ""

    def variants(self) -> Iterator[Self]:
        """Yield a figure over epochs by updates and seconds; the report switches between them."""
        for axis in ("updates", "seconds") if self.x_columns == ("epoch",) else ():
            name, title = f"{self.name}_by_{axis}", f"{self.title} by {AXIS_WORDS[axis]}"
            yield replace(self, name=name, title=title, x_columns=(axis,), variant_of=self.name)


@dataclass(frozen=True, kw_only=True)
class Entry:
    """Common specification of measures and timings.

    Attributes:
        version: Version of the numbers. Raise it when they change, and only then.
        name: Name of the module, in the study file and in paths.
        doc: First paragraph of the module's docstring.
        settings: Model of the settings. Append fields and never reorder them, for names of paths.
        columns: Columns of runs.csv. A name with `{setting}` has a column for each value.
        problems: Yields the settings that do not fit a run's factors or its training set.
        figures: Figures that need only this entry.
        at_epochs: Whether there is a value for each of an experiment's `at_epochs`. A measure then
            has a setting `epoch`, and one more record for each epoch.
        also_writes: Suffixes of the files next to the record.
        memory_mb: Memory to request from a cluster.
        order: Position in lists; entries of equal order are listed by name.
    """

    version: str
    name: str = ""
    doc: str = ""
    settings: type[Model] = Model
    columns: dict[str, Column] = field(default_factory=dict)
    problems: Problems = lambda factors, settings, training_examples: iter(())
    figures: tuple[Figure, ...] = ()
    tables: dict[str, Table] = field(default_factory=dict)
    at_epochs: bool = False
    also_writes: tuple[str, ...] = ()
    memory_mb: int = 4000
    order: int = 100

    @functools.cached_property
    def parameters(self) -> dict[str, Parameter]:
        return parameters(self.settings)

    @property
    def pairs(self) -> bool:
        return "between" in self.settings.model_fields

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
        for setting, problem in self.problems(factors, settings, training_examples):
            raise UserError(f"{self.name}.{setting}: {problem}")

    def with_name(self, name: str, doc: str) -> Self:
        """Return the specification with its name and doc. Figures and tables get its name."""
        figures = [replace(figure, measures=figure.measures or (name,)) for figure in self.figures]
        shown_in = tuple(figure.name for figure in figures)
        tables = {
            key: replace(
                table, measures=table.measures or (name,), figures=table.figures or shown_in
            )
            for key, table in self.tables.items()
        }
        return replace(self, name=name, doc=doc, figures=tuple(figures), tables=tables)


@dataclass(frozen=True, kw_only=True)
class Measure(Entry):
    """Specification of a measure of a finished run, or of a pair of runs.

    Attributes:
        middle: Whether it reads the weights at the middle of the training.
        data: Whether it reads the data set and builds the model, and so needs TensorFlow.
        factors: Factor -> the value that a run must have for the measure.
        outcomes: Whether it computes losses and metrics of every split, which logs may have too.
    """

    middle: bool = False
    data: bool = True
    factors: dict[str, Any] = field(default_factory=dict)
    outcomes: bool = False

    @property
    def subjects(self) -> tuple[str, ...]:
        return ("run", "other") if self.pairs else ("run",)


MAX_REPEATS = 100


class TimingSettings(Model):
    """Settings of every timing."""

    repeats: Annotated[Integer, Field(ge=1, le=MAX_REPEATS), Setting("rep")] = 1
    """Timing jobs of a configuration; in a path, the number of the job."""


# The setting that every timing has.
REPEATS = parameters(TimingSettings)["repeats"]


@dataclass(frozen=True, kw_only=True)
class Timing(Entry):
    """Specification of a timing. Its job uses the machine exclusively.

    Attributes:
        trains: Whether it times the configuration of a training. Any other timing times a sweep
            over batch sizes, in a timing experiment.
        batch_sizes: Batch sizes of a job of a sweep: `together` (all in turns), `each` (one), or
            `searched` (the job searches for one).
        seconds: Whether its examples per second give the seconds of trajectories.
        forked: Whether the fork server may run it: an earlier job must not change its numbers.
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


class WeightsSettings(Model):
    """Setting of measures that use one state of the weights."""

    weights: Annotated[Literal["final", "best"], Setting("w")] = "final"
    """Weights to measure."""


# Duration of a block, a rest or a sample. The field of a setting adds the lower bound.
Seconds = Annotated[Number, Field(le=3600)]
# Number of examples that a measure uses.
Examples = Annotated[Integer, Field(ge=0), Word("all", 0), Setting("ex", "examples")]
# Epoch after which a measure reads the weights; 0 for the end of the training.
Epoch = Annotated[Integer, Field(ge=0), Setting("at")]

# Both runs of a pair start from the same weights, which these factors change.
_WEIGHTS_FACTORS = ("dataset", "model", "seed")
_PairFactor = Literal[tuple(name for name in FACTORS if name not in _WEIGHTS_FACTORS)]


def _read_pair(pair: dict[str, tuple[Any, Any]]) -> dict[str, tuple[Any, Any]]:
    [(factor, values)] = pair.items()
    small, large = (FACTORS[factor].read_item(value) for value in values)
    if small == large:
        raise PydanticCustomError("same_value", "Values of a pair should differ")
    return {factor: (small, large)}


# Factor -> its value in the small and in the large run of each pair.
Between = Annotated[
    dict[_PairFactor, tuple[Any, Any]],
    Field(min_length=1, max_length=1),
    AfterValidator(_read_pair),
]

# A timing counts as disturbed if other processes use more cores than this on average.
MAX_FOREIGN_CORES = 0.2
# Suffixes of the columns of a median and of both quartiles.
QUARTILE_SUFFIXES = ("", "_q1", "_q3")
REPEAT_COLUMN = "repeat"  # This column numbers the timing jobs of a configuration.
REPEAT_DESCRIPTION = IntegerColumn("Number of the timing job, from 1.")
STATUS_DESCRIPTION = TextColumn(
    "finished, diverged, out_of_memory, no_gpu or no_cores (too few cores). The last two leave the "
    "row empty."
)
DISTURBED_BLOCKS_DESCRIPTION = IntegerColumn(
    "Blocks in which other processes used more than 0.2 cores.", adds_up=True
)

UTILISATION_PANELS = (
    Panel("process_percent", "CPU utilisation", "of its cores (%)", Scale.ZERO),
    Panel("gpu_percent", "GPU utilisation", "time with a kernel (%)", Scale.ZERO),
)
MEMORY_PANELS = (
    Panel("memory_peak_mb", "Resident memory", "peak (MB)"),
    Panel("gpu_memory_peak_mb", "Memory of the GPU", "peak (MB)"),
)
USAGE_PANELS = (*UTILISATION_PANELS, *MEMORY_PANELS)
