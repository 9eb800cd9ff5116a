"""What of a study exists, what is missing, and roughly what the rest takes in time and disk."""

import functools
import os
import shlex
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from batchscope import wording
from batchscope.host import absence
from batchscope.host.absence import Absence
from batchscope.store import estimates, interims, job_table, paths, records
from batchscope.store.job_table import MEASURE, TIMING, TRAINING, Job
from batchscope.study import advice_needs, dataset_definitions, plan, run_factors
from batchscope.study.registry import MEASURES, TIMINGS
from batchscope.study.versions import VERSIONS

# Seconds of a core until a job that needs TensorFlow computes: of a sweep, which has a process of
# its own, interpreter, imports and compilation; of any other, which is forked from a process with
# the imports behind it (see batchscope.host.warm_process), most of the 0.9 s of a small `evaluate`.
START_SECONDS, FORK_SECONDS = 4.0, 0.9
_STARTS = {
    "train": FORK_SECONDS,
    "run_command": FORK_SECONDS,
    **{name: FORK_SECONDS if entry.data else 0.0 for name, entry in MEASURES.items()},
    **{name: FORK_SECONDS if entry.forked else START_SECONDS for name, entry in TIMINGS.items()},
}
_STATUSES = (
    *(records.FINISHED, records.DIVERGED, records.OUT_OF_MEMORY, records.MISSING),
    *(absence.NO_GPU, absence.NO_CORES),
)


@dataclass(frozen=True)
class Standing:
    """Where one experiment stands, or all of them."""

    name: str
    statuses: Counter[str]  # of its runs
    unmade: Counter[str]  # measure that can be made here -> files that are to be made


@dataclass(frozen=True)
class Overview:
    """Where a study stands; a run that two experiments share counts once here."""

    experiments: tuple[Standing, ...]  # in the order of the file
    total: Standing
    missing_data: tuple[str, ...]  # ids of data sets that are not prepared
    # What is yet to be made, trainings first, and its seconds, or None: of one core, or for
    # timings of the whole machine.
    jobs: list[tuple[Job, float | None]]
    takes: Mapping[str, tuple[int, int]]  # threads, 0 for all, and GPUs of a run's jobs
    to_epoch: int  # how many of these train finished runs to an epoch whose weights are read
    # Missing data sets, and models on data sets of missing runs, and their bytes, or None.
    sizes: list[tuple[str, float | None]]
    absent: dict[Absence, list[Job]]  # and what waits for it
    # Step and version that made records -> how many, where it is not today's.
    outdated: Counter[tuple[str, str]]
    commands: dict[str, Job]  # experiment whose runs a command makes -> the job of one of them

    def seconds(self, noun: str) -> float:
        return sum(seconds or 0 for job, seconds in self.jobs if job.noun == noun)

    def untimed(self, *nouns: str) -> list[Job]:
        return [job for job, seconds in self.jobs if job.noun in nouns and seconds is None]

    @property
    def start_seconds(self) -> float:
        """Seconds until the jobs compute, where that is not in the other times."""
        trainings = [job for job, _ in self.jobs if job.noun == TRAINING]
        return sum(_STARTS[job.measure] for job in [*trainings, *self.untimed(MEASURE, TIMING)])

    def wall_seconds(self, cores: int) -> float:
        """Returns what is known to be left: what runs alone in turns, all else side by side.

        One job runs on a GPU at a time, and none is shorter than the longest.
        """
        alone = busy = on_gpus = longest = 0.0
        for job, seconds in self.jobs:
            if job.alone:
                alone += seconds or 0
                continue
            threads, gpus = self.takes[job.subject]
            threads, lasts = min(threads or cores, cores), seconds or 0
            if job.measure == "run_command":  # seconds of one core
                lasts /= threads
            busy += lasts * threads
            on_gpus += lasts if gpus else 0
            longest = max(longest, lasts)
        return max((busy + self.start_seconds) / cores, on_gpus, longest) + alone

    @property
    def disk_bytes(self) -> float:
        return sum(size or 0 for _, size in self.sizes)

    @property
    def complete(self) -> bool:
        missing = self.total.statuses[records.MISSING] or self.total.unmade.total()
        return not (self.missing_data or self.outdated or missing)


def overview(
    study: plan.Study, results: Path | str, table: job_table.JobTable | None = None
) -> Overview:
    """Returns where a study stands; raises `UserError` if a record is damaged.

    Args:
        table: How its jobs stand, where that is known.
    """
    results, table = Path(results), table or job_table.JobTable(study, results)
    statuses = job_table.statuses(table)
    missing = [run for run in study.runs if statuses[run] == records.MISSING]
    every = [state for state in table.every.values() if not state.lacking]
    others = [state for state in every if state.job.noun != TRAINING]
    versions = table.other_versions()
    old = {state.job.path: state.job for state in every if state.job.path in versions}
    made_again = [job.runs[0] for job in old.values() if job.noun == TRAINING]
    again = [run for run in made_again if run in study.runs]
    commanded = {run for run in study.commands if statuses[run] == records.MISSING}
    commanded.update(made_again)
    made_by = {state.job.subject: state.job for state in every if state.job.noun == TRAINING}
    seconds = estimates.of_commands(results, study.commands)
    unmade = [state.job for state in others if state.missing]
    repeated = [*_repeated(others, {*old}, {*again})]
    to_epoch = job_table.trained_again(study, unmade, results)
    trainings = [(run, study.runs[run]) for run in (*missing, *again)]
    trainings += [(run, {**study.runs[run], "epochs": epoch}) for run, epoch in to_epoch]
    history = estimates.History(results, {estimates.subject(factors) for _, factors in trainings})
    noted = estimates.noted(results)
    data = tuple(dataset for dataset, whole in table.data().items() if not whole)
    files = [*_weight_files(study, missing, table), *((run, 1) for run, _ in to_epoch)]
    sources = {dataset: dataset_definitions.read(study.datasets[dataset]) for dataset in data}
    sizes = [(dataset, source.prepared_bytes()) for dataset, source in sources.items()]
    for run, count in files:
        dataset, model = estimates.subject(study.runs[run])
        sizes.append((f"{model} on {dataset}", history.weight_bytes(study.runs[run], count)))
    return Overview(
        experiments=tuple(
            _standing(name, statuses, table.experiments[name])
            for name, experiment in study.experiments.items()
            if not experiment.own.path
        ),
        total=_standing("all", statuses, table.every.values()),
        missing_data=data,
        jobs=[
            *(
                (job_table.training_job(results, run), history.seconds(own))
                for run, own in trainings
            ),
            *((made_by[run], seconds[run]) for run in study.commands if run in commanded),
            *((job, noted.get(job.kind)) for job in (*unmade, *repeated)),
        ],
        takes={
            run: (factors["threads"], run_factors.gpus(factors))
            for run, factors in study.runs.items()
        }
        | {name: (run.command.threads, run.command.gpus) for name, run in study.commands.items()},
        to_epoch=len(to_epoch),
        sizes=sizes,
        absent=table.absent(),
        outdated=Counter(versions[path] for path in old),
        commands={
            name: table.experiments[name][0].job
            for name, experiment in study.experiments.items()
            if experiment.commands
        },
    )


def _repeated(
    others: Iterable[job_table.JobState], old: Collection[Path], again: Collection[str]
) -> Iterator[Job]:
    """Yields what is made again by its version, or with one of its runs: a time reads no run."""
    for state in others:
        follows = state.job.noun == MEASURE and any(run in again for run in state.job.runs)
        if state.made and (follows or state.job.path in old):
            yield state.job


def _weight_files(
    study: plan.Study, missing: Iterable[str], table: job_table.JobTable
) -> Iterator[tuple[str, int]]:
    """Yields how many files of weights each missing run writes.

    Initial weights are stored once for all runs of a model and a seed.
    """
    read, initial = job_table.epochs_read(study, table.here()), set()
    for run in missing:
        shared = (*estimates.subject(study.runs[run]), study.runs[run]["seed"])
        yield run, estimates.WEIGHT_FILES + len(read.get(run, ())) + (shared not in initial)
        initial.add(shared)


def _standing(name: str, statuses: dict[str, str], found: Iterable[job_table.JobState]) -> Standing:
    runs: Counter[str] = Counter()
    unmade: Counter[str] = Counter()
    for state in found:
        if state.job.noun == TRAINING:
            runs[statuses[state.job.subject]] += 1
        elif not state.lacking:
            unmade[state.job.measure] += state.missing
    return Standing(name, runs, unmade)


def describe(study: plan.Study, found: Overview, config_path: str, cores: int) -> str:
    runs, count = found.total.statuses.total(), len(found.experiments)
    planned = f"{wording.count(runs, 'run')} in {wording.count(count, 'experiment')}"
    lines = [
        f"Study {study.folder_name} ({config_path}): "
        f"{planned if count else 'nothing to train or to time'}.",
        "",
    ]
    if count:
        lines += [*_table([*found.experiments, *([found.total] if count > 1 else [])]), ""]
    made = [
        f"{each.name}: {wording.count(each.own.trainings, 'training')} made elsewhere, in "
        f"{wording.count(each.own.rows, 'row')} of {each.own.path} ({each.own.read_as})."
        for each in study.experiments.values()
        if each.own.path
    ]
    made += [_command_line(study, name, job) for name, job in found.commands.items()]
    lines += [*made, ""] if made else []
    lines += [_complete_line(found)] if found.complete else _rest_lines(found, cores)
    lines += [*absence_lines(found.absent), *_advice_lines(study)]
    return "\n".join(lines)


def _command_line(study: plan.Study, experiment: str, job: Job) -> str:
    run = study.commands[job.subject]
    words, _ = run.resolved(os.path.abspath(job.path.parent / paths.COMMAND_FOLDER))
    command = run.command
    gpus = wording.count(command.gpus, "GPU") if command.gpus else "no GPU"
    beside = "beside others, so that its seconds stay unknown (alone: true)"
    return (
        f"{experiment}, the first of its runs: {shlex.join(words)}\n"
        f"  in {command.folder}, with {wording.count(command.threads, 'thread')} and {gpus}, "
        f"{'alone on the machine' if command.alone else beside}."
    )


def _complete_line(found: Overview) -> str:
    exists, statuses = "Data, runs and measures all exist: only", found.total.statuses
    if not found.experiments:
        exists = "Only"
    elif found.absent:
        some = found.total.unmade or any(word not in absence.WORDS for word in statuses)
        exists = (
            f"{'All that can be made here exists' if some else 'Nothing can be made here'}: only"
        )
    return f"{exists} tables, figures and report may run."


def _rest_lines(found: Overview, cores: int) -> list[str]:
    lines = []
    if found.missing_data:
        lines.append(f"Data to prepare: {', '.join(found.missing_data)}.")
    if found.to_epoch:
        lines.append(
            "Finished runs lack weights after an epoch that is measured now: trained "
            f"{wording.count(found.to_epoch, 'time')} again, to that epoch."
        )
    unsized = ", ".join(dict.fromkeys(what for what, size in found.sizes if size is None))
    unknown = f", and what is not known yet: {unsized}" if unsized else ""
    lines.append(_time_line(found, cores))
    lines.append(f"Disk needed: about {wording.size(found.disk_bytes, 2)}{unknown}.")
    for (step, version), count in found.outdated.items():
        of, noun = ("", "run") if step in job_table.MAKES else (f" of {step}", "record")
        what = wording.count(count, f"{noun}{of} was", f"{noun}s{of} were")
        lines.append(f"{what} made by another version ({version}; now {VERSIONS[step]}).")
    if found.outdated:
        lines.append(
            "Snakemake makes these again, with what is measured of such runs, where it made them "
            "here; what was copied here stays."
        )
    return lines


def _table(rows: list[Standing]) -> list[str]:
    shown = [
        word
        for word in _STATUSES
        if word not in absence.WORDS or any(row.statuses[word] for row in rows)
    ]
    words = (word.replace("_", " ") for word in shown)
    cells = [["experiment", "runs", *words, "measures missing"]]
    for row in rows:
        counts = [row.statuses.total(), *(row.statuses[word] for word in shown)]
        gaps = ", ".join(f"{name} {count}" for name, count in row.unmade.items() if count)
        cells.append([row.name, *map(str, counts), gaps or "none"])
    first, *widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    lines = []
    for name, *counts, gaps in cells:
        aligned = (count.rjust(width) for count, width in zip(counts, widths, strict=False))
        lines.append("  ".join([name.ljust(first), *aligned, gaps]))
    return lines


def _time_line(found: Overview, cores: int) -> str:
    training, measures, timings = map(found.seconds, (TRAINING, MEASURE, TIMING))
    untimed_runs, untimed_jobs = found.untimed(TRAINING), found.untimed(MEASURE, TIMING)
    timed = sum(job.noun == TRAINING for job, _ in found.jobs) - len(untimed_runs)
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
            f"unknown for {wording.count(len(untimed_runs), 'run')} (no run of that kind has "
            "finished)"
        )
    if untimed_jobs:
        parts.append(f"unknown for {waiting(untimed_jobs)} (none of that kind has finished)")
    parts.append(f"about {wording.duration(found.start_seconds)} to start jobs")
    wall = wording.duration(found.wall_seconds(cores))
    least = "at least " if untimed_runs or untimed_jobs else ""
    together = f"together {least}{wall} on {wording.count(cores, 'core')}"
    return f"Time left: {', '.join(parts)}; {together}."


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
    nouns = (TRAINING, TIMING, MEASURE)
    return wording.listed(wording.count(counts[noun], noun) for noun in nouns if counts[noun])


def _advice_lines(study: plan.Study) -> list[str]:
    """Returns what the advice of each experiment will lack, as lines to change in the study."""
    from batchscope.study import suggestions

    lines = []
    for name, each in study.experiments.items():
        needs = [(need.key, {None: need.value}) for need in advice_needs.planned(each)]
        changed = suggestions.changes(study, name, needs)
        lines += [f"  {name}: {'; '.join(suggestions.lines(changed))}"] if changed else []
    return ["For solid advice on batch sizes, change:", *lines] if lines else []


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
    looked = functools.partial(interims.stages, results)
    here = os.environ.get(absence.VARIABLE) != "true"
    study = config.study(config_path, scale, recorded, looked, here)
    owners.check(paths.study_folder(results, study.folder_name), study.name, config_path)
    warnings = [*study.warnings]
    for dataset in study.datasets:
        record = records.data_record(results, dataset) or {}
        warnings += records.data_warnings(dataset, record)
    found = overview(study, results)
    lines = [describe(study, found, config_path, absence.cores())]
    return "\n".join([*lines, *(f"Warning: {warning}" for warning in warnings)])
