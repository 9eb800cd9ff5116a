"""How every job of a study stands: one table, from which all who ask are answered.

A job is made where its record and each file beside it are there, of a measure no older than that of
its run. One that is not made is missing, or waits for what is not here: a GPU, cores, a file.
"""

import contextlib
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from batchscope import disk
from batchscope.errors import UserError
from batchscope.host import requirements
from batchscope.host.requirements import MissingRequirement
from batchscope.store import job_files, paths, records
from batchscope.store.job_files import Job
from batchscope.study import commands, plan
from batchscope.study.registry import MEASURES
from batchscope.study.versions import ENTRIES


@dataclass(frozen=True)
class State:
    """How one job stands."""

    job: Job
    made: bool  # whether its record and each file beside it are there, and not stale
    recorded: bool  # whether each run that it is of has a record
    lacking: MissingRequirement | None  # what it needs and is not here, whether it is made or not
    stale: bool = False  # whether it is a measure of a run that is made after it

    @property
    def missing(self) -> bool:
        return not (self.made or self.lacking)

    @property
    def waits(self) -> bool:
        first = self.recorded or self.job.noun == job_files.TRAINING
        return bool(self.lacking) and not self.made and first

    @property
    def damaged(self) -> bool:
        return self.missing and not self.stale and self.job.path.exists()


class JobTable:
    """The jobs of a study, and how they stand."""

    def __init__(self, study: plan.Study, results: Path | str) -> None:
        self.study, self.results = study, Path(results)
        trained = {run: self._training(run) for run in study.runs}
        made = {name: self._commanded(name, run) for name, run in study.commands.items()}
        # Experiment -> its jobs, trainings first; what experiments share is in each.
        self.experiments = {
            name: [
                *(trained[run] for run in experiment.runs),
                *(made[run] for run in experiment.commands),
                *(
                    _other(job, [trained[run] for run in job.runs])
                    for job in job_files.measure_jobs(experiment, self.results, study.machine)
                ),
            ]
            for name, experiment in study.experiments.items()
        }
        # Record -> how its job stands, each once.
        self.every = {each.job.path: each for own in self.experiments.values() for each in own}

    def _training(self, run: str) -> State:
        job, factors = job_files.training_job(self.results, run), self.study.runs[run]
        there = _names(job.path.parent)
        recorded = paths.RECORD in there
        made = recorded and bool(
            there.issuperset(paths.run_files(factors))
            # Another version's may be others: it is told apart, and not trained again for them.
            or _other_version(job)
        )
        return State(job, made, recorded, requirements.missing(factors))

    def _commanded(self, name: str, run: commands.CommandRun) -> State:
        path = paths.run_record(paths.run_folder(self.results, name))
        job = Job(path, "run_command", (name,), alone=run.command.alone)
        there = _names(job.path.parent)
        made = there.issuperset(paths.COMMAND_FILES)
        return State(job, made, paths.RECORD in there, requirements.missing(run.needs))

    def here(self) -> Iterator[Job]:
        for state in self.every.values():
            if not state.lacking and state.job.noun != job_files.TRAINING:
                yield state.job

    def absent(self) -> dict[MissingRequirement, list[Job]]:
        """Returns what is not here -> the jobs that wait for it, each once."""
        found: dict[MissingRequirement, list[Job]] = {}
        for state in self.every.values():
            if state.lacking and state.waits:
                found.setdefault(state.lacking, []).append(state.job)
        return found

    def own_models(self) -> set[tuple[str, str]]:
        """Returns data set and model of the user's own models that something is missing of."""
        found = set()
        for name, experiment in self.study.experiments.items():
            if any(state.missing for state in self.experiments[name]):
                found |= {(each["dataset"], each["model"]) for each in experiment.factors()}
        return {(dataset, model) for dataset, model in found if self.study.models[model]}

    def own_data(self) -> list[str]:
        lacking = (dataset for dataset, whole in self.data().items() if not whole)
        return [dataset for dataset in lacking if self.study.datasets[dataset].get("path")]

    def data(self) -> dict[str, bool]:
        """Returns the data sets of what can be made here -> whether they are whole, in order."""
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
        """Returns the records that another version than today's made -> step and version."""
        found = {}
        for path, state in self.every.items():
            step, record = state.job.measure, disk.read_json(path) if path.exists() else {}
            if version := records.other_version(step, record):
                found[path] = (step, version)
        return found


def unrecorded(factors: dict[str, Any]) -> str:
    """Returns the status of a run without a record: `missing`, or that of what is not here."""
    found = requirements.missing(factors)
    return found.status if found else records.MISSING


def statuses(table: JobTable) -> dict[str, str]:
    """Returns run -> status; raises `UserError` where a record is damaged."""
    found = {}
    study = table.study
    needs = study.runs | {name: run.needs for name, run in study.commands.items()}
    for run, factors in needs.items():
        path = paths.run_record(paths.run_folder(table.results, run))
        recorded = path.exists() and not table.every[path].missing
        found[run] = disk.read_json(path, "status")["status"] if recorded else unrecorded(factors)
    return found


def _other(job: Job, trained: list[State]) -> State:
    """Returns how a measure or a timing stands, by the trainings that it is of."""
    recorded = all(state.recorded for state in trained)
    if job.sweep:
        lacking = requirements.missing(job.sweep.factors)
    else:
        lacking = next(filter(None, (state.lacking for state in trained)), None)
    # What reads weights alone needs no more than these.
    if recorded and job.measure in MEASURES and not MEASURES[job.measure].data:
        lacking = None
    beside = (job.path.with_suffix(suffix) for suffix in ENTRIES[job.measure].also_writes)
    there = job.path.exists()
    stale = (
        there
        and job.measure in MEASURES
        and not all(
            state.made and job.path.stat().st_mtime >= state.job.path.stat().st_mtime
            for state in trained
        )
    )
    whole = there and all(path.exists() for path in beside)
    return State(job, whole and not stale, recorded, lacking, stale)


def _names(folder: Path) -> set[str]:
    try:
        return {*os.listdir(folder)}
    except (FileNotFoundError, NotADirectoryError):
        return set()


def _other_version(job: Job) -> str | None:
    """Returns the version that made a record, where it is not today's; a damaged one has none."""
    with contextlib.suppress(UserError):
        return records.other_version(job.measure, disk.read_json(job.path))
    return None
