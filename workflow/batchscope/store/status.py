"""List a study's jobs with status and estimated seconds, and describe the remaining work."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from batchscope.core import disk, display
from batchscope.host.requirements import MissingRequirement
from batchscope.store import jobs, paths, records
from batchscope.store.estimates import Estimates
from batchscope.store.jobs import MEASURE, TIMING, TRAINING, Job
from batchscope.study import plan, run_factors

START_SECONDS = 1.0  # seconds of a core before a job computes
SNAPSHOT = "snapshot"  # the step that trains a finished run again up to an epoch


@dataclass
class JobRow:
    """A job of a study. A job that several experiments share has one row."""

    job: Job
    experiments: list[str]
    status: str  # `missing`, status of a missing requirement, or of the record; or `finished`
    version: str | None  # version of the record if it is not the present one
    due: bool  # whether the next command makes the job
    seconds: float | None = None  # estimate for a job that is due; None if unknown


def rows(
    study: plan.Study, results: Path | str, table: jobs.JobTable | None = None
) -> list[JobRow]:
    """Return a row for each job of a study; raise a `UserError` if a record is damaged.

    Args:
        table: States of the jobs; read if left out.
    """
    table = table or jobs.JobTable(study, results)
    experiments: dict[Path, list[str]] = {}
    for name, states in table.experiments.items():
        for state in states:
            experiments.setdefault(state.job.path, []).append(name)
    job_rows = [_row(state, experiments[path]) for path, state in table.by_record.items()]
    # If a run is trained again, its measures are made again.
    outdated = {row.job.subject for row in job_rows if row.job.noun == TRAINING and row.version}
    for row in job_rows:
        if row.job.noun == MEASURE and row.status == records.FINISHED:
            row.due = row.due or not outdated.isdisjoint(row.job.runs)
    missing = [row.job for row in job_rows if row.status == records.MISSING]
    measures = [job for job in missing if job.noun != TRAINING]
    for run, epoch in jobs.runs_to_train_again(study, measures, results):
        job = Job(paths.snapshot_path(results, run, epoch), SNAPSHOT, (run,))
        names = experiments[paths.run_record(paths.run_folder(results, run))]
        job_rows.append(JobRow(job, names, records.MISSING, None, due=True))
    due = [row for row in job_rows if row.due]
    estimates = Estimates(results, study) if due else None
    for row in due:
        row.seconds = _estimated_seconds(study, row.job, estimates)
    return job_rows


def _row(state: jobs.JobState, experiments: list[str]) -> JobRow:
    job, requirement, version = state.job, state.missing_requirement, None
    status = requirement.status if requirement else records.MISSING
    if state.is_complete and job.noun != TRAINING:
        status = records.FINISHED
    if not state.is_missing and job.path.exists():
        record = disk.read_json(job.path, *(["status"] if job.noun == TRAINING else []))
        if job.noun == TRAINING:
            status = record["status"]
        version = None if requirement else records.other_version(job.measure, record)
    return JobRow(job, experiments, status, version, state.is_missing or bool(version))


def _estimated_seconds(study: plan.Study, job: Job, estimates: Estimates) -> float | None:
    if job.measure == "run_command":
        return estimates.command(study.commands[job.subject])
    if job.measure == "train":
        return estimates.training(study.runs[job.subject])
    if job.measure == SNAPSHOT:
        return estimates.training({**study.runs[job.subject], "epochs": int(job.path.stem)})
    return estimates.measure_or_timing(job.measure, job.path.stem, job.subject)


def wall_seconds(study: plan.Study, job_rows: Iterable[JobRow], cores: int) -> float:
    """Return the seconds until the due jobs have ended, from their estimates and their starts.

    Exclusive jobs and jobs on a GPU run one after another. All other jobs share the cores.
    """
    shared = longest = exclusive = 0.0
    for row in filter(lambda row: row.due, job_rows):
        seconds = (row.seconds or 0.0) + START_SECONDS
        command = study.commands.get(row.job.subject)
        factors = command.needs if command else study.runs.get(row.job.subject)
        if row.job.alone or not factors or run_factors.gpu_count(factors):
            exclusive += seconds
        else:
            threads = factors["threads"] if row.job.noun == TRAINING else 1
            shared += seconds * min(threads, cores) / cores
            longest = max(longest, seconds)
    return max(shared, longest) + exclusive


def describe_remaining(study: plan.Study, rows: list[JobRow], cores: int) -> str:
    """Return the due jobs and their time in words: `12 trainings, about 2 min on 4 cores`."""
    due = [row for row in rows if row.due]
    unknown = [row.job for row in due if row.seconds is None]
    text = count_by_noun(row.job for row in due)
    if not due:
        return "no training, measure or timing"
    if len(unknown) == len(due):
        return f"{text}; their time is unknown until one of each kind has finished"
    time = display.duration(wall_seconds(study, due, cores))
    on_cores = f"{time} on {display.count(cores, 'core')}"
    if unknown:
        return f"{text}, at least {on_cores}; unknown for {count_by_noun(unknown)}"
    return f"{text}, about {on_cores}"


def requirement_lines(absent: Mapping[MissingRequirement, Sequence[Job]]) -> list[str]:
    """Return a line for each missing requirement, with the waiting jobs and the fix."""
    lines = []
    for requirement, waiting_jobs in absent.items():
        verb = "waits" if len(waiting_jobs) == 1 else "wait"
        text = f"{requirement.title}, for which {count_by_noun(waiting_jobs)} {verb}"
        lines.append(f"{text}; {requirement.fix}.")
    return lines


def count_by_noun(jobs: Iterable[Job]) -> str:
    counts = Counter(job.noun for job in jobs)
    nouns = [noun for noun in (TRAINING, TIMING, MEASURE) if counts[noun]]
    return display.listed(display.count(counts[noun], noun) for noun in nouns)
