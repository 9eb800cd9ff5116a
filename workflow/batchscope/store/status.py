"""What of a study exists, what is missing, and roughly what the rest takes in time and disk."""

from __future__ import annotations

import functools
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from batchscope import disk, wording
from batchscope.catalogue.measures import MEASURES
from batchscope.catalogue.timings import TIMINGS
from batchscope.catalogue.versions import VERSIONS
from batchscope.host import absence
from batchscope.host.absence import Absence
from batchscope.store import data_warnings, estimates, job_files, records
from batchscope.store.job_files import MeasureJob
from batchscope.study import plan

# Seconds of a core until a job that needs TensorFlow computes: of a sweep, which has a process of
# its own, interpreter, imports and compilation; of any other, which is forked from a process with
# the imports behind it (see batchscope.host.warm_process), most of the 0.9 s of a small `evaluate`.
START_SECONDS, FORK_SECONDS = 4.0, 0.9
_STARTS = {
    "train": FORK_SECONDS,
    **{name: FORK_SECONDS if entry.data else 0.0 for name, entry in MEASURES.items()},
    **{name: FORK_SECONDS if entry.forked else START_SECONDS for name, entry in TIMINGS.items()},
}

_STATUSES = (
    *(records.FINISHED, records.DIVERGED, records.OUT_OF_MEMORY, records.MISSING),
    *(absence.NO_GPU, absence.NO_CORES),
)


@dataclass(frozen=True)
class ExperimentStatus:
    """Where one experiment stands."""

    name: str
    runs: int
    statuses: dict[str, int]  # word -> runs; every word of `_STATUSES` is there
    missing_measures: dict[str, int]  # measure -> files


@dataclass(frozen=True)
class Overview:
    """Where a study stands; a run that two experiments share counts once here.

    Times are seconds of one core, or for timings of the whole machine, and with the bytes they are
    sums of what is known.
    """

    experiments: tuple[ExperimentStatus, ...]  # in the order of the file
    total: ExperimentStatus
    missing_data: tuple[str, ...]  # tokens of data sets that are not prepared
    train_seconds: float
    untimed_runs: int  # without a time estimate, as `untimed_jobs`
    measure_seconds: float
    timing_seconds: float
    untimed_jobs: tuple[MeasureJob, ...]
    start_seconds: float  # of the jobs, where that is not in the other times
    disk_bytes: float  # what missing data and runs take
    unsized: tuple[str, ...]  # missing data sets, and models on data sets, of unknown size
    absent: dict[Absence, list[MeasureJob]] = field(default_factory=dict)  # and what waits for it
    trainings: int = 0  # missing runs, those that another version made, and `to_epoch`
    to_epoch: int = 0  # trainings of finished runs to an epoch whose weights are missing and read
    # Step and version that made records -> how many, where it is not today's.
    outdated: Counter[tuple[str, str]] = field(default_factory=Counter)
    data_warnings: tuple[str, ...] = ()  # sentences

    @property
    def complete(self) -> bool:
        """Whether data, runs and measures all exist, of today's versions where they hold one.

        What waits for what is not here does not count.
        """
        return not (
            self.missing_data
            or self.outdated
            or self.total.statuses[records.MISSING]
            or any(self.total.missing_measures.values())
        )


def overview(study: plan.Study, results: Path | str) -> Overview:
    """Returns where a study stands; raises `UserError` if a record is damaged."""
    results = Path(results)
    statuses = {name: job_files.run_status(results, name, run) for name, run in study.runs.items()}
    files = {
        name: {job.path: job for job in job_files.measure_jobs(study, experiment, results)}
        for name, experiment in study.experiments.items()
    }
    every = {path: job for found in files.values() for path, job in found.items()}
    present = {path: path.exists() for path in every}
    experiments = tuple(
        _experiment(name, experiment.trainings.runs, statuses, files[name], present)
        for name, experiment in study.experiments.items()
        if not experiment.own.path
    )
    total = _experiment("all", study.runs, statuses, every, present)
    missing = [run for run, status in statuses.items() if status == records.MISSING]
    trained = [
        job_files.training_job(results, name)
        for name, run in study.runs.items()
        if statuses[name] != records.MISSING and not absence.of(run)
    ]
    measured = [job for path, job in every.items() if present[path]]
    unmade = [job for path, job in every.items() if not present[path]]
    old = _other_versions([*trained, *measured])
    again = [job.runs[0] for job in trained if job.path in old]
    to_epoch = job_files.trained_again(study, unmade, results)
    trainings = [study.runs[run] for run in (*missing, *again)]
    trainings += [{**study.runs[run], "epochs": epoch} for run, epoch in to_epoch]
    history = estimates.History(results, set(map(estimates.subject, trainings)))
    seconds = [history.seconds(factors) for factors in trainings]
    data = tuple(
        token
        for token in job_files.needed_data(study)
        if not (records.dataset_folder(results, token) / "record.json").exists()
    )
    sizes = {token: estimates.data_bytes(study.datasets[token]) for token in data}
    weights = _weights(study, missing, every.values(), history)
    weights += [_weight(study, history, run) for run, _ in to_epoch]
    unsized = [token for token, size in sizes.items() if size is None]
    unsized += [f"{model} on {dataset}" for (dataset, model), size in weights if size is None]
    repeated = _measured_again(every.values(), {*again}, old, present)
    took = estimates.MeasureHistory(results)
    known, unknown = Counter(), []
    starts = len(seconds) * _STARTS["train"]
    for job in [*unmade, *repeated]:
        taken = took.seconds(job.kind)
        known[job.noun] += taken or 0
        if taken is None:
            unknown.append(job)
            starts += _STARTS[job.measure]  # in the time where that is known
    return Overview(
        experiments=experiments,
        total=total,
        missing_data=data,
        train_seconds=sum(value for value in seconds if value is not None),
        untimed_runs=seconds.count(None),
        measure_seconds=known["measure"],
        timing_seconds=known["timing"],
        untimed_jobs=tuple(unknown),
        start_seconds=starts,
        disk_bytes=sum(size or 0 for size in [*sizes.values(), *(size for _, size in weights)]),
        unsized=tuple(dict.fromkeys(unsized)),
        absent=job_files.absent(study, results),
        trainings=len(seconds),
        to_epoch=len(to_epoch),
        outdated=Counter(old.values()),
        data_warnings=tuple(
            warning for token in study.datasets for warning in data_warnings.read(results, token)
        ),
    )


def _weights(
    study: plan.Study,
    missing: Iterable[str],
    jobs: Iterable[MeasureJob],
    history: estimates.History,
) -> list[tuple[tuple[str, str], float | None]]:
    """Returns data set and model, and the bytes of its weights, of each missing run.

    Initial weights are stored once for all runs of a model and a seed.
    """
    read, initial, found = job_files.epochs_read(study, jobs), set(), []
    for run in missing:
        subject, one = _weight(study, history, run)
        seed = study.runs[run]["seed"]
        files = estimates.WEIGHT_FILES + len(read.get(run, ()))
        files += (subject, seed) not in initial
        initial.add((subject, seed))
        found.append((subject, None if one is None else files * one))
    return found


def _weight(
    study: plan.Study, history: estimates.History, run: str
) -> tuple[tuple[str, str], float | None]:
    """Returns data set and model, and the bytes of one file of its weights."""
    factors = study.runs[run]
    definition = study.datasets[factors["dataset"]]
    return estimates.subject(factors), history.weight_bytes(factors, definition)


def _other_versions(made: Iterable[MeasureJob]) -> dict[Path, tuple[str, str]]:
    """Returns the records that another version than today's made -> step and version.

    One that holds no version, as those of measures once did not, counts as current.
    """
    found = {}
    for job in made:
        version = disk.read_json(job.path).get("version")
        if isinstance(version, str) and version != VERSIONS[job.measure]:
            found[job.path] = (job.measure, version)
    return found


def _measured_again(
    every: Iterable[MeasureJob],
    runs: set[str],
    old: dict[Path, tuple[str, str]],
    present: dict[Path, bool],
) -> list[MeasureJob]:
    """Returns the measures that are there and made again: by version, or with their run."""

    def follows(job: MeasureJob) -> bool:  # the time of an epoch reads no run
        return job.measure not in TIMINGS and not runs.isdisjoint(job.runs)

    return [job for job in every if present[job.path] and (job.path in old or follows(job))]


def _experiment(
    name: str,
    runs: Iterable[str],
    statuses: dict[str, str],
    files: dict[Path, MeasureJob],
    present: dict[Path, bool],
) -> ExperimentStatus:
    counts = Counter(statuses[run] for run in runs)
    missing = dict.fromkeys((job.measure for job in files.values()), 0)
    for path, job in files.items():
        missing[job.measure] += not present[path]
    return ExperimentStatus(
        name, counts.total(), {word: counts[word] for word in _STATUSES}, missing
    )


def describe(study: plan.Study, found: Overview, config_path: str, cores: int) -> str:
    """Returns an overview as text."""
    total = found.total
    count = len(found.experiments)
    planned = f"{wording.count(total.runs, 'run')} in {wording.count(count, 'experiment')}"
    made = [
        f"{each.name}: {wording.count(each.own.trainings, 'training')} made elsewhere, in "
        f"{wording.count(each.own.rows, 'row')} of {each.own.path}."
        for each in study.experiments.values()
        if each.own.path
    ]
    lines = [
        f"Study {study.folder_name} ({config_path}): "
        f"{planned if count else 'nothing to train or to time'}.",
        "",
        *([*_table([*found.experiments, *([total] if count > 1 else [])]), ""] if count else []),
        *([*made, ""] if made else []),
    ]
    if found.complete:
        all_of_it = "All that can be made here exists"
        what = all_of_it if found.absent else "Data, runs and measures all exist"
        lines.append(f"{f'{what}: only' if count else 'Only'} tables, figures and report may run.")
    else:
        if found.missing_data:
            lines.append(f"Data to prepare: {', '.join(found.missing_data)}.")
        if found.to_epoch:
            times = wording.count(found.to_epoch, "time")
            lines.append(
                f"Finished runs lack weights after an epoch that is measured now: trained {times} "
                "again, to that epoch."
            )
        lines += [_time_line(found, cores), _disk_line(found), *_outdated_lines(found)]
    lines += absence_lines(found.absent)
    warnings = (*study.warnings, *found.data_warnings)
    return "\n".join([*lines, *(f"Warning: {warning}" for warning in warnings)])


def _table(rows: list[ExperimentStatus]) -> list[str]:
    shown = [
        word
        for word in _STATUSES
        if word not in absence.WORDS or any(row.statuses[word] for row in rows)
    ]
    head = ["experiment", "runs", *(word.replace("_", " ") for word in shown)]
    cells = [[*head, "measures missing"]]
    for row in rows:
        gaps = [f"{name} {count}" for name, count in row.missing_measures.items() if count]
        counts = [str(row.statuses[word]) for word in shown]
        cells.append([row.name, str(row.runs), *counts, ", ".join(gaps) or "none"])
    widths = [max(len(line[column]) for line in cells) for column in range(len(head))]
    lines = []
    for name, *counts, gaps in cells:
        aligned = (cell.rjust(width) for cell, width in zip(counts, widths[1:], strict=True))
        lines.append("  ".join([name.ljust(widths[0]), *aligned, gaps]))
    return lines


def _time_line(found: Overview, cores: int) -> str:
    timed = found.trainings - found.untimed_runs
    parts = []
    if timed:
        parts.append(
            f"about {wording.duration(found.train_seconds)} of training for "
            f"{wording.count(timed, 'run')}"
        )
    if found.measure_seconds:
        parts.append(f"about {wording.duration(found.measure_seconds)} of measures")
    if found.timing_seconds:
        parts.append(
            f"about {wording.duration(found.timing_seconds)} of timings, alone on the machine"
        )
    if found.untimed_runs:
        parts.append(
            f"unknown for {wording.count(found.untimed_runs, 'run')} (no run of that model on that "
            "data set has finished)"
        )
    if found.untimed_jobs:
        parts.append(f"unknown for {waiting(found.untimed_jobs)} (none of that kind has finished)")
    parts.append(f"about {wording.duration(found.start_seconds)} to start jobs")
    shared = found.train_seconds + found.measure_seconds + found.start_seconds
    wall = wording.duration(shared / cores + found.timing_seconds)
    unknown = found.untimed_runs or found.untimed_jobs
    left = "" if unknown else f"; together {wall} on {wording.count(cores, 'core')}"
    return f"Time left: {', '.join(parts)}{left}."


def _outdated_lines(found: Overview) -> list[str]:
    """Returns a line for each step whose version was raised, and what comes of it."""
    lines = []
    for (step, version), count in found.outdated.items():
        of = "" if step == "train" else f" of {step}"
        noun = "record" if of else "run"
        what = wording.count(count, f"{noun}{of} was", f"{noun}s{of} were")
        lines.append(f"{what} made by another version ({version}; now {VERSIONS[step]}).")
    if lines:
        lines.append(
            "Snakemake makes these again, with what is measured of such runs, where it made them "
            "here; what was copied here stays."
        )
    return lines


def _disk_line(found: Overview) -> str:
    unknown = f", and what is not known yet: {', '.join(found.unsized)}" if found.unsized else ""
    return f"Disk needed: about {wording.size(found.disk_bytes, 2)}{unknown}."


def absence_lines(absent: dict[Absence, list[MeasureJob]]) -> list[str]:
    """Returns a line for each thing that is not here: what waits for it, and what mends it."""
    return [
        f"{what.title}, for which {waiting(jobs)} {'waits' if len(jobs) == 1 else 'wait'}; "
        f"{what.mend}."
        for what, jobs in absent.items()
    ]


def waiting(jobs: Sequence[MeasureJob]) -> str:
    """Returns `12 trainings and 1 timing`."""
    counts = Counter(job.noun for job in jobs)
    nouns = ("training", "timing", "measure")
    return wording.listed(wording.count(counts[noun], noun) for noun in nouns if counts[noun])


def main(config_path: str, scale: str, results: Path | str) -> str:
    """Returns what would run of a configuration file, as text.

    Raises:
        UserError: If the configuration has a problem, another file names the study too, or a record
            is damaged.
    """
    # YAML and the schema, which a library caller need not have.
    from batchscope.store import owners
    from batchscope.study import config

    recorded = functools.partial(records.training_images, results)
    study = config.study(config_path, scale, recorded)
    owners.check(Path(results) / "studies" / study.folder_name, study.name, config_path)
    return describe(study, overview(study, results), config_path, absence.cores())
