"""A planned study: the models of its file, and the runs and sweeps that follow from them."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

from batchscope.core.problems import Place
from batchscope.study import stages
from batchscope.study.claims import Claim
from batchscope.study.commands import CommandRun
from batchscope.study.experiments import Experiment
from batchscope.study.model import Model
from batchscope.study.names import LongNameError, Sweep
from batchscope.study.outcomes import MIN_SEEDS
from batchscope.study.registry import ENTRIES
from batchscope.study.run_factors import CONSTANT, FALLING, HORIZON_REASON, horizon_factor
from batchscope.study.study_file import Machine, StudyFile
from batchscope.study.tasks import CLASSIFICATION, Metrics

# Names of the two runs of a pair, at the positions 0 and 1 of the line between their weights.
Pair = tuple[str, str]
_MAX_PAIR_LENGTH = 210  # for both names; a file name has 255 characters


class HorizonSchedule(NamedTuple):
    """A factor that makes rate or batch size depend on the horizon, and its value."""

    factor: str
    value: str

    @property
    def why(self) -> str:
        return f"with {self.factor} {self.value}, {HORIZON_REASON}"

    @property
    def expected(self) -> str:
        return f"{self.factor} {CONSTANT}"


@dataclass(frozen=True)
class PlannedExperiment:
    """An experiment with its runs.

    Attributes:
        keys: The model of the study file, one of the four kinds.
        vary: Factor -> values. Data sets and models are names with digests, as in paths.
        runs: Training -> its factors, in order: cases, then vary as written, then seeds.
        analyses: Seeds before each interim analysis; empty if their number is fixed.
        timed: Whether the runs have seconds: from a timing or from logs.
        tasks: Tasks that may be learned; all if only the logs know.
        sweeps: Sweeps over batch sizes of a timing experiment.
        commands: Name of every run that a command makes -> the run.
        columns: Columns of our tables that logs fill; None if trainings fill them.
        external_runs: The `LoggedRuns` of an experiment with external runs, else None.
    """

    name: str
    keys: Experiment
    vary: dict[str, tuple[Any, ...]]
    runs: dict[str, dict[str, Any]] = field(default_factory=dict)
    analyses: tuple[int, ...] = ()
    timed: bool = False
    tasks: tuple[str, ...] = (CLASSIFICATION,)
    sweeps: tuple[Sweep, ...] = ()
    commands: dict[str, CommandRun] = field(default_factory=dict)
    columns: tuple[str, ...] | None = None
    external_runs: Any = field(default=None, repr=False, compare=False)

    @property
    def place(self) -> Place:
        return ("experiments", self.name)

    @property
    def title(self) -> str:
        return self.keys.title or self.name

    @cached_property
    def factors_of(self) -> dict[str, dict[str, Any]]:
        """Training or run of a command -> its factors; empty for external runs."""
        return self.runs | {name: run.factors for name, run in self.commands.items()}

    @cached_property
    def seeds(self) -> tuple[int, ...]:
        """Seeds of the runs so far; empty for external runs."""
        return tuple(dict.fromkeys(factors["seed"] for factors in self.factors_of.values()))

    @property
    def first_runs(self) -> Iterator[str]:
        """Names of the trainings and commands with the first seed."""
        return (run for run, factors in self.factors_of.items() if factors["seed"] == self.seeds[0])

    @cached_property
    def pairs(self) -> dict[str, tuple[Pair, ...]]:
        """Measure of two runs -> names of the runs of each pair."""
        return {
            name: _run_pairs(settings.between, self.runs)
            for name, settings in self.keys.measure.items()
            if ENTRIES[name].pairs
        }

    @property
    def deciding_analyses(self) -> tuple[int, ...]:
        return tuple(seeds for seeds in self.analyses if seeds >= MIN_SEEDS)

    @property
    def verdict_seeds(self) -> int:
        """Number of seeds of every batch size, at least as at the first deciding analysis."""
        if self.external_runs:
            rows_of_series = (rows.groupby("batch_size") for rows in self.external_runs.series)
            seeds = (rows["seed"].agg(set) for rows in rows_of_series)
            return min(len(set.intersection(*by_size)) for by_size in seeds)
        return max(len(self.seeds), *self.deciding_analyses[:1], 0)

    @property
    def race(self) -> tuple[int, ...]:
        """Numbers of seeds before each analysis of the race over learning rates; empty if none."""
        return self.analyses if self.analyses[:1] == (stages.SCREENING_SEEDS,) else ()

    @cached_property
    def batch_sizes(self) -> tuple[int, ...]:
        sizes = {run["batch_size"] for run in self.runs.values()}
        return tuple(sorted(sizes or (self.vary["batch_size"] if self.columns else ())))

    @cached_property
    def horizon_schedule(self) -> HorizonSchedule | None:
        """A schedule that ties runs to their horizon, so that no prefix is a shorter training."""
        schedules = [run.factors.get("schedule") for run in self.commands.values()]
        schedules += [self.external_runs.schedule] if self.external_runs else []
        if schedule := next((name for name in schedules if name in FALLING), ""):
            return HorizonSchedule("schedule", schedule)
        factors = ((horizon_factor(run), run) for run in self.runs.values())
        return next((HorizonSchedule(name, run[name]) for name, run in factors if name), None)

    @property
    def has_evaluations(self) -> bool:
        if self.external_runs:
            return not self.external_runs.has_single_rows
        return all(run["evaluate_every"] for run in self.runs.values())

    @cached_property
    def metrics(self) -> Metrics:
        return self.keys.user_metrics

    @property
    def at_epochs(self) -> tuple[int, ...]:
        return tuple(sorted(self.keys.at_epochs))

    @cached_property
    def measures(self) -> dict[str, dict[str, Any]]:
        return _settings_of_names(self.keys.measure)

    @cached_property
    def timings(self) -> dict[str, dict[str, Any]]:
        return _settings_of_names(self.keys.timing)

    @property
    def command_factors(self) -> list[str]:
        return [name for run in list(self.commands.values())[:1] for name in run.factors]

    def factors(self) -> Iterator[dict[str, Any]]:
        yield from self.runs.values()
        yield from (sweep.factors for sweep in self.sweeps)


def _settings_of_names(entries: Mapping[str, Model]) -> dict[str, dict[str, Any]]:
    """Return the settings that names spell; the others are in the names of runs."""
    return {
        name: {key: getattr(settings, key) for key in ENTRIES[name].parameters}
        for name, settings in entries.items()
    }


def _run_pairs(
    between: Mapping[str, tuple[Any, Any]], runs: dict[str, dict[str, Any]]
) -> tuple[Pair, ...]:
    """Return the names of the runs in each pair of a measure: equal in every factor but one."""
    [(factor, (small_value, large_value))] = between.items()

    def shared_values(factors: dict[str, Any]) -> tuple[Any, ...]:
        return tuple(value for name, value in factors.items() if name != factor)

    large_runs = {
        shared_values(factors): name
        for name, factors in runs.items()
        if factors[factor] == large_value
    }
    pairs = tuple(
        (name, large_runs[shared_values(factors)])
        for name, factors in runs.items()
        if factors[factor] == small_value and shared_values(factors) in large_runs
    )
    # A cluster's executor makes one file name of both runs and the settings.
    if any(len(small_run) + len(large_run) > _MAX_PAIR_LENGTH for small_run, large_run in pairs):
        raise LongNameError(f"Expected pairs of at most {_MAX_PAIR_LENGTH} characters.")
    return pairs


def folder_name(study: str, reduced: bool) -> str:
    return f"{study}-reduced" if reduced else study


@dataclass(frozen=True)
class Study:
    """A planned study.

    Attributes:
        file: The model of its file.
        datasets: Token -> resolved definition of every data set that a run uses.
        models: Token -> the user's model file, or None for a built-in model.
        experiments: By name, in the order of the file.
        claims: Checkable sentences of documents, in the order of the file.
        written: Content of the file, in its reduced form if that is planned.
        folder: Folder of the file.
    """

    file: StudyFile
    reduced: bool
    datasets: dict[str, dict[str, Any]]
    models: dict[str, str | None]
    experiments: dict[str, PlannedExperiment]
    warnings: tuple[str, ...] = ()
    claims: tuple[Claim, ...] = ()
    written: dict[str, Any] = field(default_factory=dict, repr=False, compare=False)
    folder: Path | None = field(default=None, repr=False, compare=False)

    @property
    def metrics(self) -> Metrics:
        by_experiment = (experiment.metrics for experiment in self.experiments.values())
        return tuple(dict.fromkeys(metric for metrics in by_experiment for metric in metrics))

    @property
    def has_stages(self) -> bool:
        return any(experiment.deciding_analyses for experiment in self.experiments.values())

    @property
    def name(self) -> str:
        return self.file.study

    @property
    def title(self) -> str:
        return self.file.title or self.file.study

    @property
    def machine(self) -> str:
        return self.file.machine

    @property
    def machines(self) -> dict[str, Machine]:
        return self.file.machines

    @property
    def folder_name(self) -> str:
        return folder_name(self.name, self.reduced)

    @cached_property
    def runs(self) -> dict[str, dict[str, Any]]:
        maps = [experiment.runs for experiment in self.experiments.values()]
        return {name: factors for runs in maps for name, factors in runs.items()}

    @cached_property
    def commands(self) -> dict[str, CommandRun]:
        maps = [experiment.commands for experiment in self.experiments.values()]
        return {name: run for runs in maps for name, run in runs.items()}


def runs_of_others(experiments: Mapping[str, PlannedExperiment], name: str) -> set[str]:
    """Return the trainings and commands of all experiments but one."""
    others = (other for other in experiments.values() if other.name != name)
    return {run for other in others for run in other.factors_of}
