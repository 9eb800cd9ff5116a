"""Every file that the jobs of a study write: which, by which job, and what each of them needs."""

from __future__ import annotations

import functools
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import chain, product
from pathlib import Path
from typing import Any

from batchscope import disk
from batchscope.catalogue import kept_epochs, run_names, sweep_names
from batchscope.catalogue.entries import REPEATS
from batchscope.catalogue.measures import MEASURES
from batchscope.catalogue.timings import TIMINGS
from batchscope.host import absence
from batchscope.host.absence import Absence
from batchscope.store import estimates, records
from batchscope.study import plan

_NOTED = "epochs_read.json"


def run_status(results: Path | str, run: str, factors: dict[str, Any]) -> str:
    """Returns a run's status; without a record `missing`, or what its machine, this one, lacks."""
    path = _run_record(results, run)
    if not path.exists():
        return unrecorded(factors)
    return disk.read_json(path, "status")["status"]


def _run_record(results: Path | str, run: str) -> Path:
    return records.run_record(records.run_folder(results, run))


def unrecorded(factors: dict[str, Any]) -> str:
    """Returns the status of a run without a record: `missing`, or that of what is not here."""
    found = absence.of(factors)
    return found.status if found else records.MISSING


@dataclass(frozen=True)
class MeasureJob:
    """One file that a measure writes; or a training, its record."""

    path: Path
    measure: str  # or `train`
    runs: tuple[str, ...] = ()  # of a time, one of those that share it; of a sweep none
    sweep: sweep_names.Sweep | None = None  # what a timing is of
    repeat: int = 1  # which of a timing's jobs of the same configuration it is

    @property
    def noun(self) -> str:
        """What kind of job it is, for people."""
        if self.measure == "train":
            return "training"
        return "timing" if self.measure in TIMINGS else "measure"

    @property
    def subject(self) -> str:
        """The name of the sweep or the run that it is of; of two runs the first."""
        return self.sweep.name if self.sweep else self.runs[0]

    @property
    def kind(self) -> tuple[str, ...]:
        """What it shares with measures and timings that take about the same time."""
        return estimates.kind(self.measure, self.path.stem, self.subject)


def training_job(results: Path | str, run: str) -> MeasureJob:
    """Returns the job that trains a run."""
    return MeasureJob(_run_record(results, run), "train", (run,))


def log_path(results: Path | str, output: Path | str) -> Path:
    """Returns the log of the job that writes a record, of data, a training, a measure or a timing.

    The folder `logs` lies beside the results.
    """
    kind, *folders, file = Path(output).relative_to(results).parts
    if file == "record.json":
        step = {"data": "prepare_data", "runs": "train"}[kind]
        *folders, file = folders
    else:
        step = folders.pop(1 if kind == "runs" else 2).removesuffix("_to")
        file = file.removesuffix(".json")
    return Path(results).parent.joinpath("logs", step, *folders, f"{file}.log")


def measure_jobs(
    study: plan.Study, experiment: plan.Experiment, results: Path | str, machine: str = ""
) -> Iterator[MeasureJob]:
    """Yields every file that an experiment's measures write; shared times once per run.

    A measure at epochs writes one more for each of the experiment's `at_epochs`.

    Args:
        machine: Name of another machine in paths. Where it is left out, these are the files that
            can be made here: none that needs what is absent.
    """
    here, machine = not machine, machine or study.machine
    for job in _every_job(study, experiment, results, machine):
        if not here or not lacking(study, job, results):
            yield job


def every_job(study: plan.Study, results: Path | str) -> dict[Path, MeasureJob]:
    """Returns every file that a study's measures and timings can write here, with its job."""
    experiments = study.experiments.values()
    jobs = chain.from_iterable(measure_jobs(study, one, results) for one in experiments)
    return {job.path: job for job in jobs}


def lacking(study: plan.Study, job: MeasureJob, results: Path | str) -> Absence | None:
    """Returns what is not here and a file needs; None if it can be made, or nothing is missing.

    What reads weights alone needs no more than these.
    """
    factors = [study.runs[run] for run in job.runs]
    if job.sweep:
        factors.append(job.sweep.factors)
    found = next(filter(None, map(absence.of, factors)), None)
    weights_alone = job.measure in MEASURES and not MEASURES[job.measure].data
    return None if weights_alone and _trained(results, job) else found


def _trained(results: Path | str, job: MeasureJob) -> bool:
    return all(_run_record(results, run).exists() for run in job.runs)


def left_out(
    study: plan.Study, experiment: plan.Experiment, results: Path | str
) -> Iterator[tuple[Absence, MeasureJob]]:
    """Yields every training, timing and measure that needs what is not here, with what that is."""
    if not any(map(absence.of, experiment.factors())):
        return  # most studies: not worth the paths of every file
    trainings = (training_job(results, run) for run in experiment.trainings.runs)
    others = _every_job(study, experiment, results, study.machine)
    for job in chain(trainings, others):
        found = lacking(study, job, results)
        if found:
            yield found, job


def _every_job(
    study: plan.Study, experiment: plan.Experiment, results: Path | str, machine: str
) -> Iterator[MeasureJob]:
    trainings = experiment.trainings
    for measure, values in trainings.measures.items():
        settings = run_names.settings_name(measure, values)
        if measure in trainings.pairs:
            for pair in trainings.pairs[measure]:
                path = records.pair_path(results, *pair, measure, settings)
                yield MeasureJob(path, measure, pair)
            continue
        for run, factors in trainings.runs.items():
            if measure in TIMINGS:
                place = Place("", Path(results), machine)
                path = time_path(place, experiment, factors, measure)
            else:
                path = records.measure_path(results, run, measure, settings)
            yield MeasureJob(path, measure, (run,))
        if measure in MEASURES and MEASURES[measure].at_epochs:
            for run, epoch in product(trainings.runs, experiment.at_epochs):
                early = at_epoch(measure, values, epoch)
                path = records.measure_path(results, run, measure, early)
                yield MeasureJob(path, measure, (run,))
    yield from timing_jobs(experiment, results, machine)


def time_path(
    place: Place, experiment: plan.Experiment, factors: dict[str, Any], timing: str
) -> Path:
    """Returns the record of the timing job that gives a training its times.

    The n-th seed's is the n-th of its configuration: times of several seeds are independent, and
    those of one seed at several batch sizes were taken in the same turn.
    """
    trainings = experiment.trainings
    repeat = trainings.seeds.index(factors["seed"]) + 1
    settings = run_names.job_settings(timing, trainings.measures[timing], repeat)
    configuration = run_names.timing_name(factors)
    return records.timing_path(place.results, place.recorded, configuration, settings, timing)


def own_models(study: plan.Study, results: Path | str) -> set[tuple[str, str]]:
    """Returns data set and model of the user's own models that something is yet to be made of."""
    found = set()
    for experiment in study.experiments.values():
        pairs = {(each["dataset"], each["model"]) for each in experiment.factors()}
        own = {(dataset, model) for dataset, model in pairs if study.models[model]}
        if own - found and not _made(study, experiment, results):
            found |= own
    return found


def _made(study: plan.Study, experiment: plan.Experiment, results: Path | str) -> bool:
    trainings = (training_job(results, run) for run in experiment.trainings.runs)
    wanted = (job for job in trainings if not lacking(study, job, results))
    jobs = chain(wanted, measure_jobs(study, experiment, results))
    return all(job.path.exists() for job in jobs)


def absent(study: plan.Study, results: Path | str) -> dict[Absence, list[MeasureJob]]:
    """Returns what is not here -> the trainings, timings and measures that wait for it, each once.

    What was measured while it was there does not wait, nor does a measure of what is not trained.
    """
    found: dict[Absence, dict[Path, MeasureJob]] = {}
    for experiment in study.experiments.values():
        for what, job in left_out(study, experiment, results):
            first = job.measure == "train" or _trained(results, job)
            if first and not job.path.exists():
                found.setdefault(what, {})[job.path] = job
    return {what: list(jobs.values()) for what, jobs in found.items()}


def at_epoch(measure: str, settings: dict[str, Any], epoch: int) -> str:
    """Returns the name of the settings of a measure for the weights after an epoch.

    Which `weights` it reads otherwise plays no part then.
    """
    others = {name: value for name, value in settings.items() if name != "weights"}
    return run_names.settings_name(measure, {**others, "epoch": epoch})


@dataclass(frozen=True)
class Place:
    """Where a machine's results lie."""

    machine: str  # its name in this study
    results: Path
    recorded: str  # what it calls itself in there


def places(study: plan.Study, results: Path | str) -> Iterator[Place]:
    """Yields the places of a study's machines: its own first, then those that it names."""
    yield Place(study.machine, Path(results), study.machine)
    for name, (folder, recorded) in study.machines.items():
        yield Place(name, Path(folder), recorded)


def timing_jobs(
    experiment: plan.Experiment, results: Path | str, machine: str
) -> Iterator[MeasureJob]:
    """Yields every file that an experiment's timings write, whatever the machine lacks."""
    for measure, values in experiment.times.timings.items():
        found = (sweep_names.jobs(measure, sweep) for sweep in experiment.times.sweeps)
        jobs = {job.name: job for job in chain.from_iterable(found)}
        for repeat in range(1, values[REPEATS.name] + 1):
            settings = run_names.job_settings(measure, values, repeat)
            for name, sweep in jobs.items():
                path = records.timing_path(results, machine, name, settings, measure)
                yield MeasureJob(path, measure, sweep=sweep, repeat=repeat)


def needed_data(study: plan.Study) -> list[str]:
    """Returns the data sets of what can be made here, in the study's order."""
    every = chain.from_iterable(one.factors() for one in study.experiments.values())
    needed = {factors["dataset"] for factors in every if not absence.of(factors)}
    return [token for token in study.datasets if token in needed]


def epoch_read(measure: str, settings: str, horizon: int) -> int | str | None:
    """Returns the epoch before the last whose weights a measure reads; None for most."""
    return kept_epochs.read_by(measure, _epoch(measure, settings), horizon)


@functools.cache
def _epoch(measure: str, settings: str) -> int:
    return run_names.parse_settings(measure, settings).get("epoch", 0)


def epochs_read(study: plan.Study, jobs: Iterable[MeasureJob]) -> dict[str, dict[int | str, None]]:
    """Returns run -> the epochs before its last whose weights some measures read, in order."""
    found: dict[str, dict[int | str, None]] = {}
    for job in jobs:
        for run in job.runs:
            horizon = study.runs[run]["epochs"]
            epoch = epoch_read(job.measure, job.path.stem, horizon)
            if epoch is not None:
                found.setdefault(run, {})[epoch] = None
    return found


def note_epochs(study: plan.Study, results: Path | str) -> None:
    """Notes for the trainings which epochs are read, so that none is trained again for them.

    No part of a training's command or input: what a finished run is measured for later would
    train it again.
    """
    read = epochs_read(study, every_job(study, results).values())
    path = Path(results) / _NOTED
    if read or path.exists():
        disk.write_json(path, {run: list(epochs) for run, epochs in read.items()})


def noted_epochs(results: Path | str, run: str) -> tuple[int | str, ...]:
    """Returns the epochs of a run that `note_epochs` noted."""
    path = Path(results) / _NOTED
    return tuple(disk.read_json(path).get(run, ())) if path.exists() else ()


def snapshot_path(results: Path | str, run: str, epoch: int | str) -> Path:
    """Returns the file of a run's weights after an epoch before its last."""
    return records.run_folder(results, run) / "epochs" / f"{epoch}.npz"


def snapshot_epoch(results: Path | str, run: str, epoch: int | str) -> int | None:
    """Returns the epoch behind a file of weights; None where a run has none before its last.

    That is a run that did not finish, or was over by then: its last weights are kept anyway.

    Raises:
        UserError: If its record is missing or damaged.
    """
    path = _run_record(results, run)
    record = disk.read_json(path, "status")
    if record["status"] != records.FINISHED:
        return None
    record = disk.read_json(path, "epochs_run")
    number = kept_epochs.middle(record["epochs_run"]) if epoch == kept_epochs.MIDDLE else epoch
    return None if number is None or number >= record["epochs_run"] else number


def trained_again(
    study: plan.Study, missing: Iterable[MeasureJob], results: Path | str
) -> list[tuple[str, int]]:
    """Returns recorded runs and the epochs that they are trained again to, for missing measures."""
    found: dict[tuple[str, int], None] = {}
    for run, epochs in epochs_read(study, missing).items():
        if _run_record(results, run).exists():
            for epoch in epochs:
                number = snapshot_epoch(results, run, epoch)
                kept = {snapshot_path(results, run, each) for each in (epoch, number)}
                if number and not any(path.exists() for path in kept):
                    found[run, number] = None
    return list(found)
