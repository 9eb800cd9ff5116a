"""Planned study and folder of results in; its jobs with their files and states out.

`JobTable` makes the trainings and commands, and has the state of each job. A job is complete if its
files exist and, for a measure, are not older than its run. Otherwise it is missing, or it waits for
a requirement that this machine lacks: a GPU, cores, a file.

`measure_jobs` and `timing_jobs` yield the other jobs; a new kind of job goes there. The functions
from `settings_at_epoch` on find the epochs before the last one whose weights measures read; rules
about these epochs are in `study.snapshot_epochs`.
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
from batchscope.store import paths, records
from batchscope.study import batch_phases, names, plan, snapshot_epochs
from batchscope.study.registry import ENTRIES, MEASURES, SWEEP_TIMINGS, TIMINGS
from batchscope.study.run_factors import TIMING_ONLY_FACTORS
from batchscope.study.specifications import REPEATS

TRAINING, MEASURE, TIMING = "training", "measure", "timing"  # nouns of jobs in texts
TRAIN, RUN_COMMAND = "train", "run_command"  # the steps that make a run


@dataclass(frozen=True)
class Job:
    """A training, a run of a command, a measure or a timing."""

    path: Path  # path of the record
    measure: str  # name of a measure or timing, TRAIN or RUN_COMMAND
    runs: tuple[str, ...] = ()  # for a timing, one of the runs that share it; empty for a sweep
    sweep: names.Sweep | None = None
    repeat: int = 1  # number of a timing's job among the jobs of its configuration
    alone: bool = False  # whether the job needs the machine exclusively

    @property
    def noun(self) -> str:
        if self.measure in (TRAIN, RUN_COMMAND):
            return TRAINING
        return TIMING if self.measure in TIMINGS else MEASURE

    @property
    def subject(self) -> str:
        return self.sweep.name if self.sweep else self.runs[0]


@dataclass(frozen=True)
class JobState:
    """A job, and whether its results exist or can be made here."""

    job: Job
    is_complete: bool  # whether its files exist and are up to date
    has_records: bool  # whether each of its runs has a record
    missing_requirement: MissingRequirement | None  # of this machine, even for a complete job

    @property
    def is_missing(self) -> bool:
        return not (self.is_complete or self.missing_requirement)


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
        # Map of an experiment to the states of its jobs, trainings first. Experiments share states.
        self.experiments = {
            name: [
                *(runs[run] for run in experiment.factors_of),
                *(
                    self._measure_state(job, [runs[run] for run in job.runs])
                    for job in measure_jobs(experiment, self.results, study.machine)
                ),
            ]
            for name, experiment in study.experiments.items()
        }
        states = chain.from_iterable(self.experiments.values())
        self.by_record = {state.job.path: state for state in states}  # each job once

    def files(self, job: Job) -> list[Path]:
        """Return the files of a job that tables and measures read, its record first."""
        if job.noun == TRAINING:
            is_command = job.measure == RUN_COMMAND
            run_files = () if is_command else paths.run_files(self.study.runs[job.subject])
            return [job.path.with_name(name) for name in run_files or paths.COMMAND_FILES]
        suffixes = ENTRIES[job.measure].also_writes
        return [job.path, *map(job.path.with_suffix, suffixes)]

    def _run_state(self, job: Job, needs: dict[str, Any]) -> JobState:
        file_names = _file_names(job.path.parent)
        recorded = paths.RECORD in file_names
        complete = file_names.issuperset(path.name for path in self.files(job))
        if recorded and not complete and job.measure == TRAIN:
            # Another version may write other files. Its runs are not trained again for them.
            complete = bool(_other_version(job))
        return JobState(job, complete, recorded, requirements.missing(needs))

    def _measure_state(self, job: Job, runs: list[JobState]) -> JobState:
        """Return the state of a measure or a timing, given the states of its runs."""
        recorded = all(state.has_records for state in runs)
        if job.sweep:
            requirement = requirements.missing(job.sweep.factors)
        elif recorded and job.measure in MEASURES and not MEASURES[job.measure].data:
            requirement = None  # The measure reads only weights, so that it needs no GPU.
        else:
            requirement = next(filter(None, (state.missing_requirement for state in runs)), None)
        complete = all(path.exists() for path in self.files(job))
        if complete and job.measure in MEASURES:
            date = job.path.stat().st_mtime
            complete = all(
                state.is_complete and date >= state.job.path.stat().st_mtime for state in runs
            )
        return JobState(job, complete, recorded, requirement)

    def waiting_jobs(self) -> dict[MissingRequirement, list[Job]]:
        """Return a map of each missing requirement to the jobs that wait for it."""
        waiting: dict[MissingRequirement, list[Job]] = {}
        for state in self.by_record.values():
            is_next = state.has_records or state.job.noun == TRAINING
            if state.missing_requirement and is_next and not state.is_complete:
                waiting.setdefault(state.missing_requirement, []).append(state.job)
        return waiting

    def user_models_of_missing_jobs(self) -> set[tuple[str, str]]:
        """Return the pairs of data set and user's model that have missing jobs."""
        pairs = set()
        for name, experiment in self.study.experiments.items():
            if any(state.is_missing for state in self.experiments[name]):
                pairs |= {(run["dataset"], run["model"]) for run in experiment.factors()}
        return {(dataset, model) for dataset, model in pairs if self.study.models[model]}

    def incomplete_user_data(self) -> list[str]:
        return [
            dataset
            for dataset, is_complete in self.data_states().items()
            if not is_complete and self.study.datasets[dataset].get("path")
        ]

    def data_states(self) -> dict[str, bool]:
        """Return a map of each data set that jobs here read to whether it is complete."""
        needed = {
            factors["dataset"]
            for experiment in self.study.experiments.values()
            for factors in experiment.factors()
            if not requirements.missing(factors)
        }
        files = {paths.RECORD, *paths.ARRAYS}
        return {
            dataset: files <= _file_names(paths.dataset_folder(self.results, dataset))
            for dataset in self.study.datasets
            if dataset in needed
        }

    def other_versions(self) -> dict[Path, tuple[str, str]]:
        """Return a map of each record of another version to its step and version."""
        versions = {path: _other_version(state.job) for path, state in self.by_record.items()}
        return {
            path: (self.by_record[path].job.measure, version)
            for path, version in versions.items()
            if version
        }

    def missing_logs(self) -> set[Path]:
        """Return the log paths of all jobs without a result."""
        missing = [state.job.path for state in self.by_record.values() if not state.is_complete]
        for dataset, is_complete in self.data_states().items():
            if not is_complete:
                missing.append(paths.dataset_record(self.results, dataset))
        return {paths.log_path(self.results, path) for path in missing}


def _file_names(folder: Path) -> set[str]:
    with contextlib.suppress(FileNotFoundError, NotADirectoryError):
        return set(os.listdir(folder))
    return set()


def _other_version(job: Job) -> str | None:
    """Return the version of a record if it is not the present one; None without a valid record."""
    with contextlib.suppress(UserError):
        return records.other_version(job.measure, disk.read_json(job.path))
    return None


def status_without_record(factors: dict[str, Any]) -> str:
    requirement = requirements.missing(factors)
    return requirement.status if requirement else records.MISSING


@dataclass(frozen=True)
class MachineResults:
    """The folder of results of a machine, and the machine's names."""

    machine: str  # name of the machine in this study
    results: Path
    recorded_name: str  # name of the machine in the paths of these results


def machine_results(study: plan.Study, results: Path | str) -> Iterator[MachineResults]:
    yield MachineResults(study.machine, Path(results), study.machine)
    for name, other in study.machines.items():
        yield MachineResults(name, Path(other.results), other.machine)


def training_job(results: Path | str, run: str) -> Job:
    return Job(paths.run_record(paths.run_folder(results, run)), TRAIN, (run,))


def measure_jobs(
    experiment: plan.PlannedExperiment, results: Path | str, machine: str
) -> Iterator[Job]:
    """Yield the measures and timings of an experiment, even those that the machine cannot run."""
    place = MachineResults("", Path(results), machine)
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
            at_epochs = [settings_at_epoch(measure, values, epoch) for epoch in epochs]
            for name in (settings, *at_epochs):
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

    A job that searches for a batch size has no sizes. Factors that only change the speed have their
    defaults, because they do not decide whether a batch fits into memory.
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
    place: MachineResults, experiment: plan.PlannedExperiment, factors: dict[str, Any], timing: str
) -> Path:
    """Return the record of the timing job that gives a training its times.

    The n-th seed uses the n-th job of its configuration. So the times of several seeds are
    independent, and one seed was timed in the same round at all batch sizes. With stages, the seed
    itself is the number, because earlier seeds belong to another plan.
    """
    seed = factors["seed"]
    repeat = 1 + (seed if experiment.deciding_analyses else experiment.seeds.index(seed))
    settings = _repeat_settings(timing, experiment.measures[timing], repeat)
    configuration = names.timing_name(factors)
    return paths.timing_path(place.results, place.recorded_name, configuration, settings, timing)


def time_paths(
    place: MachineResults, experiment: plan.PlannedExperiment, factors: dict[str, Any], timing: str
) -> dict[int, Path]:
    """Return a map of each batch size of a training to its timing record (see `time_path`)."""
    return {
        size: time_path(place, experiment, {**factors, "batch_size": size}, timing)
        for size in batch_phases.batch_sizes(factors)
    }


def settings_at_epoch(measure: str, settings: dict[str, Any], epoch: int) -> str:
    others = {name: value for name, value in settings.items() if name != "weights"}
    return names.settings_name(measure, {**others, "epoch": epoch})


@functools.cache
def epoch_read(measure: str, settings: str, horizon: int) -> int | str | None:
    epoch = names.parse_settings(measure, settings).get("epoch", 0)
    return snapshot_epochs.epoch_read_by(measure, epoch, horizon)


def epochs_read(study: plan.Study, jobs: Iterable[Job]) -> dict[str, list[int | str]]:
    """Return a map of each run to the epochs before its last whose weights measures read."""
    epochs_by_run: dict[str, dict[int | str, None]] = {}
    for job in jobs:
        for run in job.runs:
            epoch = epoch_read(job.measure, job.path.stem, study.runs[run]["epochs"])
            if epoch is not None:
                epochs_by_run.setdefault(run, {})[epoch] = None
    return {run: list(epochs) for run, epochs in epochs_by_run.items()}


def note_epochs(table: JobTable) -> None:
    """Write a note for the trainings about the epochs that measures read.

    The note is no input of a training, because a new measure would then train its run again.
    """
    states = table.by_record.values()
    measures = [state for state in states if state.job.noun != TRAINING]
    jobs = (state.job for state in measures if not state.missing_requirement)
    epochs, path = epochs_read(table.study, jobs), paths.epochs_note(table.results)
    if epochs or path.exists():
        disk.write_json(path, epochs)


def noted_epochs(results: Path | str, run: str) -> tuple[int | str, ...]:
    path = paths.epochs_note(results)
    return tuple(disk.read_json(path).get(run, ())) if path.exists() else ()


def snapshot_epoch(results: Path | str, run: str, epoch: int | str) -> int | None:
    """Return the number of a snapshot's epoch; None if the run failed or ended by this epoch.

    Raises:
        UserError: If the run's record is missing or corrupt.
    """
    path = training_job(results, run).path
    record = disk.read_json(path, "status")
    if record["status"] != records.FINISHED:
        return None
    epochs_run = disk.read_json(path, "epochs_run")["epochs_run"]
    number = snapshot_epochs.middle_epoch(epochs_run) if epoch == snapshot_epochs.MIDDLE else epoch
    return None if number is None or number >= epochs_run else number


def runs_to_train_again(
    study: plan.Study, missing: Iterable[Job], results: Path | str
) -> list[tuple[str, int]]:
    """Return pairs of a recorded run and an epoch up to which missing measures train it again."""
    repeated: dict[tuple[str, int], None] = {}
    for run, epochs in epochs_read(study, missing).items():
        for epoch in epochs if training_job(results, run).path.exists() else ():
            number = snapshot_epoch(results, run, epoch)
            files = (paths.snapshot_path(results, run, name) for name in (epoch, number))
            if number and not any(path.exists() for path in files):
                repeated[run, number] = None
    return list(repeated)
