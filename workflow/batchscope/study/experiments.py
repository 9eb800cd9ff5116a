"""Models of the four kinds of experiment in a study file.

An experiment trains here, times steps, runs a command, or reads external runs. The key `command`,
`runs` or `timing` decides its kind; without one, it trains. A new key is a field of a model, and a
new kind is a model in `KINDS`.
"""

import shlex
from collections.abc import Mapping
from typing import Annotated, Any, Literal, Union

from pydantic import (
    AfterValidator,
    BeforeValidator,
    Discriminator,
    Field,
    Tag,
    WrapValidator,
    create_model,
)
from pydantic_core import PydanticCustomError

from batchscope.core.problems import nearest
from batchscope.study import stages, tasks
from batchscope.study.factor_maps import (
    CommandFactors,
    CommandLists,
    TimingFactors,
    TimingLists,
    TrainingFactors,
    TrainingLists,
    argument_text,
)
from batchscope.study.log_format import CommandLog, Logs
from batchscope.study.model import (
    Count,
    Flag,
    GeneratedModel,
    Integer,
    Model,
    Number,
    Positive,
    Seed,
    Text,
    Texts,
    Unique,
    mapping,
)
from batchscope.study.outcomes import MIN_SEEDS
from batchscope.study.published_numbers import CommandSeries, PublishedSeries
from batchscope.study.registry import MEASURES, SWEEP_TIMINGS, TRAINING_TIMINGS
from batchscope.study.run_factors import MAX_EPOCHS, Epochs, Threads
from batchscope.study.specifications import REPEATS, Entry, Timing


def entries_type(entries: Mapping[str, Entry], noun: str) -> Any:
    """Return the type of a key that lists measures or timings, or maps them to their settings.

    The value of the key is a dict: name -> model of the settings.
    """
    fields = {name: (_settings_type(entry) | None, None) for name, entry in entries.items()}
    model = create_model(f"{noun.capitalize()}s", __base__=GeneratedModel, **fields)

    def read_settings(raw: Any, validate: Any) -> dict[str, Model]:
        settings = _settings_by_name(raw, noun)
        validated = validate(settings)
        return {name: getattr(validated, name) for name in settings}

    name = Literal[tuple(entries)]
    input_type = name | Annotated[list[name], Field(min_length=1)] | model
    return Annotated[model, WrapValidator(read_settings, json_schema_input_type=input_type)]


def _settings_by_name(raw: Any, noun: str) -> dict[str, Any]:
    """Return name of an entry -> its settings, from a name, a list of names, or a map."""
    if isinstance(raw, dict) and raw:
        return {name: {} if value is None else value for name, value in raw.items()}
    names = [raw] if isinstance(raw, str) else raw
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names or [None]):
        text = "Input should be a list of {noun}s, or a map from {noun}s to settings"
        raise PydanticCustomError("entries", text, {"noun": noun})
    if len(set(names)) < len(names):
        raise PydanticCustomError("repeated", "Every {noun} should occur once", {"noun": noun})
    return {name: {} for name in names}


def _settings_type(entry: Entry) -> Any:
    """Return the type of the settings that a study may state for an entry."""
    # Name of a setting -> key of the experiment that has its value.
    keys = {"epoch": "at_epochs"} if entry.at_epochs else {}
    if isinstance(entry, Timing) and entry.trains:
        keys[REPEATS.name] = "seeds"

    def refuse_settings_of_keys(settings: Any) -> Any:
        for name, key in keys.items():
            if isinstance(settings, dict) and name in settings:
                text = "Setting '{name}' should be left out: the experiment's '{key}' gives it"
                raise PydanticCustomError("refused", text, {"name": name, "key": key})
        return settings

    return Annotated[entry.settings, BeforeValidator(refuse_settings_of_keys)]


class StagedSeeds(Model):
    """Seeds in stages, with an interim analysis after 6, 9, 13, 19, 28, ... seeds."""

    until: Literal["decided"]
    """Seeds are added until all statements are decided."""
    at_most: Annotated[Integer, Field(ge=MIN_SEEDS, le=10_000)] = stages.DEFAULT_MAX_SEEDS
    """Largest number of seeds."""
    first: Annotated[Integer, Field(ge=0, le=stages.MAX_FIRST)] = 0
    """First seed. Seeds before it were used to choose values."""

    @property
    def seeds(self) -> range:
        return range(self.first, self.first + self.at_most)


def _seeds_tag(raw: Any) -> str:
    return "stages" if isinstance(raw, dict) else "list" if isinstance(raw, list) else "number"


_SeedCount = Annotated[Integer, Field(ge=1), AfterValidator(range)]
Seeds = Annotated[
    Annotated[_SeedCount, Tag("number")]
    | Annotated[Unique[Seed], Tag("list")]
    | Annotated[StagedSeeds, Tag("stages")],
    Discriminator(_seeds_tag),
]


class BudgetKeys(Model):
    """Budgets for comparisons of batch sizes."""

    epochs: Annotated[Positive, Field(le=MAX_EPOCHS)] = None
    """Number of epochs."""
    updates: Count = None
    """Number of updates."""
    seconds: Positive = None
    """Seconds of training."""
    target: Annotated[dict[str, Number], Field(min_length=1, max_length=1)] = None
    """One loss or metric to reach, such as {validation_loss: 0.2}."""


class PublishedFigure(Model):
    """A figure of a document and its finding."""

    figure: Text
    """Name of the figure or table in the document."""
    found: Text
    """Finding of the document, in a sentence or two."""
    numbers: Annotated[list[PublishedSeries], Field(min_length=1)] = []
    """Published values, a map per series: factors, batch sizes, and a list for each column."""


class CommandPublishedFigure(PublishedFigure):
    """A figure of a document, for runs of a command."""

    numbers: Annotated[list[CommandSeries], Field(min_length=1)] = []


class Experiment(Model):
    """Keys of every kind of experiment."""

    title: Text = ""
    """Heading of the experiment in the report. Default: its name."""
    question: Text = ""
    """The question that the experiment answers, in one sentence."""
    figures: Texts = ()
    """Figures to draw, in this order. Default: all that the measures allow."""
    published: dict[str, PublishedFigure] = {}
    """Figure -> its counterpart in a document and the finding there. The report shows both."""

    @property
    def user_metrics(self) -> tasks.Metrics:
        return tasks.user_metrics(self.metrics)


MetricName = Annotated[str, Field(pattern="^[a-z][a-z0-9]*(_[a-z0-9]+)*$", max_length=40)]


class Comparison(Experiment):
    """Keys of experiments that compare runs: trainings, runs of a command, or external runs."""

    margins: Annotated[dict[str, Positive], Field(min_length=1)] = {}
    """Outcome (test_accuracy, test_loss, ...) -> its negligible deterioration, stated before the
    runs. A batch size is within the margin if no other one is better by the margin or more.
    """
    budgets: mapping(BudgetKeys) = {}
    """Budgets at which the batch sizes are compared. Default: the largest budget that every
    finished run reached, and a target at nine tenths of the fall of the best batch size.
    """
    seeds_planned: Annotated[Integer, Field(ge=2, le=1_000_000)] = None
    """Number of seeds that was planned before the first result. Deviations are reported, since
    seeds that are added after an analysis increase the error rate of tests.
    """
    primary: Texts = ()
    """Columns of runs.csv that answer the question by their trends, most important first. Default:
    the outcomes of the figures, else the outcomes of the measures.
    """


class TrainingExperiment(Comparison):
    """An experiment that trains models here."""

    set: TrainingFactors = {}
    """Factors of every run, over the defaults."""
    vary: TrainingLists = {}
    """Factor -> its values; every combination is run."""
    cases: Annotated[list[TrainingFactors], Field(min_length=1)] = [{}]
    """Factors that change together; every case is run with every combination."""
    seeds: Seeds
    """Number of seeds (6 means 0 to 5), a list of seeds, or {until: decided, at_most: 28}."""
    measure: entries_type({**MEASURES, **TRAINING_TIMINGS}, "measure") = {}
    """Measures of every run: a list, or a map from measures to their settings."""
    at_epochs: Unique[Epochs] = ()
    """Epochs after which every training is evaluated: 1 to 5, powers of two or the last one."""
    beside: Texts = ()
    """Timing experiments, whose limits are shown with the largest batch within the margins."""


class TimingExperiment(Experiment):
    """An experiment that times steps and trains nothing."""

    set: TimingFactors = {}
    """Factors of every sweep, over the defaults."""
    vary: TimingLists = {}
    """Factor -> its values; every combination is timed."""
    cases: Annotated[list[TimingFactors], Field(min_length=1)] = [{}]
    """Factors that change together; every case is timed with every combination."""
    timing: entries_type(SWEEP_TIMINGS, "timing")
    """Timings of the machine: a list, or a map from timings to their settings."""
    at_epochs: Unique[Epochs] = ()
    """Numbers of epochs whose training time is shown."""


class LoggedExperiment(Comparison):
    """Keys of experiments with results from logs."""

    metrics: Annotated[dict[MetricName, Literal["lower", "higher"]], Field(min_length=1)] = {}
    """User-defined metrics of the logs, and their better values: {bleu: higher}. The columns are
    validation_bleu, test_bleu and train_bleu.
    """


def _path_as_logs(raw: Any) -> Any:
    return {"files": raw.replace("{", "{{").replace("}", "}}")} if isinstance(raw, str) else raw


class ExternalExperiment(LoggedExperiment):
    """An experiment with external runs, which exist already."""

    runs: Annotated[Logs, BeforeValidator(_path_as_logs, json_schema_input_type=Text | Logs)]
    """Path of a log, or a map with `files`, a pattern of logs. Each log has a row per evaluation,
    or a single row per run. Paths and columns state the batch size, the seed and other factors.
    """


class Resources(Model):
    """Resources of a run."""

    threads: Threads = 1
    """Threads of a run."""
    gpu: Annotated[Integer, Field(ge=0, le=1024)] = 0
    """GPUs of a run; without any, none is visible to it."""
    mem_mb: Count = 2000
    """Memory of its first attempt on a cluster; later attempts get more."""


def _command_word(raw: Any) -> str:
    if isinstance(raw, str | int | float):
        return argument_text(raw)
    raise PydanticCustomError("word", 'Input should be a text, a placeholder in quotes ("{seed}")')


def _split_command(raw: Any) -> Any:
    if isinstance(raw, str):
        try:
            return shlex.split(raw)
        except ValueError as error:
            raise PydanticCustomError("command", "{reason}", {"reason": str(error)}) from None
    return raw


CommandWord = Annotated[
    str, BeforeValidator(_command_word, json_schema_input_type=str | int | float | bool)
]


class CommandExperiment(LoggedExperiment):
    """An experiment with runs of a user's command."""

    command: Annotated[
        tuple[CommandWord, ...],
        Field(min_length=1),
        BeforeValidator(_split_command, json_schema_input_type=Any),
    ]
    """Command of a run: a list of words, or a text that is split into words; no shell is started.
    {factor} stands for the value of a factor, {run_dir} for the folder of the run, {threads} and
    {gpus} for its resources, {{ for a brace. It runs in the folder of this file.
    """
    set: CommandFactors = {}
    """Factors of every run, over the defaults."""
    vary: CommandLists = {}
    """Factor -> its values; every combination is run."""
    cases: Annotated[list[CommandFactors], Field(min_length=1)] = [{}]
    """Factors that change together; every case is run with every combination."""
    seeds: Seeds
    """Number of seeds (6 means 0 to 5), a list of seeds, or {until: decided, at_most: 28}."""
    inputs: Texts = ()
    """Files and folders such as the script. If one changes, all runs are new."""
    requires: Texts = ()
    """Files and folders, with placeholders. Runs are left out while one is missing."""
    log: CommandLog = CommandLog()
    """Place of a run's evaluations."""
    env: dict[Annotated[str, Field(pattern="^[^=]+$")], CommandWord] = {}
    """Environment variables, with placeholders as in `command`."""
    resources: Resources = Resources()
    """Resources that a run needs."""
    alone: Flag = False
    """Whether each run uses the machine exclusively, so that its times count as seconds."""
    resume: Flag = False
    """Whether a run that was killed continues from the files in its folder."""
    published: dict[str, CommandPublishedFigure] = {}


# Key or word that decides the kind of an experiment -> its model, in the order of precedence.
KINDS = {
    "command": CommandExperiment,
    "runs": ExternalExperiment,
    "timing": TimingExperiment,
    "training": TrainingExperiment,
}


_EVERY_KEY = list(dict.fromkeys(key for model in KINDS.values() for key in model.model_fields))


def experiment_kind(raw: Any) -> str:
    """Return the kind of an experiment, a key of KINDS, by its keys, even if one is misspelled."""
    if not isinstance(raw, dict):
        return "training"
    keys = {nearest(key, _EVERY_KEY) for key in raw}
    return next((name for name in KINDS if name in keys), "training")


_TAGGED_MODELS = [Annotated[model, Tag(f"{kind} experiment")] for kind, model in KINDS.items()]
AnyExperiment = Annotated[
    Union[(*_TAGGED_MODELS,)], Discriminator(lambda raw: f"{experiment_kind(raw)} experiment")
]

# Only some kinds have these keys. Pydantic warns of fields that shadow attributes of a class.
for _name in ("at_epochs", "beside", "primary"):
    setattr(Experiment, _name, ())
for _name in ("measure", "timing", "margins", "metrics", "budgets"):
    setattr(Experiment, _name, {})
Experiment.seeds_planned = None
