"""What of a study exists, what is missing, and roughly what the rest takes in time and disk."""

from __future__ import annotations

import functools
import os
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import chain, product
from pathlib import Path
from typing import Any

from batchscope import (
    absence,
    estimates,
    measure_settings,
    names,
    plan,
    records,
    sweeps,
)
from batchscope.absence import Absence
from batchscope.errors import UserError
from batchscope.versions import VERSIONS

# Seconds of a core until a job that needs TensorFlow computes: of one that is timed, which has a
# process of its own, interpreter, imports and compilation; of any other, which is forked from a
# process with the imports behind it (see batchscope.warm), most of the 0.9 s of a small `evaluate`.
START_SECONDS, FORK_SECONDS = 4.0, 0.9
_STARTS = {
    **dict.fromkeys(("train", *measure_settings.MEASURES), FORK_SECONDS),
    **dict.fromkeys(measure_settings.LIGHT_MEASURES, 0.0),
    **dict.fromkeys(("time_epoch", *measure_settings.TIMINGS), START_SECONDS),
}

_STATUSES = (
    *(records.FINISHED, records.DIVERGED, records.OUT_OF_MEMORY, records.MISSING),
    absence.NO_GPU,
)


@dataclass(frozen=True)
class ExperimentStatus:
    """Where one experiment stands.

    Attributes:
        name: Its name.
        runs: Its runs.
        statuses: Status word -> runs; all five words are there.
        missing_measures: Measure -> files that are missing.
    """

    name: str
    runs: int
    statuses: dict[str, int]
    missing_measures: dict[str, int]


@dataclass(frozen=True)
class Overview:
    """Where a study stands; a run that two experiments share counts once here.

    Attributes:
        experiments: One per experiment, in the order of the file.
        total: The same for the whole study.
        missing_data: Tokens of data sets that are not prepared.
        train_seconds: Seconds of one core that the trainings take, as far as known.
        untimed_runs: Those of which nothing tells how long they take.
        start_seconds: Seconds of one core to start the jobs.
        disk_bytes: Bytes that missing data and runs take, as far as known.
        unsized: Missing data sets and models on data sets of which nothing tells the size.
        absent: What is not here -> trainings and timings that wait for it.
        trainings: Missing runs, and those that another version made.
        outdated: Step and version that made records -> how many, where it is not today's.
    """

    experiments: tuple[ExperimentStatus, ...]
    total: ExperimentStatus
    missing_data: tuple[str, ...]
    train_seconds: float
    untimed_runs: int
    start_seconds: float
    disk_bytes: float
    unsized: tuple[str, ...]
    absent: dict[Absence, list[MeasureJob]] = field(default_factory=dict)
    trainings: int = 0
    outdated: Counter[tuple[str, str]] = field(default_factory=Counter)

    @property
    def complete(self) -> bool:
        """Whether data, runs and measures all exist, of today's versions where they tell.

        What waits for what is not here does not count.
        """
        return not (
            self.missing_data
            or self.outdated
            or self.total.statuses[records.MISSING]
            or any(self.total.missing_measures.values())
        )


def overview(study: plan.Study, results: Path | str) -> Overview:
    """Returns where a study stands.

    Args:
        study: The planned study.
        results: The results folder; it need not exist.

    Raises:
        UserError: If a record is damaged.
    """
    results = Path(results)
    statuses = {name: run_status(results, run) for name, run in study.runs.items()}
    files = {
        name: measure_files(study, experiment, results)
        for name, experiment in study.experiments.items()
    }
    present = {path: path.exists() for found in files.values() for path in found}
    gone = {path: measure for found in files.values() for path, measure in found.items()}
    experiments = tuple(
        _experiment(name, experiment.runs, statuses, files[name], present)
        for name, experiment in study.experiments.items()
    )
    total = _experiment("all", study.runs, statuses, gone, present)
    missing = [study.runs[run] for run, status in statuses.items() if status == records.MISSING]
    trained = {
        records.run_folder(results, name) / "record.json": run
        for name, run in study.runs.items()
        if statuses[name] != records.MISSING and not absence.of(run.factors)
    }
    measured = {path: step for path, step in gone.items() if present[path]}
    old = _other_versions({**dict.fromkeys(trained, "train"), **measured})
    again = [run for path, run in trained.items() if path in old]
    history = estimates.History(
        results, {estimates.subject(run.factors) for run in (*missing, *again)}
    )
    seconds = [history.seconds(run.factors) for run in (*missing, *again)]
    data = tuple(
        token
        for token in _needed_data(study)
        if not (records.dataset_folder(results, token) / "record.json").exists()
    )
    sizes = {token: estimates.data_bytes(study.datasets[token]) for token in data}
    run_sizes = [(estimates.subject(run.factors), history.bytes(run.factors)) for run in missing]
    unsized = [token for token, size in sizes.items() if size is None]
    unsized += [f"{model} on {dataset}" for (dataset, model), size in run_sizes if size is None]
    jobs = Counter({"train": len(seconds), **total.missing_measures})
    jobs.update(_measured_again(study, results, again, old, present))
    return Overview(
        experiments=experiments,
        total=total,
        missing_data=data,
        train_seconds=sum(value for value in seconds if value is not None),
        untimed_runs=seconds.count(None),
        start_seconds=sum(count * _STARTS[name] for name, count in jobs.items()),
        disk_bytes=sum(size or 0 for size in [*sizes.values(), *(size for _, size in run_sizes)]),
        unsized=tuple(dict.fromkeys(unsized)),
        absent=absent(study, results),
        trainings=len(seconds),
        outdated=Counter(old.values()),
    )


def _other_versions(made: dict[Path, str]) -> dict[Path, tuple[str, str]]:
    """Returns the records that another version than today's made -> step and version.

    One that holds no version, as those of measures once did not, tells nothing.

    Args:
        made: Records that are there -> the step that makes them.
    """
    found = {}
    for path, step in made.items():
        try:
            version = records.read_json(path).get("version")
        except UserError:
            continue  # a damaged record is reported where its values are read
        if isinstance(version, str) and version != VERSIONS[step]:
            found[path] = (step, version)
    return found


def _measured_again(
    study: plan.Study,
    results: Path,
    again: list[plan.Run],
    old: dict[Path, tuple[str, str]],
    present: dict[Path, bool],
) -> Counter[str]:
    """Returns measure -> files that are there and made again: by version, or with their run."""
    runs, found = {run.name for run in again}, {}
    for experiment in study.experiments.values() if old else ():
        for job in measure_jobs(study, experiment, results):
            # The time of an epoch reads no run.
            follows = job.measure != "time_epoch" and not runs.isdisjoint(job.runs)
            if present[job.path] and (job.path in old or follows):
                found[job.path] = job.measure
    return Counter(found.values())


def _needed_data(study: plan.Study) -> list[str]:
    """Returns the data sets of what can be made here, in the study's order."""
    every = chain.from_iterable(_all_factors(study, one) for one in study.experiments.values())
    needed = {factors["dataset"] for factors in every if not absence.of(factors)}
    return [token for token in study.datasets if token in needed]


def _all_factors(study: plan.Study, experiment: plan.Experiment) -> Iterator[dict[str, Any]]:
    """Yields the factors of every run and every sweep of an experiment."""
    yield from (study.runs[run].factors for run in experiment.runs)
    yield from (sweep.factors for sweep in experiment.sweeps)


def run_status(results: Path | str, run: plan.Run) -> str:
    """Returns a run's status; without a record `missing`, or what its machine, this one, lacks.

    Raises:
        UserError: If its record is damaged.
    """
    path = records.run_folder(results, run.name) / "record.json"
    if not path.exists():
        return unrecorded(run.factors)
    record = records.read_json(path)
    if "status" not in record:
        raise UserError(f"{path}: its record lacks 'status'; delete it and run again.")
    return record["status"]


def unrecorded(factors: dict[str, Any]) -> str:
    """Returns the status of a run without a record: `missing`, or that of what is not here."""
    found = absence.of(factors)
    return found.status if found else records.MISSING


@dataclass(frozen=True)
class MeasureJob:
    """One file that a measure writes; or a training, its record.

    Attributes:
        path: The file.
        measure: The measure, or `train`.
        runs: The run it is of, or both; of a time, one of the runs that share it; of a timing
            none.
        sweep: What a timing is of.
    """

    path: Path
    measure: str
    runs: tuple[str, ...] = ()
    sweep: sweeps.Sweep | None = None

    @property
    def noun(self) -> str:
        """What kind of job it is, for people."""
        if self.measure == "train":
            return "training"
        return "timing" if self.sweep or self.measure == "time_epoch" else "measure"


def measure_jobs(
    study: plan.Study, experiment: plan.Experiment, results: Path | str, machine: str = ""
) -> Iterator[MeasureJob]:
    """Yields every file that an experiment's measures write; shared times once per run.

    Evaluate writes one more for each of the experiment's `at_epochs`.

    Args:
        study: The planned study.
        experiment: One of its experiments.
        results: The results folder.
        machine: Name of another machine in paths. Where it is left out, these are the files that
            can be made here: none that needs what is absent.
    """
    here, machine = not machine, machine or study.machine
    for job in _every_job(study, experiment, results, machine):
        if not here or not lacking(study, job, results):
            yield job


def lacking(study: plan.Study, job: MeasureJob, results: Path | str) -> Absence | None:
    """Returns what is not here and a file needs; None if it can be made, or nothing is missing.

    What reads weights alone needs no more than these.
    """
    factors = [study.runs[run].factors for run in job.runs]
    if job.sweep:
        factors.append(job.sweep.factors)
    found = next(filter(None, map(absence.of, factors)), None)
    if found and job.measure in measure_settings.LIGHT_MEASURES and _trained(results, job):
        return None
    return found


def _trained(results: Path | str, job: MeasureJob) -> bool:
    return all((records.run_folder(results, run) / "record.json").exists() for run in job.runs)


def left_out(
    study: plan.Study, experiment: plan.Experiment, results: Path | str
) -> Iterator[tuple[Absence, MeasureJob]]:
    """Yields every training, timing and measure that needs what is not here, with what that is."""
    if not any(map(absence.of, _all_factors(study, experiment))):
        return  # most studies: not worth the paths of every file
    trainings = (
        MeasureJob(records.run_folder(results, run) / "record.json", "train", (run,))
        for run in experiment.runs
    )
    others = _every_job(study, experiment, results, study.machine)
    for job in chain(trainings, others):
        found = lacking(study, job, results)
        if found:
            yield found, job


def _every_job(
    study: plan.Study, experiment: plan.Experiment, results: Path | str, machine: str
) -> Iterator[MeasureJob]:
    for measure, values in experiment.measures.items():
        settings = measure_settings.settings_name(measure, values)
        if measure in measure_settings.PAIR_MEASURES:
            for pair in experiment.pairs[measure]:
                path = records.pair_path(results, *pair, measure, settings)
                yield MeasureJob(path, measure, pair)
            continue
        for run in experiment.runs:
            if measure == "time_epoch":
                timing = names.timing_name(study.runs[run].factors)
                path = records.timing_path(results, machine, timing, settings)
            else:
                path = records.measure_path(results, run, measure, settings)
            yield MeasureJob(path, measure, (run,))
        if measure == "evaluate":
            for run, epoch in product(experiment.runs, experiment.at_epochs):
                path = records.measure_path(results, run, measure, at_epoch(epoch))
                yield MeasureJob(path, measure, (run,))
    yield from timing_jobs(experiment, results, machine)


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


def at_epoch(epoch: int) -> str:
    """Returns the name of evaluate's settings for the weights after an epoch."""
    return measure_settings.settings_name("evaluate", {"epoch": epoch})


@dataclass(frozen=True)
class Place:
    """Where a machine's results lie.

    Attributes:
        machine: Its name in this study.
        results: The folder of its results.
        recorded: What it calls itself in there.
    """

    machine: str
    results: Path
    recorded: str


def places(study: plan.Study, results: Path | str) -> Iterator[Place]:
    """Yields the places of a study's machines: its own first, then those that it names."""
    yield Place(study.machine, Path(results), study.machine)
    for name, (folder, recorded) in study.machines.items():
        yield Place(name, Path(folder), recorded)


def timing_jobs(
    experiment: plan.Experiment, results: Path | str, machine: str
) -> Iterator[MeasureJob]:
    """Yields every file that an experiment's timings write, whatever the machine lacks."""
    for measure, values in experiment.timings.items():
        settings = measure_settings.settings_name(measure, values)
        found = (job for sweep in experiment.sweeps for job in sweeps.jobs(measure, sweep))
        for name, sweep in {job.name: job for job in found}.items():
            path = records.timing_path(results, machine, name, settings, measure)
            yield MeasureJob(path, measure, sweep=sweep)


def measure_files(
    study: plan.Study, experiment: plan.Experiment, results: Path | str
) -> dict[Path, str]:
    """Returns every file that an experiment's measures write, with its measure."""
    return {job.path: job.measure for job in measure_jobs(study, experiment, results)}


def _experiment(
    name: str,
    runs: Iterable[str],
    statuses: dict[str, str],
    files: dict[Path, str],
    present: dict[Path, bool],
) -> ExperimentStatus:
    counts = Counter(statuses[run] for run in runs)
    missing = dict.fromkeys(files.values(), 0)
    for path, measure in files.items():
        missing[measure] += not present[path]
    return ExperimentStatus(
        name, counts.total(), {word: counts[word] for word in _STATUSES}, missing
    )


# --- For people ----------------------------------------------------------------------------


def describe(study: plan.Study, found: Overview, config_path: str, cores: int) -> str:
    """Returns an overview as text."""
    total = found.total
    count = len(found.experiments)
    lines = [
        f"Study {study.folder_name} ({config_path}): {_many(total.runs, 'run')} in "
        f"{_many(count, 'experiment')}.",
        "",
        *_table([*found.experiments, *([total] if count > 1 else [])]),
        "",
    ]
    if found.complete:
        all_of_it = "All that can be made here exists"
        what = all_of_it if found.absent else "Data, runs and measures all exist"
        lines.append(f"{what}: only tables, figures and report may run.")
    else:
        if found.missing_data:
            lines.append(f"Data to prepare: {', '.join(found.missing_data)}.")
        lines += [_time_line(found, cores), _disk_line(found), *_outdated_lines(found)]
    lines += told(found.absent)
    return "\n".join([*lines, *(f"Warning: {warning}" for warning in study.warnings)])


def _table(rows: list[ExperimentStatus]) -> list[str]:
    shown = _STATUSES[:-1]
    if any(row.statuses[absence.NO_GPU] for row in rows):
        shown = _STATUSES
    head = ["experiment", "runs", *(word.replace("_", " ") for word in shown)]
    cells = [[*head, "measures missing"]]
    for row in rows:
        gaps = [f"{name} {count}" for name, count in row.missing_measures.items() if count]
        counts = [str(row.statuses[word]) for word in shown]
        cells.append([row.name, str(row.runs), *counts, ", ".join(gaps) or "none"])
    widths = [max(len(line[column]) for line in cells) for column in range(len(head))]
    return [
        "  ".join(
            [
                line[0].ljust(widths[0]),
                *(cell.rjust(width) for cell, width in zip(line[1:-1], widths[1:], strict=True)),
                line[-1],
            ]
        )
        for line in cells
    ]


def _time_line(found: Overview, cores: int) -> str:
    timed = found.trainings - found.untimed_runs
    parts = []
    if timed:
        parts.append(f"about {duration(found.train_seconds)} of training for {_many(timed, 'run')}")
    if found.untimed_runs:
        parts.append(
            f"unknown for {_many(found.untimed_runs, 'run')} (no run of that model on that data "
            "set has finished)"
        )
    parts.append(f"about {duration(found.start_seconds)} to start jobs")
    wall = (found.train_seconds + found.start_seconds) / cores
    left = "" if found.untimed_runs else f"; together {duration(wall)} on {_many(cores, 'core')}"
    return f"Time left: {', '.join(parts)}{left}. What measures take comes on top."


def _outdated_lines(found: Overview) -> list[str]:
    """Returns a line for each step whose version was raised, and what comes of it."""
    lines = []
    for (step, version), count in found.outdated.items():
        what = _many(count, "run") if step == "train" else f"{_many(count, 'record')} of {step}"
        lines.append(
            f"{what} {'was' if count == 1 else 'were'} made by another version "
            f"({version}; now {VERSIONS[step]})."
        )
    if lines:
        lines.append(
            "Snakemake makes these again, with what is measured of such runs, where it made them "
            "here; what was copied here stays."
        )
    return lines


def _disk_line(found: Overview) -> str:
    text = f"Disk needed: about {size(found.disk_bytes)}"
    if not found.unsized:
        return f"{text}."
    return f"{text}, and what is not known yet: {', '.join(found.unsized)}."


def told(absent: dict[Absence, list[MeasureJob]]) -> list[str]:
    """Returns a line for each thing that is not here: what waits for it, and what mends it."""
    return [
        f"{what.title}, for which {waiting(jobs)} {'waits' if len(jobs) == 1 else 'wait'}; "
        f"{what.mend}."
        for what, jobs in absent.items()
    ]


def waiting(jobs: list[MeasureJob]) -> str:
    """Returns `12 trainings and 1 timing`."""
    counts = Counter(job.noun for job in jobs)
    nouns = ("training", "timing", "measure")
    return " and ".join(_many(counts[noun], noun) for noun in nouns if counts[noun])


def _many(count: int, noun: str) -> str:
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


def duration(seconds: float) -> str:
    """Returns seconds in the unit that reads best."""
    if seconds < 90:
        return f"{seconds:.0f} s"
    if seconds < 90 * 60:
        return f"{seconds / 60:.0f} min"
    return f"{seconds / 3600:.1f} h"


def size(count: float) -> str:
    """Returns bytes in the unit that reads best."""
    for unit in ("B", "kB", "MB"):
        if count < 1000:
            return f"{count:.0f} {unit}"
        count /= 1000
    return f"{count:.1f} GB"


def main(config_path: str, scale: str, results: Path | str) -> str:
    """Returns what would run of a configuration file, as text.

    Raises:
        UserError: If the configuration has a problem or a record is damaged.
    """
    from batchscope import config  # YAML and the schema, which a library caller need not have

    recorded = functools.partial(records.training_images, results)
    study = config.study(config_path, scale, recorded)
    return describe(study, overview(study, results), config_path, _cores())


def _cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
