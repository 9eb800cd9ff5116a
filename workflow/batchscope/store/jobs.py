"""The jobs of a study, their files and their states: one table.

A job is complete if its files exist and, for a measure, are not older than its run. Otherwise it is
missing, or it waits for a requirement that this machine lacks: a GPU, cores, a file.
"""

import contextlib
import functools
import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any

from batchscope.core import disk
from batchscope.core.errors import UserError
from batchscope.host import requirements
from batchscope.host.requirements import MissingRequirement
from batchscope.store import estimates, paths, records
from batchscope.study import batch_phases, names, plan, snapshot_epochs
from batchscope.study.registry import MEASURES, SWEEP_TIMINGS, TIMINGS
from batchscope.study.run_factors import TIMING_ONLY_FACTORS
from batchscope.study.specifications import REPEATS
from batchscope.study.versions import ENTRIES

TRAINING, MEASURE, TIMING = "training", "measure", "timing"  # nouns of jobs
TRAIN, RUN_COMMAND = "train", "run_command"  # steps that make a run


@dataclass(frozen=True)
class Job:
    """A training, a run of a command, a measure or a timing."""

    path: Path  # record
    measure: str  # or TRAIN, RUN_COMMAND
    runs: tuple[str, ...] = ()  # empty for a sweep; for a timing, one of the runs that share it
    sweep: names.Sweep | None = None
    repeat: int = 1  # number among a timing's jobs of the same configuration
    alone: bool = False  # whether it runs exclusively

    @property
    def noun(self) -> str:
        if self.measure in (TRAIN, RUN_COMMAND):
            return TRAINING
        return TIMING if self.measure in TIMINGS else MEASURE

    @property
    def subject(self) -> str:
        return self.sweep.name if self.sweep else self.runs[0]

    @property
    def kind(self) -> tuple[str, ...]:
        return estimates.kind(self.measure, self.path.stem, self.subject)


@dataclass(frozen=True)
class JobState:
    """State of a job."""

    job: Job
    complete: bool  # whether its files exist and are up to date
    recorded: bool  # whether each of its runs has a record
    lacking: MissingRequirement | None  # a requirement that this machine lacks, complete or not

    @property
    def missing(self) -> bool:
        return not (self.complete or self.lacking)

    @property
    def waits(self) -> bool:
        is_next = self.recorded or self.job.noun == TRAINING
        return bool(self.lacking) and not self.complete and is_next


class JobTable:
    """The jobs of a study and their states."""

    def __init__(self, study: plan.Study, results: Path | str) -> None:
        self.study, self.results = study, Path(results)
        runs = {
            run: self._run_state(training_job(self.results, run), factors)
            for run, factors in study.runs.items()
        }
        for name, run in study.commands.items():
            path = paths.run_record(paths.run_folder(self.results, name))
            job = Job(path, RUN_COMMAND, (name,), alone=run.command.alone)
            runs[name] = self._run_state(job, run.needs)
        # Experiment -> its states, trainings first. Experiments share states.
        self.experiments = {
            name: [
                *(runs[run] for run in (*experiment.runs, *experiment.commands)),
                *(
                    self._measure_state(job, [runs[run] for run in job.runs])
                    for job in measure_jobs(experiment, self.results, study.machine)
                ),
            ]
            for name, experiment in study.experiments.items()
        }
        states = chain.from_iterable(self.experiments.values())
        self.by_record = {state.job.path: state for state in states}  # record -> state

    def files(self, job: Job) -> list[Path]:
        """Return the files of a job that tables and measures read, its record first."""
        if job.measure == TRAIN:
            file_names = paths.run_files(self.study.runs[job.subject])
            return [job.path.with_name(name) for name in file_names]
        if job.measure == RUN_COMMAND:
            return [job.path.with_name(name) for name in paths.COMMAND_FILES]
        suffixes = ENTRIES[job.measure].also_writes
        return [job.path, *(job.path.with_suffix(suffix) for suffix in suffixes)]

    def _run_state(self, job: Job, needs: dict[str, Any]) -> JobState:
        file_names = _names(job.path.parent)
        recorded = paths.RECORD in file_names
        complete = file_names.issuperset(path.name for path in self.files(job))
        if recorded and not complete and job.measure == TRAIN:
            # Another version may have written other files; its runs are not trained again for them.
            complete = bool(_other_version(job))
        return JobState(job, complete, recorded, requirements.missing(needs))

    def _measure_state(self, job: Job, runs: list[JobState]) -> JobState:
        """Return the state of a measure or a timing, given the states of its runs."""
        recorded = all(state.recorded for state in runs)
        if job.sweep:
            lacking = requirements.missing(job.sweep.factors)
        elif recorded and job.measure in MEASURES and not MEASURES[job.measure].data:
            lacking = None  # it reads weights only
        else:
            lacking = next((state.lacking for state in runs if state.lacking), None)
        complete = all(path.exists() for path in self.files(job))
        if complete and job.measure in MEASURES:
            date = job.path.stat().st_mtime
            complete = all(
                state.complete and date >= state.job.path.stat().st_mtime for state in runs
            )
        return JobState(job, complete, recorded, lacking)

    def absent(self) -> dict[MissingRequirement, list[Job]]:
        """Return missing requirement -> the jobs that wait for it."""
        waiting: dict[MissingRequirement, list[Job]] = {}
        for state in self.by_record.values():
            if state.lacking and state.waits:
                waiting.setdefault(state.lacking, []).append(state.job)
        return waiting

    def user_models(self) -> set[tuple[str, str]]:
        """Return data set and model of the user's models that have missing jobs."""
        pairs = set()
        for name, experiment in self.study.experiments.items():
            if any(state.missing for state in self.experiments[name]):
                pairs |= {(run["dataset"], run["model"]) for run in experiment.factors()}
        return {(dataset, model) for dataset, model in pairs if self.study.models[model]}

    def user_data(self) -> list[str]:
        incomplete = (dataset for dataset, complete in self.data().items() if not complete)
        return [dataset for dataset in incomplete if self.study.datasets[dataset].get("path")]

    def data(self) -> dict[str, bool]:
        """Return data set -> whether it is complete, of the data that jobs on this machine read."""
        needed = {
            factors["dataset"]
            for experiment in self.study.experiments.values()
            for factors in experiment.factors()
            if not requirements.missing(factors)
        }
        files = {paths.RECORD, *paths.ARRAYS}
        return {
            dataset: files <= _names(paths.dataset_folder(self.results, dataset))
            for dataset in self.study.datasets
            if dataset in needed
        }

    def other_versions(self) -> dict[Path, tuple[str, str]]:
        """Return record -> step and version, for records of another version than today's."""
        outdated = {}
        for path, state in self.by_record.items():
            step, record = state.job.measure, disk.read_json(path) if path.exists() else {}
            if version := records.other_version(step, record):
                outdated[path] = (step, version)
        return outdated


def _names(folder: Path) -> set[str]:
    with contextlib.suppress(FileNotFoundError, NotADirectoryError):
        return set(os.listdir(folder))
    return set()


def _other_version(job: Job) -> str | None:
    """Return the version that made a record if it is not today's; None for a corrupt record."""
    with contextlib.suppress(UserError):
        return records.other_version(job.measure, disk.read_json(job.path))
    return None


def unrecorded(factors: dict[str, Any]) -> str:
    """Return the status of a run without a record: `missing`, or what this machine lacks."""
    lacking = requirements.missing(factors)
    return lacking.status if lacking else records.MISSING


@dataclass(frozen=True)
class Place:
    """Results of a machine."""

    machine: str  # name in this study
    results: Path
    recorded: str  # name in these results


def places(study: plan.Study, results: Path | str) -> Iterator[Place]:
    yield Place(study.machine, Path(results), study.machine)
    for name, (folder, recorded) in study.machines.items():
        yield Place(name, Path(folder), recorded)


def training_job(results: Path | str, run: str) -> Job:
    return Job(paths.run_record(paths.run_folder(results, run)), TRAIN, (run,))


def measure_jobs(
    experiment: plan.PlannedExperiment, results: Path | str, machine: str
) -> Iterator[Job]:
    """Yield the measures and timings of an experiment, even those that the machine cannot run."""
    place = Place("", Path(results), machine)
    for measure, values in experiment.measures.items():
        settings = names.settings_name(measure, values)
        if measure in TIMINGS:
            for run, factors in experiment.runs.items():
                for path in time_paths(place, experiment, factors, measure).values():
                    yield Job(path, measure, (run,), alone=True)
        elif measure in experiment.pairs:
            for pair in experiment.pairs[measure]:
                yield Job(paths.pair_path(results, *pair, measure, settings), measure, pair)
        else:
            epochs = experiment.at_epochs if MEASURES[measure].at_epochs else ()
            for name in (settings, *(at_epoch(measure, values, epoch) for epoch in epochs)):
                for run in experiment.runs:
                    yield Job(paths.measure_path(results, run, measure, name), measure, (run,))
    yield from timing_jobs(experiment, results, machine)


def timing_jobs(
    experiment: plan.PlannedExperiment, results: Path | str, machine: str
) -> Iterator[Job]:
    """Yield the timings of an experiment's sweeps, even those that the machine cannot run."""
    for timing, values in experiment.timings.items():
        sweeps = {
            job_sweep.name: job_sweep
            for sweep in experiment.sweeps
            for job_sweep in job_sweeps(timing, sweep)
        }
        for repeat in range(1, values[REPEATS.name] + 1):
            settings = _repeat_settings(timing, values, repeat)
            for name, sweep in sweeps.items():
                path = paths.timing_path(results, machine, name, settings, timing)
                yield Job(path, timing, sweep=sweep, repeat=repeat, alone=True)


def job_sweeps(timing: str, sweep: names.Sweep) -> Iterator[names.Sweep]:
    """Yield the sweep of each job of a timing, given a sweep over all batch sizes.

    A job that searches for a batch size has no sizes. It has the defaults of the factors that only
    change the speed: whether a batch fits into memory does not depend on them.
    """
    kind = SWEEP_TIMINGS[timing].batch_sizes
    if kind == "searched":
        defaults = {name: factor.default for name, factor in TIMING_ONLY_FACTORS.items()}
        yield names.Sweep({**sweep.factors, **defaults})
    elif kind == "each":
        yield from (names.Sweep(sweep.factors, (size,)) for size in sweep.batch_sizes)
    else:
        yield sweep


def _repeat_settings(timing: str, settings: dict[str, Any], repeat: int) -> str:
    return names.settings_name(timing, {**settings, REPEATS.name: repeat})


def time_path(
    place: Place, experiment: plan.PlannedExperiment, factors: dict[str, Any], timing: str
) -> Path:
    """Return the record of the timing job that gives a training its times.

    The n-th seed has the n-th job of its configuration: times of several seeds are independent, and
    one seed was timed in the same round at all batch sizes. Seeds in stages also count the seeds
    before the first, because their times belong to another plan.
    """
    seed = factors["seed"]
    repeat = 1 + (seed if experiment.deciding_analyses else experiment.seeds.index(seed))
    settings = _repeat_settings(timing, experiment.measures[timing], repeat)
    configuration = names.timing_name(factors)
    return paths.timing_path(place.results, place.recorded, configuration, settings, timing)


def time_paths(
    place: Place, experiment: plan.PlannedExperiment, factors: dict[str, Any], timing: str
) -> dict[int, Path]:
    """Return batch size -> its timing record, as `time_path`, for all sizes of a training."""
    return {
        size: time_path(place, experiment, {**factors, "batch_size": size}, timing)
        for size in batch_phases.batch_sizes(factors)
    }


def at_epoch(measure: str, settings: dict[str, Any], epoch: int) -> str:
    kept = {name: value for name, value in settings.items() if name != "weights"}
    return names.settings_name(measure, {**kept, "epoch": epoch})


@functools.cache
def epoch_read(measure: str, settings: str, horizon: int) -> int | str | None:
    epoch = names.parse_settings(measure, settings).get("epoch", 0)
    return snapshot_epochs.read_by(measure, epoch, horizon)


def epochs_read(study: plan.Study, jobs: Iterable[Job]) -> dict[str, list[int | str]]:
    """Return run -> the epochs of the weights that measures read, without the last epoch."""
    epochs_by_run: dict[str, dict[int | str, None]] = {}
    for job in jobs:
        for run in job.runs:
            epoch = epoch_read(job.measure, job.path.stem, study.runs[run]["epochs"])
            if epoch is not None:
                epochs_by_run.setdefault(run, {})[epoch] = None
    return {run: list(epochs) for run, epochs in epochs_by_run.items()}


def note_epochs(table: JobTable) -> None:
    """Tell the trainings which epochs the measures read, so that none is trained again.

    This is no input of a training: a new measure of a finished run would train it again.
    """
    states = table.by_record.values()
    jobs = (state.job for state in states if not state.lacking and state.job.noun != TRAINING)
    epochs, path = epochs_read(table.study, jobs), paths.epochs_note(table.results)
    if epochs or path.exists():
        disk.write_json(path, epochs)


def noted_epochs(results: Path | str, run: str) -> tuple[int | str, ...]:
    path = paths.epochs_note(results)
    return tuple(disk.read_json(path).get(run, ())) if path.exists() else ()


def snapshot_epoch(results: Path | str, run: str, epoch: int | str) -> int | None:
    """Return the epoch behind a file of weights; None if the run ended by then or failed.

    Raises:
        UserError: If the run's record is missing or corrupt.
    """
    path = training_job(results, run).path
    record = disk.read_json(path, "status")
    if record["status"] != records.FINISHED:
        return None
    epochs_run = disk.read_json(path, "epochs_run")["epochs_run"]
    number = snapshot_epochs.middle(epochs_run) if epoch == snapshot_epochs.MIDDLE else epoch
    return None if number is None or number >= epochs_run else number


def trained_again(
    study: plan.Study, missing: Iterable[Job], results: Path | str
) -> list[tuple[str, int]]:
    """Return recorded runs, each with an epoch: missing measures train them again up to it."""
    repeated: dict[tuple[str, int], None] = {}
    for run, epochs in epochs_read(study, missing).items():
        for epoch in epochs if training_job(results, run).path.exists() else ():
            number = snapshot_epoch(results, run, epoch)
            files = (paths.snapshot_path(results, run, name) for name in (epoch, number))
            if number and not any(path.exists() for path in files):
                repeated[run, number] = None
    return list(repeated)
