"""What of a study exists, what is missing, and roughly what the rest takes in time and disk."""

from __future__ import annotations

import functools
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from batchscope import wording
from batchscope.catalogue.measures import MEASURES
from batchscope.catalogue.run_names import VERSIONS
from batchscope.catalogue.timings import TIMINGS
from batchscope.host import absence
from batchscope.host.absence import Absence
from batchscope.store import data_warnings, estimates, job_files, records, states
from batchscope.store.job_files import Job
from batchscope.study import advice_needs, plan

# Seconds of a core until a job that needs TensorFlow computes: of a sweep, which has a process of
# its own, interpreter, imports and compilation; of any other, which is forked from a process with
# the imports behind it (see batchscope.host.warm_process), most of the 0.9 s of a small `evaluate`.
START_SECONDS, FORK_SECONDS = 4.0, 0.9
_STARTS = {
    "train": FORK_SECONDS,
    **{name: FORK_SECONDS if entry.data else 0.0 for name, entry in MEASURES.items()},
    **{name: FORK_SECONDS if entry.forked else START_SECONDS for name, entry in TIMINGS.items()},
}

TRAINING = "training"  # `noun` of a job
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
    """Where a study stands; a run that two experiments share counts once here."""

    experiments: tuple[ExperimentStatus, ...]  # in the order of the file
    total: ExperimentStatus
    missing_data: tuple[str, ...]  # tokens of data sets that are not prepared
    # What is yet to be made, trainings first, and its seconds, or None: of one core, or for
    # timings of the whole machine.
    jobs: list[tuple[Job, float | None]]
    to_epoch: int  # how many of these train finished runs to an epoch whose weights are read
    # Missing data sets, and models on data sets of missing runs, and their bytes, or None.
    sizes: list[tuple[str, float | None]]
    absent: dict[Absence, list[Job]]  # and what waits for it
    # Step and version that made records -> how many, where it is not today's.
    outdated: Counter[tuple[str, str]]
    data_warnings: list[str]  # sentences

    def seconds(self, noun: str) -> float:
        """Returns the seconds of all trainings, measures or timings, as far as they are known."""
        return sum(seconds or 0 for job, seconds in self.jobs if job.noun == noun)

    def untimed(self, *nouns: str) -> list[Job]:
        """Returns the trainings, measures or timings of which they are not known."""
        return [job for job, seconds in self.jobs if job.noun in nouns and seconds is None]

    @property
    def start_seconds(self) -> float:
        """Seconds until the jobs compute, where that is not in the other times."""
        trainings = sum(job.noun == TRAINING for job, _ in self.jobs)
        others = (_STARTS[job.measure] for job in self.untimed("measure", "timing"))
        return sum(others, trainings * _STARTS["train"])

    @property
    def disk_bytes(self) -> float:
        """What missing data and runs take, as far as it is known."""
        return sum(size or 0 for _, size in self.sizes)

    @property
    def unsized(self) -> list[str]:
        """Missing data sets, and models on data sets, of unknown size."""
        return list(dict.fromkeys(what for what, size in self.sizes if size is None))

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
    results, table = Path(results), states.Table(study, results)
    statuses = states.statuses(table)
    others = [state for state in table.every.values() if state.job.measure != "train"]
    missing = [run for run, status in statuses.items() if status == records.MISSING]
    old = {
        path: made for path, made in table.other_versions().items() if not table.every[path].lacking
    }
    again = [job.runs[0] for job in (table.every[path].job for path in old) if job.noun == TRAINING]
    unmade = [state.job for state in others if state.missing]
    repeated = [
        state.job
        for state in others
        if state.made and not state.lacking and _made_again(state.job, old, {*again})
    ]
    to_epoch = job_files.trained_again(study, unmade, results)
    trainings = [(run, study.runs[run]) for run in (*missing, *again)]
    trainings += [(run, {**study.runs[run], "epochs": epoch}) for run, epoch in to_epoch]
    history = estimates.History(results, {estimates.subject(factors) for _, factors in trainings})
    took = estimates.MeasureHistory(results)
    jobs: list[tuple[Job, float | None]] = [
        (job_files.training_job(results, run), history.seconds(factors))
        for run, factors in trainings
    ]
    jobs += [(job, took.seconds(job.kind)) for job in [*unmade, *repeated]]
    data = tuple(token for token, whole in table.data().items() if not whole)
    return Overview(
        experiments=tuple(
            _experiment(name, experiment.trainings.runs, statuses, table.experiments[name])
            for name, experiment in study.experiments.items()
            if not experiment.own.path
        ),
        total=_experiment("all", study.runs, statuses, table.every.values()),
        missing_data=data,
        jobs=jobs,
        to_epoch=len(to_epoch),
        sizes=[
            *((token, estimates.data_bytes(study.datasets[token])) for token in data),
            *_weights(study, missing, table.here(), history),
            *(_weight(study, history, run, files=1) for run, _ in to_epoch),
        ],
        absent=table.absent(),
        outdated=Counter(old.values()),
        data_warnings=[
            warning for token in study.datasets for warning in data_warnings.read(results, token)
        ],
    )


def _made_again(job: Job, old: Collection[Path], runs: set[str]) -> bool:
    """Whether a measure is made again, by its version or with its run; a time reads no run."""
    return job.path in old or (job.measure not in TIMINGS and not runs.isdisjoint(job.runs))


def _weights(
    study: plan.Study, missing: Iterable[str], jobs: Iterable[Job], history: estimates.History
) -> Iterator[tuple[str, float | None]]:
    """Yields model and data set, and the bytes of its weights, of each missing run.

    Initial weights are stored once for all runs of a model and a seed.
    """
    read, initial = job_files.epochs_read(study, jobs), set()
    for run in missing:
        factors = study.runs[run]
        shared = (*estimates.subject(factors), factors["seed"])
        files = estimates.WEIGHT_FILES + len(read.get(run, ())) + (shared not in initial)
        initial.add(shared)
        yield _weight(study, history, run, files)


def _weight(
    study: plan.Study, history: estimates.History, run: str, files: int
) -> tuple[str, float | None]:
    """Returns model and data set, and the bytes of so many files of its weights."""
    dataset, model = estimates.subject(study.runs[run])
    one = history.weight_bytes(study.runs[run])
    return f"{model} on {dataset}", None if one is None else files * one


def _experiment(
    name: str, runs: Iterable[str], statuses: dict[str, str], found: Iterable[states.State]
) -> ExperimentStatus:
    counts = Counter(statuses[run] for run in runs)
    missing: dict[str, int] = {}
    for state in found:
        if state.job.measure != "train" and not state.lacking:
            missing[state.job.measure] = missing.get(state.job.measure, 0) + state.missing
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
        all_of_it = "Data, runs and measures all exist"
        left_out = sum(total.statuses.get(word, 0) for word in absence.WORDS)
        if found.absent:
            all_of_it = "All that can be made here exists"
        if found.absent and left_out == total.runs and not total.missing_measures:
            all_of_it = "Nothing can be made here"
        lines.append(
            f"{f'{all_of_it}: only' if count else 'Only'} tables, figures and report may run."
        )
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
    lines += [*absence_lines(found.absent), *_advice_lines(study)]
    warnings = (*study.warnings, *found.data_warnings)
    return "\n".join([*lines, *(f"Warning: {warning}" for warning in warnings)])


def _advice_lines(study: plan.Study) -> list[str]:
    """Returns what the advice of each experiment will lack, as lines to add to the study."""
    needs = {name: advice_needs.planned(each) for name, each in study.experiments.items()}
    lines = [
        f"  {name}: {'; '.join(advice_needs.line(need.key, need.value) for need in found)}"
        for name, found in needs.items()
        if found
    ]
    return ["For solid advice on batch sizes, add:", *lines] if lines else []


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
    training, measures, timings = map(found.seconds, (TRAINING, "measure", "timing"))
    timed = sum(job.noun == TRAINING and seconds is not None for job, seconds in found.jobs)
    untimed_runs, untimed_jobs = found.untimed(TRAINING), found.untimed("measure", "timing")
    parts = []
    if timed:
        runs = wording.count(timed, "run")
        parts.append(f"about {wording.duration(training)} of training for {runs}")
    if measures:
        parts.append(f"about {wording.duration(measures)} of measures")
    if timings:
        parts.append(f"about {wording.duration(timings)} of timings, alone on the machine")
    if untimed_runs:
        parts.append(
            f"unknown for {wording.count(len(untimed_runs), 'run')} (no run of that model on that "
            "data set has finished)"
        )
    if untimed_jobs:
        parts.append(f"unknown for {waiting(untimed_jobs)} (none of that kind has finished)")
    parts.append(f"about {wording.duration(found.start_seconds)} to start jobs")
    wall = wording.duration((training + measures + found.start_seconds) / cores + timings)
    together = f"; together {wall} on {wording.count(cores, 'core')}"
    return f"Time left: {', '.join(parts)}{'' if untimed_runs or untimed_jobs else together}."


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


def absence_lines(absent: dict[Absence, list[Job]]) -> list[str]:
    """Returns a line for each thing that is not here: what waits for it, and what mends it."""
    return [
        f"{what.title}, for which {waiting(jobs)} {'waits' if len(jobs) == 1 else 'wait'}; "
        f"{what.mend}."
        for what, jobs in absent.items()
    ]


def waiting(jobs: Sequence[Job]) -> str:
    """Returns `12 trainings and 1 timing`."""
    counts = Counter(job.noun for job in jobs)
    nouns = (TRAINING, "timing", "measure")
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
