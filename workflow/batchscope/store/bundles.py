"""Bundles: many short jobs that Snakemake, or a cluster, sees as one; each has a record of its own.

Single jobs cost what a cluster takes to start one, and what Snakemake takes to keep count of them.
A bundle makes its jobs one after the other and declares none of their files, so that nothing that
is made is lost with it; what it did not come to is planned anew by the next command.
"""

import math
import os
import shutil
import uuid
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import pydantic

from batchscope import disk
from batchscope.errors import reading
from batchscope.store import job_files, paths
from batchscope.store.job_files import MEASURE, TIMING, TRAINING, Job
from batchscope.store.status import SNAPSHOT, JobRow
from batchscope.study import names, plan, run_factors, versions
from batchscope.study.config import AUTO
from batchscope.study.specifications import REPEATS, Timing

LARGE = 1000  # runs of a study from which on one machine bundles them too
# A bundle is of so many seconds. After them it begins nothing new, where they were not known or are
# others than expected: the next command bundles the rest by what they took. It is of no fewer than
# `SHORTEST`, for a cluster takes some 15 to start one.
SECONDS, SHORTEST, MOST = 600.0, 30.0, 50
SIDE_BY_SIDE = 4  # bundles at least, as long as they are not too short: nodes have cores
TRAINING_MB = 2000


@dataclass(frozen=True)
class Step:
    """One job of a bundle, as the command line has it."""

    files: tuple[str, ...]  # that it writes
    words: tuple[str, ...]
    log: str
    after: tuple[str, ...] = ()  # files that it needs: its runs' records

    @property
    def ready(self) -> bool:
        return all(map(os.path.exists, self.after))

    @property
    def record(self) -> str:
        return self.files[0] if self.files[0].endswith(".json") else ""

    def made(self, planned: float) -> bool:
        """Whether all that it writes is there, and no older than what it needs.

        A record is to be younger than `planned`, the time at which it was missing or stale.
        """
        try:
            oldest = min(map(os.path.getmtime, self.files))
            needed = [planned] if self.record else []
            return all(each <= oldest for each in (*needed, *map(os.path.getmtime, self.after)))
        except FileNotFoundError:
            return False


@dataclass(frozen=True)
class Bundle:
    """Jobs that are made one after the other, on the same cores."""

    steps: tuple[Step, ...]
    data: tuple[str, ...]  # ids of the data sets that they read
    threads: int  # -1 for all cores
    gpus: int
    memory_mb: int
    alone: bool  # whether they have the machine to themselves
    seconds: float | None  # that they take, where it is known
    seconds_at_most: float | None = None  # after which no other is begun
    after: tuple[str, ...] = ()  # names of bundles that come first
    # No other's, so that what one of the same jobs left before is never taken for its own.
    name: str = field(default_factory=lambda: uuid.uuid4().hex[:16], compare=False)

    @property
    def records(self) -> list[str]:
        return [step.record for step in self.steps if step.record]

    def write(self, folder: Path | str) -> None:
        """Writes it into the folder of its study's bundles, where `read` finds it on any node."""
        disk.write_json(paths.bundle_file(folder, self.name, paths.BUNDLED), asdict(self))


def clear(folder: Path | str) -> None:
    shutil.rmtree(folder, ignore_errors=True)


def read(folder: Path | str, name: str) -> tuple[Bundle, float]:
    """Returns a bundle that was written, and when; raises `UserError` if it is damaged or none."""
    path = paths.bundle_file(folder, name, paths.BUNDLED)
    with reading(path, "a bundle of jobs"):
        written = path.stat().st_mtime
        return pydantic.TypeAdapter(Bundle).validate_json(path.read_bytes()), written


@dataclass(frozen=True)
class _Unit:
    """What stays in one bundle: a run and what is measured of it, or one other job."""

    steps: tuple[Step, ...]
    data: str
    threads: int
    gpus: int
    memory_mb: int
    seconds: float | None
    noun: str = TRAINING  # MEASURE of two runs, TIMING
    turn: int = 1  # of a timing: which of its configuration's

    @property
    def kind(self) -> tuple[Any, ...]:
        return self.noun, self.gpus, self.threads


def planned(
    study: plan.Study, results: Path | str, left: list[JobRow], jobs_each: int | str = AUTO
) -> list[Bundle]:
    """Returns bundles of all that is left to make, but for runs that commands of the user's make.

    Args:
        left: What is left.
        jobs_each: Runs, measures of two runs, or timings in a bundle; AUTO by their seconds.
    """
    kinds: dict[tuple[Any, ...], list[_Unit]] = {}
    for unit in _Jobs(study, Path(results), left).units():
        kinds.setdefault(unit.kind, []).append(unit)
    most = SECONDS if jobs_each == AUTO else None
    found: list[Bundle] = []
    makes: dict[str, str] = {}  # record -> its bundle
    for (noun, *_), units in sorted(kinds.items(), key=lambda each: each[0][0] == MEASURE):
        for part in _parts(units, noun, jobs_each):
            steps = (step for unit in part for step in unit.steps if noun == MEASURE)
            needed = {makes.get(file, "") for step in steps for file in step.after}
            first = tuple(sorted(needed - {""}))
            found.append(_bundle(part, most, first))
            makes |= dict.fromkeys(found[-1].records, found[-1].name)
    return found


def _parts(units: list[_Unit], noun: str, jobs_each: int | str) -> Iterator[list[_Unit]]:
    """Yields units of one kind by bundle: dealt out like cards, so that all take about as long.

    Times that are to be compared stay in the turn in which they are taken on one machine.
    """
    number = _number(units, noun, jobs_each)
    if noun == TIMING:
        units = sorted(units, key=lambda unit: unit.turn)
        size = math.ceil(len(units) / number)
        yield from (units[first : first + size] for first in range(0, len(units), size))
        return
    units = sorted(units, key=lambda unit: -(unit.seconds or 0))
    yield from (units[first::number] for first in range(number))


def _number(units: list[_Unit], noun: str, jobs_each: int | str) -> int:
    """Returns how many bundles units are made in."""
    if isinstance(jobs_each, int):
        return math.ceil(len(units) / jobs_each)
    seconds = [unit.seconds for unit in units]
    beside = 1 if noun == TIMING else SIDE_BY_SIDE
    least, most = math.ceil(len(units) / MOST), beside
    if None not in seconds:
        total = sum(filter(None, seconds))
        least, most = max(least, math.ceil(total / SECONDS)), math.ceil(total / SHORTEST)
    return min(len(units), max(least, min(beside, most)))


def _bundle(units: list[_Unit], most: float | None, after: tuple[str, ...]) -> Bundle:
    first, seconds = units[0], [unit.seconds for unit in units]
    return Bundle(
        steps=tuple(step for unit in units for step in unit.steps),
        data=tuple(sorted({unit.data for unit in units})),
        threads=first.threads,
        gpus=first.gpus,
        memory_mb=max(unit.memory_mb for unit in units),
        alone=first.noun == TIMING,
        seconds=None if None in seconds else sum(filter(None, seconds)),
        seconds_at_most=most,
        after=after,
    )


@dataclass(frozen=True)
class _Jobs:
    """What is left of a study, as steps."""

    study: plan.Study
    results: Path
    left: list[JobRow]

    def units(self) -> Iterator[_Unit]:
        """Yields what is left; of a run its training first, then what is measured of it alone."""
        runs: dict[str, list[tuple[Job, float | None]]] = {}
        due = [row for row in self.left if row.due and row.job.measure != SNAPSHOT]
        for job, seconds in [(row.job, row.seconds) for row in due]:
            if job.noun == TIMING:
                yield self._timing(job, seconds)
            elif len(job.runs) > 1:
                yield self._of_run(MEASURE, [(job, seconds)])
            elif job.measure != "run_command":
                runs.setdefault(job.runs[0], []).append((job, seconds))
        yield from (self._of_run(TRAINING, jobs) for jobs in runs.values())

    def _of_run(self, noun: str, jobs: list[tuple[Job, float | None]]) -> _Unit:
        factors = self.study.runs[jobs[0][0].runs[0]]
        seconds = [taken for _, taken in jobs]
        return _Unit(
            steps=tuple(step for job, _ in jobs for step in self._steps(job)),
            data=factors["dataset"],
            threads=factors["threads"] or -1,
            gpus=run_factors.gpus(factors),
            memory_mb=max(map(_memory_mb, (job for job, _ in jobs))),
            seconds=None if None in seconds else sum(seconds),
            noun=noun,
        )

    def _timing(self, job: Job, seconds: float | None) -> _Unit:
        factors = job.sweep.factors if job.sweep else self.study.runs[job.runs[0]]
        _, machine, subject, *_ = job.path.relative_to(self.results).parts[-5:]
        settings = names.parse_settings(job.measure, job.path.stem)
        return _Unit(
            steps=(self._entry_step(job, (machine, subject), factors["model"]),),
            data=factors["dataset"],
            threads=factors["threads"] or -1,
            gpus=run_factors.gpus(factors),
            memory_mb=_memory_mb(job),
            seconds=seconds,
            noun=TIMING,
            turn=settings[REPEATS.name],
        )

    def _steps(self, job: Job) -> Iterator[Step]:
        """Yields the steps of a training or a measure.

        Weights before a run's last are a step of their own, which is passed over where the
        training kept them: mostly.
        """
        if job.noun == MEASURE:
            for run in job.runs:
                factors = self.study.runs[run]
                epoch = job_files.epoch_read(job.measure, job.path.stem, factors["epochs"])
                if epoch is not None:
                    yield self._weights(run, epoch, factors["model"])
            yield self._entry_step(job, job.runs, self.study.runs[job.runs[0]]["model"])
        else:
            run = job.subject
            factors = self.study.runs[run]
            files = (job.path.with_name(file) for file in paths.run_files(factors))
            yield self._step(files, ("train", "--run", run), factors["model"])

    def _weights(self, run: str, epoch: int | str, model: str) -> Step:
        path = paths.snapshot_path(self.results, run, epoch)
        words = ("snapshot", "--run", run, "--epoch", str(epoch))
        return self._step([path], words, model, (run,))

    def _entry_step(self, job: Job, subjects: Iterable[str], model: str) -> Step:
        """Returns the step of a measure or a timing, by what its `subjects` are given."""
        entry = versions.ENTRIES[job.measure]
        words = [job.measure]
        for option, subject in zip(entry.subjects, subjects, strict=True):
            words += [f"--{option}", subject]
        words += ["--settings", job.path.stem, "--output", job.path.as_posix()]
        files = [job.path, *(job.path.with_suffix(suffix) for suffix in entry.also_writes)]
        built = isinstance(entry, Timing) or entry.data
        runs = job.runs if job.noun == MEASURE else ()
        return self._step(files, words, model if built else "", runs)

    def _step(
        self, files: Iterable[Path], words: Iterable[str], model: str, runs: Iterable[str] = ()
    ) -> Step:
        """Returns a step that needs the records of `runs`, by the first of the files it writes."""
        files = tuple(files)
        path = self.study.models.get(model)
        records = (paths.run_record(paths.run_folder(self.results, run)) for run in runs)
        return Step(
            files=tuple(file.as_posix() for file in files),
            words=(*words, *(("--model-file", path) if path else ())),
            log=paths.log_path(self.results, files[0]).as_posix(),
            after=tuple(record.as_posix() for record in records),
        )


def _memory_mb(job: Job) -> int:
    return TRAINING_MB if job.noun == TRAINING else versions.ENTRIES[job.measure].memory_mb
