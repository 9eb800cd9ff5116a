"""What a study is once it is planned: its experiments, their runs and what is asked of them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from batchscope.catalogue import budget_kinds, tasks
from batchscope.catalogue.names import Sweep
from batchscope.study.claims import Claim
from batchscope.study.commands import Run
from batchscope.study.published_numbers import Series

if TYPE_CHECKING:
    from batchscope.study.document import FigureFormat

# Names of two runs: at position 0 and 1 of a line.
Pair = tuple[str, str]


@dataclass(frozen=True)
class Trainings:
    """What an experiment trains, and what is asked of it; empty in an experiment of times.

    Where the trainings were made elsewhere, it holds what is asked of them alone.

    Attributes:
        runs: Name of every run -> every factor as the name spells it, data set and model as tokens;
            in order: cases, then vary as written, then seeds.
        measures: Measure -> every setting, by full name.
        pairs: Measure of two runs -> names of both, for each pair.
        margins: Outcome -> largest loss of it that counts as negligible.
        budgets: What its runs are compared at, as stated: kind -> value, of a target column ->
            value.
        slower: Share of the fastest batch size's seconds to the target by which one that is
            advised may take longer.
        seeds_planned: Seeds that were planned before any was seen; None where it is not stated.
        looks: Numbers of seeds after which one looks, the last of them all that may be trained;
            empty where the number of seeds is fixed.
        beside: Experiments of times whose limits are drawn beside this one's.
        timed: Whether they have seconds: of a timing of theirs or beside, or of their own table.
        tasks: What may be learned of their data sets: all where files alone know.
    """

    runs: dict[str, dict[str, Any]] = field(default_factory=dict)
    seeds: tuple[int, ...] = ()
    measures: dict[str, dict[str, Any]] = field(default_factory=dict)
    pairs: dict[str, tuple[Pair, ...]] = field(default_factory=dict)
    margins: dict[str, float] = field(default_factory=dict)
    budgets: dict[str, Any] = field(default_factory=dict)
    slower: float = budget_kinds.SLOWER
    seeds_planned: int | None = None
    looks: tuple[int, ...] = ()
    beside: tuple[str, ...] = ()
    timed: bool = False
    tasks: tuple[str, ...] = (tasks.CLASSIFICATION,)


@dataclass(frozen=True)
class Times:
    """What an experiment times by itself; empty in an experiment that trains.

    Attributes:
        timings: Timing -> every setting, by full name.
        sweeps: What is timed: a sweep over batch sizes for all else that is varied.
    """

    timings: dict[str, dict[str, Any]] = field(default_factory=dict)
    sweeps: tuple[Sweep, ...] = ()


@dataclass(frozen=True)
class OwnRuns:
    """The runs of an experiment that were made elsewhere, or by a command; empty in any other.

    Attributes:
        path: The table of their evaluations, or the pattern of their logs; empty of a command.
        files: All files that were read.
        sha256: Digest of these.
        read_as: What the logs were recognised as, and what of them is called otherwise.
        columns: Columns of our tables that it fills, beside factors.
        evaluated: Whether a training has several evaluations, and not one row at its target.
        schedule: One that falls towards the horizon, so that these serve no shorter training.
        table: What was read of them, an `external_runs.ExternalRuns`.
    """

    path: str = ""
    files: tuple[str, ...] = ()
    sha256: str = ""
    read_as: str = ""
    rows: int = 0
    trainings: int = 0
    seeds: int = 0
    series: int = 0
    columns: tuple[str, ...] = ()
    evaluated: bool = False
    schedule: str = ""
    table: Any = field(default=None, repr=False, compare=False)


@dataclass(frozen=True)
class Experiment:
    """One experiment of a study: of trainings, of times, of a command, or of external runs.

    Attributes:
        title: Heading; the name where none is given.
        question: The question that it answers, or an empty text.
        vary: Factor -> values.
        at_epochs: Numbers of epochs that every training serves, in rising order.
        primary: Columns that its question is about; empty for those of its figures or measures.
        figures: Its figures, in order; empty for all that its measures allow.
        published: What a document says, by figure.
        numbers: The document's own numbers, by figure, for those that show some.
        commands: Name of every run that a command makes -> what makes it.
    """

    name: str
    title: str
    question: str
    vary: dict[str, tuple[Any, ...]]
    at_epochs: tuple[int, ...] = ()
    primary: tuple[str, ...] = ()
    figures: tuple[str, ...] = ()
    published: dict[str, dict[str, str]] = field(default_factory=dict)
    numbers: dict[str, tuple[Series, ...]] = field(default_factory=dict)
    trainings: Trainings = field(default_factory=Trainings)
    times: Times = field(default_factory=Times)
    own: OwnRuns = field(default_factory=OwnRuns)
    commands: dict[str, Run] = field(default_factory=dict)

    @property
    def own_factors(self) -> list[str]:
        """The names of the factors that its command is given; none without a command."""
        return [name for run in [*self.commands.values()][:1] for name in run.factors]

    def factors(self) -> Iterator[dict[str, Any]]:
        yield from self.trainings.runs.values()
        yield from (sweep.factors for sweep in self.times.sweeps)


def folder_name(study: str, reduced: bool) -> str:
    """Returns a study's folder below `results/studies`."""
    return f"{study}-reduced" if reduced else study


@dataclass(frozen=True)
class Study:
    """A planned study.

    Attributes:
        title: Heading; the name where none is given.
        machine: Name of the machine that times belong to.
        datasets: Token -> resolved definition of every data set that a run uses.
        models: Token -> the user's model file, or None for a built-in model.
        experiments: By name, in the order of the file.
        machines: Other machine -> the folder of its results, and what it calls itself there.
        claims: What documents state, in the order of the file.
        published: Data set's token -> how many examples a document used, and its place there.
        written: What its file holds, in its reduced form where that runs; `folder` is the file's.
        figure_format: Additional format of the figures; None for SVG and PNG alone.
        guess: First guess before the study, a `document.Guess`; None if there is none.
    """

    name: str
    title: str
    machine: str
    reduced: bool
    datasets: dict[str, dict[str, Any]]
    models: dict[str, str | None]
    experiments: dict[str, Experiment]
    warnings: tuple[str, ...] = field(default=())
    machines: dict[str, tuple[str, str]] = field(default_factory=dict)
    claims: tuple[Claim, ...] = ()
    published: dict[str, tuple[int, str]] = field(default_factory=dict)
    written: dict[str, Any] = field(default_factory=dict, repr=False, compare=False)
    folder: Path | None = field(default=None, repr=False, compare=False)
    figure_format: FigureFormat | None = None
    guess: Any = None

    @property
    def folder_name(self) -> str:
        """Its folder below `results/studies`."""
        return folder_name(self.name, self.reduced)

    @cached_property
    def runs(self) -> dict[str, dict[str, Any]]:
        every = (one.trainings.runs for one in self.experiments.values())
        return {name: factors for runs in every for name, factors in runs.items()}

    @cached_property
    def commands(self) -> dict[str, Run]:
        every = (one.commands for one in self.experiments.values())
        return {name: run for runs in every for name, run in runs.items()}
