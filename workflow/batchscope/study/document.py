"""The study file as pydantic models: its keys, types, ranges and defaults, and what each is.

Messages, the schema for editors and the plan are made from these models. Factors and settings
stand in the catalogue, where each is a `Parameter`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar

from pydantic import BeforeValidator, Field, WrapValidator

from batchscope.catalogue import budget_kinds, columns, run_factors, stages, tasks
from batchscope.catalogue.dataset_definitions import Dataset
from batchscope.catalogue.fields import (
    Count,
    FilePath,
    Keyed,
    ListOf,
    Name,
    Positive,
    Refused,
    Section,
    Text,
    one_of,
    text,
    words,
)
from batchscope.catalogue.outcomes import LEAST_SEEDS
from batchscope.catalogue.parameters import Parameter
from batchscope.catalogue.readers import FieldReader, expected, read_items
from batchscope.catalogue.registry import MEASURES, OF_SWEEPS, OF_TRAININGS
from batchscope.catalogue.run_factors import FACTORS, MOST_EPOCHS
from batchscope.study.asked import entries_type
from batchscope.study.claim_models import ClaimKeys
from batchscope.study.command_keys import Commanded, FreeFactors, FreeLists, Words
from batchscope.study.log_keys import OwnMetrics, Runs
from batchscope.study.published_numbers import CommandSeries, PublishedSeries

# Outcomes that may have a margin, all of which `evaluate` measures.
MARGIN_OUTCOMES = tuple(
    f"{split}_{what}"
    for split in ("test", "validation", "train")
    for what in (*tasks.METRICS, "loss")
)
MAX_RUNS = 1000
OUTCOMES = tuple(name for name, column in columns.COLUMNS.items() if column.label)
_EVERY_FACTOR = {name: one for name, one in run_factors.EVERY_FACTOR.items() if name != "seed"}
_NO_SEED = {"seed": Refused("a seed given by the experiment's own key 'seeds'")}
ONE_VALUE: dict[str, FieldReader] = {**_EVERY_FACTOR}
_LISTS: dict[str, FieldReader] = {name: ListOf(one) for name, one in _EVERY_FACTOR.items()}

Factors = Annotated[
    dict[str, Any], Keyed({**ONE_VALUE, **_NO_SEED}, "factor", "a map from factors to values")
]
FactorLists = Annotated[
    dict[str, Any],
    Keyed({**_LISTS, **_NO_SEED}, "factor", "a map from factors to lists of values"),
]
_MARGIN = Parameter(kind="float", above=0)
_SHARE = Parameter(kind="float", above=0, below=1, wanted="a share below 1 (0.01 is one point)")
Margins = Annotated[
    dict[str, float],
    Keyed(
        {name: _SHARE if tasks.is_share(name) else _MARGIN for name in MARGIN_OUTCOMES},
        "outcome",
        "a map from outcomes to margins",
        least=1,
        others=lambda key: _MARGIN if tasks.own(key) else None,
    ),
]
_TARGET = Keyed(
    {name: budget_kinds.target(name) for name in budget_kinds.TARGETS},
    "target",
    "a map of one loss or metric to its value, such as {validation_loss: 0.2}",
    least=1,
    most=1,
    others=lambda key: budget_kinds.target(key) if tasks.own(key) else None,
)
Budgets = Annotated[
    dict[str, Any],
    Keyed(
        {**budget_kinds.STATED, budget_kinds.TARGET: _TARGET},
        "budget",
        "a map from epochs, updates, seconds or target to what is held equal",
        least=1,
    ),
]
_EPOCHS = ListOf(
    Parameter("at_epochs", "", "int", None, "Number of epochs.", minimum=1, maximum=MOST_EPOCHS)
)


@dataclass(frozen=True)
class _Seeds(FieldReader):
    """How many seeds, counted from 0 on, a list of them, or until when they are added."""

    expected = "a positive whole number, a list of whole numbers, or {until: decided, at_most: 28}"
    staged: ClassVar[Keyed] = Keyed(
        {
            "until": Parameter(kind="str", choices=(stages.DECIDED,)),
            "at_most": Parameter(kind="int", minimum=LEAST_SEEDS, maximum=10_000),
            "first": Parameter(kind="int", minimum=0, maximum=stages.MOST_FIRST),
        },
        "key",
        expected,
        least=1,
    )

    def read(self, raw: Any) -> tuple[int, ...] | range | stages.Staged:
        """Returns the seeds; a `range` where their number is given."""
        if isinstance(raw, dict) and raw:
            given = self.staged.read(raw)
            if "until" not in given:
                raise expected(self.expected)
            return stages.Staged(given.get("at_most", stages.AT_MOST), given.get("first", 0))
        if isinstance(raw, list) and raw:
            return read_items(FACTORS["seed"].read_item, raw)
        count = Parameter(kind="int", minimum=1, maximum=2**32, wanted=self.expected)
        if isinstance(raw, list | dict):
            raise expected(self.expected)
        return range(count.read(raw))

    def json_schema(self) -> dict[str, Any]:
        """Returns the schema of a number, a list, or stages."""
        count = Parameter(kind="int", minimum=1, maximum=2**32).json_item()
        several = {"type": "array", "minItems": 1, "items": FACTORS["seed"].json_item()}
        staged = {**self.staged.json_schema(), "required": ["until"]}
        return {"anyOf": [count, several, staged]}


class Machine(Section):
    """Where the results of another machine lie."""

    wanted: ClassVar[str] = "a map with results"
    results: FilePath
    """Folder of the other machine's results."""
    machine: Name = "local"
    """What that machine called itself in its own configuration."""


class Advice(Section):
    """What counts as good enough for the range of batch sizes that is advised."""

    wanted: ClassVar[str] = "a map with slower"
    slower: Annotated[
        float,
        Parameter(
            kind="float",
            above=0,
            maximum=1,
            wanted="a share above 0 and at most 1, such as 0.1 for 10 %",
        ),
    ] = budget_kinds.SLOWER
    """Share of the fastest batch size's seconds to the target by which an advised one may take
    longer: 0.1 for 10 %.
    """


class FigureFormat(Section):
    """A second form of every figure, for a paper: the report keeps SVG and PNG."""

    wanted: ClassVar[str] = "a map such as {format: pdf, width: 84, font_size: 8}"
    format: one_of("pdf") = "pdf"
    """File format of the additional file."""
    width: Annotated[
        float,
        Parameter(kind="float", minimum=40, maximum=400, wanted="a width from 40 to 400 mm"),
    ] = 84
    """Width of the page in mm. It limits the number of panels in a row."""
    font_size: Annotated[
        float,
        Parameter(kind="float", minimum=4, maximum=24, wanted="a font size from 4 to 24 points"),
    ] = 8
    """Size of the axis labels in points. All other texts keep their proportion to it."""


class PublishedFigure(Section):
    """What a document shows and found."""

    figure: Text
    """Name of the figure or table in the document."""
    found: Text
    """What the document found, in a sentence or two."""
    numbers: Annotated[list[PublishedSeries], Field(min_length=1)] = []
    """The document's own numbers, one map per series: the factors that name it, its batch sizes,
    and as many numbers of one column or more. The report has one table of all of them, ours
    beside each; some figures also have panels for them.
    """


class PublishedOfCommand(PublishedFigure):
    """What a document shows and found, beside runs of a command."""

    numbers: Annotated[list[CommandSeries], Field(min_length=1)] = []


class PublishedExamples(Section):
    """How many examples of a data set a document used."""

    wanted: ClassVar[str] = "a map with examples and place"
    examples: Annotated[int, Parameter(kind="int", minimum=1)]
    """How many it used, for training, validation and test together."""
    place: Text
    """Where the document says so."""


class ExperimentKeys(Section):
    """An experiment: of runs, of times, or of external runs."""

    @classmethod
    def kind_of(cls, raw: Any) -> type[Section]:
        commanded = isinstance(raw, dict) and "command" in raw
        return CommandKeys if commanded and cls is ExperimentKeys else cls

    title: Text = ""
    """Heading of the experiment in the report. Its name if left out."""
    question: Text = ""
    """The question that the experiment answers, in one sentence."""
    runs: Runs = None
    """External runs: the path of a CSV file, or a map with `files`, a pattern of logs. Each has a
    row per evaluation: updates or examples, losses and metrics. Nothing is trained; paths, columns
    and parameters of the logs hold batch size, seed and what else varies.
    """
    set: Factors = {}
    """Factors of every run of the experiment, over the defaults."""
    vary: FactorLists = {}
    """Factor -> its values; every combination is run."""
    cases: Annotated[list[Factors], Field(min_length=1)] = [{}]
    """Factors that move together; every case is run with every combination."""
    seeds: Annotated[Any, _Seeds()] = None
    """How many seeds (6 means 0 to 5), a list of them, or {until: decided, at_most: 28}: after 6,
    9, 13, 19 and 28 of them one looks, and the runs that open statements need get more. `first`
    is the first seed, where those before it were used to choose values.
    """
    at_epochs: Annotated[tuple[int, ...], _EPOCHS] = ()
    """Numbers of epochs that every training serves: its weights after each of them are evaluated,
    and time_epoch gives the time to get there. Weights are kept after the epochs 1 to 5, powers
    of two and the last one.
    """
    metrics: OwnMetrics = {}
    """Metrics of the logs that are outcomes too, and which values are better: {word_error: lower,
    bleu: higher}. Their columns are validation_word_error, test_word_error and train_word_error.
    For external runs, and for those that a command makes.
    """
    margins: Margins = {}
    """How much of an outcome (test_accuracy, test_loss, ...) may be lost for the loss to count as
    negligible: outcome -> margin. Written down before the runs; a batch size is within it where
    every other one is shown to be better by less (one-sided paired t-tests).
    """
    budgets: Budgets = {}
    """What the batch sizes are compared at: `epochs`, `updates`, `seconds`, and as `target` one
    loss or metric to reach ({validation_loss: 0.2}). A budget that is left out is the largest
    that every finished run reached; the target, the loss after nine tenths of the fall of the best
    batch size, as it was at the first analysis. A change of it trains nothing.
    """
    advice: Advice = Advice()
    """What counts as good enough for the range of batch sizes that is advised. A change of it
    trains nothing.
    """
    seeds_planned: Annotated[int, Parameter(kind="int", minimum=2, maximum=1_000_000)] = None
    """Seeds that were planned before any result was seen. Where there are other ones, the plan, the
    report and the advice say so: seeds added after a look make tests err more often. A change of
    it trains nothing.
    """
    beside: words("the name of a timing experiment") = ()
    """Experiments of times whose largest batch that fits, and whose throughput's knee, are drawn
    beside the largest batch within the margins.
    """
    primary: words("an outcome of runs.csv") = ()
    """Columns of runs.csv that the question is about, most important first: their trends are the
    experiment's answer. If left out, the outcomes of the figures that it names, else those of its
    measures. A change of it trains nothing."""
    figures: words("the name of a figure") = ()
    """Figures to draw, in this order; all that the measures allow if left out."""
    published: dict[str, PublishedFigure] = {}
    """What a document says: figure -> its counterpart there and what it found. The report shows
    both beside what this study found.
    """
    measure: entries_type({**MEASURES, **OF_TRAININGS}, "measure") = ()
    """What is measured of every run: a list of measures, or a map from measures to their settings.
    """
    timing: entries_type(OF_SWEEPS, "timing") = ()
    """What is measured of the machine: a list of timings, or a map from timings to their settings.
    Such an experiment trains nothing: it has no seeds and no `measure`, and varies batch_size,
    threads, device, loop and what else a step's time depends on.
    """


class EveryKey(Commanded, ExperimentKeys):
    """The keys of every kind of experiment, whose factors are checked where the kind is known."""

    set: dict[str, Any] = {}
    vary: dict[str, Any] = {}
    cases: list[dict[str, Any]] = [{}]
    published: dict[str, PublishedOfCommand] = {}


_BESIDE_A_COMMAND = Annotated[
    Any, Refused("no such key beside `command`, whose runs are known by their logs,")
]


class CommandKeys(EveryKey):
    """An experiment whose runs a command of the user's makes."""

    command: Words
    set: FreeFactors = {}
    """Factors of every run of the experiment, over the defaults."""
    vary: FreeLists = {}
    """Factor -> its values; every combination is run."""
    cases: Annotated[list[FreeFactors], Field(min_length=1)] = [{}]
    """Factors that move together; every case is run with every combination."""
    runs: _BESIDE_A_COMMAND = None
    at_epochs: _BESIDE_A_COMMAND = ()
    measure: _BESIDE_A_COMMAND = ()
    timing: _BESIDE_A_COMMAND = ()
    beside: _BESIDE_A_COMMAND = ()


def _of_its_kind(raw: Any, read: Callable[[Any], ExperimentKeys]) -> ExperimentKeys:
    kind = ExperimentKeys.kind_of(raw)
    return read(raw) if kind is ExperimentKeys else kind.model_validate(raw)


def _kept_keys(raw: Any) -> Any:
    return {k: v for k, v in raw.items() if v is not None} if isinstance(raw, dict) else raw


class Guess(Section):
    """The first guess that `init` made before the study, and the numbers behind it."""

    wanted: ClassVar[str] = "a map with batch_size and learning_rate"
    batch_size: Count
    """Batch size that was guessed from the numbers below."""
    learning_rate: Positive
    """Learning rate at that batch size, by the square-root rule from the range test."""
    largest_batch_size: Count = None
    """Largest batch that fits a quarter of a core's memory, at most all training examples."""
    half_throughput: Count = None
    """Smallest batch size with half of the highest throughput."""
    level_throughput: Count = None
    """Smallest batch size with nine tenths of the highest throughput, where it levels off."""
    noise_scale: Annotated[list[Positive], Field(max_length=2)] = []
    """Gradient noise scale after half and after nine tenths of the fall of the validation loss."""


class Reduced(Section):
    """The keys that the smaller form of a study replaces."""

    defaults: Factors = {}
    datasets: dict[str, dict[str, Any]] = {}
    """Data set -> the keys of its definition to replace."""
    experiments: dict[str, Annotated[EveryKey, BeforeValidator(_kept_keys)]] = {}
    """Experiment -> its keys to replace."""


class StudyFile(Section):
    """A grid of training runs and what is measured of them."""

    study: Name
    """Name of the study; its tables and figures lie in results/studies/{study}."""
    title: Text = ""
    """Heading of the report. The study's name where left out."""
    machine: Name = "local"
    """Name of the machine that the times belong to."""
    machines: dict[Name, Machine] = {}
    """Other machines, by name, and where their results lie: a copy of the folder `results` that the
    same experiments wrote there. Tables and figures show them side by side.
    """
    max_runs: Count = MAX_RUNS
    """Most runs that the grid may have; a guard against a slip in a list."""
    datasets: dict[Name, Dataset] = {}
    """Data sets of this study, by name. `digits`, `mnist`, `breast_cancer`, `wine` and `numpy_docs`
    need no definition.
    """
    models: dict[Name, text("the path of a Python file")] = {}
    """Your own models, by name: the path of a Python file with `build(input_shape, classes) ->
    keras.Model` or a Keras model `model`, or of a `.keras` or `.h5` file, whose weights are drawn
    anew. Built-in models need no entry.
    """
    defaults: Factors = {}
    """Factors of every run that no experiment gives otherwise."""
    experiments: Annotated[
        dict[Name, Annotated[ExperimentKeys, WrapValidator(_of_its_kind)]], Field(min_length=1)
    ]
    """Experiments by name; nothing is inherited between them."""
    figure_format: FigureFormat = None
    """Format, width and font size of figures for a paper: each figure also becomes a PDF file. A
    change of it draws the figures again and trains nothing.
    """
    claims: Annotated[list[ClaimKeys], Field(min_length=1)] = []
    """What documents state: checkable sentences, each with the test that the runs put it to. They
    stand in claims.csv and in the report, with a verdict: supported, contradicted, not resolved,
    provisional or not testable here.
    """
    published: dict[Name, PublishedExamples] = {}
    """Data set -> how many examples of it a document used. The report shows that number beside
    ours.
    """
    guess: Guess = None
    """First guess of batch size and learning rate, which `init` writes. It changes no run; the
    report compares it with the recommendation.
    """
    reduced: Reduced = None
    """A smaller form of the study, for `--config scale=reduced`: each key given here replaces the
    whole of the same key above; an experiment's key without a value is taken away.
    """
