"""The jobs of a study and the file that each writes: trainings, measures and timings."""

import functools
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any

from batchscope import disk
from batchscope.store import estimates, paths, records
from batchscope.study import batch_phases, names, plan, snapshot_epochs
from batchscope.study.registry import MEASURES, OF_SWEEPS, TIMINGS
from batchscope.study.run_factors import TIMING_ONLY_FACTORS
from batchscope.study.specifications import REPEATS

TRAINING, MEASURE, TIMING = "training", "measure", "timing"  # kinds of jobs, for people
MAKES = ("train", "run_command")  # steps that make a run


@dataclass(frozen=True)
class Job:
    """What one job makes of a study: a training, a measure or a timing."""

    path: Path  # its record
    measure: str  # or one of `MAKES`
    runs: tuple[str, ...] = ()  # of a time, one of those that share it; of a sweep none
    sweep: names.Sweep | None = None  # what a timing is of
    repeat: int = 1  # which of a timing's jobs of the same configuration it is
    alone: bool = False  # whether it has the machine to itself

    @property
    def noun(self) -> str:
        if self.measure in MAKES:
            return TRAINING
        return TIMING if self.measure in TIMINGS else MEASURE

    @property
    def subject(self) -> str:
        return self.sweep.name if self.sweep else self.runs[0]

    @property
    def kind(self) -> tuple[str, ...]:
        return estimates.kind(self.measure, self.path.stem, self.subject)


@dataclass(frozen=True)
class Place:
    """Where a machine's results lie."""

    machine: str  # its name in this study
    results: Path
    recorded: str  # what it calls itself in there


def places(study: plan.Study, results: Path | str) -> Iterator[Place]:
    yield Place(study.machine, Path(results), study.machine)
    for name, (folder, recorded) in study.machines.items():
        yield Place(name, Path(folder), recorded)


def training_job(results: Path | str, run: str) -> Job:
    return Job(paths.run_record(paths.run_folder(results, run)), "train", (run,))


def measure_jobs(
    experiment: plan.PlannedExperiment, results: Path | str, machine: str
) -> Iterator[Job]:
    """Yields every measure and timing of an experiment on a machine, whatever it lacks.

    A measure at epochs writes one more file for each of the experiment's `at_epochs`.
    """
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
            at = experiment.at_epochs if MEASURES[measure].at_epochs else ()
            early = [at_epoch(measure, values, epoch) for epoch in at]
            first = [(run, settings) for run in experiment.runs]
            for run, name in chain(
                first, ((run, name) for run in experiment.runs for name in early)
            ):
                yield Job(paths.measure_path(results, run, measure, name), measure, (run,))
    yield from timing_jobs(experiment, results, machine)


def timing_jobs(
    experiment: plan.PlannedExperiment, results: Path | str, machine: str
) -> Iterator[Job]:
    """Yields every job of an experiment's timings of sweeps, whatever the machine lacks."""
    for measure, values in experiment.timings.items():
        sweeps = {
            job.name: job for sweep in experiment.sweeps for job in job_sweeps(measure, sweep)
        }
        for repeat in range(1, values[REPEATS.name] + 1):
            settings = _job_settings(measure, values, repeat)
            for name, sweep in sweeps.items():
                path = paths.timing_path(results, machine, name, settings, measure)
                yield Job(path, measure, sweep=sweep, repeat=repeat, alone=True)


def job_sweeps(timing: str, sweep: names.Sweep) -> Iterator[names.Sweep]:
    """Yield the sweep of each job of a timing, given a sweep over all batch sizes.

    A job that searches for a batch size has none, and the defaults of the factors that drive the
    steps: whether a batch fits into memory does not depend on them.
    """
    kind = OF_SWEEPS[timing].batch_sizes
    if kind == "searched":
        defaults = {name: factor.default for name, factor in TIMING_ONLY_FACTORS.items()}
        yield names.Sweep({**sweep.factors, **defaults})
    elif kind == "each":
        yield from (names.Sweep(sweep.factors, (size,)) for size in sweep.batch_sizes)
    else:
        yield sweep


def _job_settings(timing: str, settings: dict[str, Any], repeat: int) -> str:
    return names.settings_name(timing, {**settings, REPEATS.name: repeat})


def time_path(
    place: Place, experiment: plan.PlannedExperiment, factors: dict[str, Any], timing: str
) -> Path:
    """Returns the record of the timing job that gives a training its times.

    The n-th seed's is the n-th of its configuration: times of several seeds are independent, and
    those of one seed at several batch sizes were taken in the same turn. Where seeds come in
    stages, those before the first are counted too: their times were of another plan.
    """
    seed = factors["seed"]
    repeat = 1 + (seed if experiment.looks else experiment.seeds.index(seed))
    settings = _job_settings(timing, experiment.measures[timing], repeat)
    configuration = names.timing_name(factors)
    return paths.timing_path(place.results, place.recorded, configuration, settings, timing)


def time_paths(
    place: Place, experiment: plan.PlannedExperiment, factors: dict[str, Any], timing: str
) -> dict[int, Path]:
    """Returns batch size -> its timing record, as `time_path`, for all sizes of a training."""
    return {
        size: time_path(place, experiment, {**factors, "batch_size": size}, timing)
        for size in batch_phases.batch_sizes(factors)
    }


def at_epoch(measure: str, settings: dict[str, Any], epoch: int) -> str:
    """Returns the name of the settings of a measure for the weights after an epoch.

    Which `weights` it reads otherwise plays no part then.
    """
    others = {name: value for name, value in settings.items() if name != "weights"}
    return names.settings_name(measure, {**others, "epoch": epoch})


@functools.cache
def epoch_read(measure: str, settings: str, horizon: int) -> int | str | None:
    epoch = names.parse_settings(measure, settings).get("epoch", 0)
    return snapshot_epochs.read_by(measure, epoch, horizon)


def epochs_read(study: plan.Study, jobs: Iterable[Job]) -> dict[str, list[int | str]]:
    """Returns run -> the epochs before its last whose weights some measures read, each once."""
    found: dict[str, dict[int | str, None]] = {}
    for job in jobs:
        for run in job.runs:
            epoch = epoch_read(job.measure, job.path.stem, study.runs[run]["epochs"])
            if epoch is not None:
                found.setdefault(run, {})[epoch] = None
    return {run: [*epochs] for run, epochs in found.items()}


def note_epochs(study: plan.Study, jobs: Iterable[Job], results: Path | str) -> None:
    """Notes for the trainings which epochs some measures read, so that none is trained again.

    This is no part of a training's command or input: what a finished run is measured for later
    would train it again.
    """
    read, path = epochs_read(study, jobs), paths.epochs_note(results)
    if read or path.exists():
        disk.write_json(path, read)


def noted_epochs(results: Path | str, run: str) -> tuple[int | str, ...]:
    path = paths.epochs_note(results)
    return tuple(disk.read_json(path).get(run, ())) if path.exists() else ()


def snapshot_epoch(results: Path | str, run: str, epoch: int | str) -> int | None:
    """Returns the epoch behind a file of weights; None where a run has none before its last.

    That is a run that did not finish, or was over by then: its last weights are kept anyway.

    Raises:
        UserError: If its record is missing or damaged.
    """
    path = training_job(results, run).path
    if disk.read_json(path, "status")["status"] != records.FINISHED:
        return None
    epochs_run = disk.read_json(path, "epochs_run")["epochs_run"]
    number = snapshot_epochs.middle(epochs_run) if epoch == snapshot_epochs.MIDDLE else epoch
    return None if number is None or number >= epochs_run else number


def trained_again(
    study: plan.Study, missing: Iterable[Job], results: Path | str
) -> list[tuple[str, int]]:
    """Returns recorded runs and the epochs that they are trained again to, for missing measures."""
    found: dict[tuple[str, int], None] = {}
    for run, epochs in epochs_read(study, missing).items():
        for epoch in epochs if training_job(results, run).path.exists() else ():
            number = snapshot_epoch(results, run, epoch)
            kept = (paths.snapshot_path(results, run, each) for each in (epoch, number))
            if number and not any(path.exists() for path in kept):
                found[run, number] = None
    return [*found]
