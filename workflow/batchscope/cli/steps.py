"""The steps that the workflow's rules call: one job each.

`entry` derives the options of a step from its signature: `--chunk-seconds` from `chunk_seconds`. An
option with the default None may have no value, such as `--model-file` for a built-in model.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from batchscope.cli import options
from batchscope.host import requirements
from batchscope.study.names import configuration, parse_run, parse_sweep
from batchscope.study.registry import MEASURES, TIMINGS

_RESULTS = Path("results")


def prepare_data(dataset: str, definition: str, results: Path = _RESULTS) -> None:
    """Prepare a data set by its definition, which is JSON."""
    from batchscope import datasets

    for warning in datasets.prepare(dataset, json.loads(definition), results):
        print(f"Warning: {warning}")


def check(config: str, scale: str = "full", results: Path = _RESULTS) -> None:
    """Check the user's data and models of a study, before any job."""
    from batchscope.cli import study_check

    study_check.check(options.study(results, config, scale), results)


def train(
    run: str,
    model_file: str | None = None,
    results: Path = _RESULTS,
    checkpoint_seconds: float = 30.0,
    killed_at_mb: float | None = None,
    chunk_seconds: float = 5.0,
    chunk_steps: int | None = None,
) -> None:
    """Train one run.

    Args:
        checkpoint_seconds: Seconds between two checkpoints.
        killed_at_mb: Memory limit of the attempt that the kernel has just killed.
        chunk_seconds: Longest call of TensorFlow; `chunk_steps` limits its steps.
    """
    start(parse_run(run))
    from batchscope.host import memory_limits
    from batchscope.training import runs, trainer

    training = runs.TrainingRun(results, run, model_file)
    if killed := memory_limits.record_or_retry(training.folder, killed_at_mb):
        print(f"{run}: {trainer.record_kill(training, killed)}. {killed}")
        return
    limits = trainer.FitLimits(chunk_seconds, chunk_steps, checkpoint_seconds)
    print(f"{run}: {trainer.train(training, limits)}")


def run_command(command: str, results: Path = _RESULTS) -> None:
    """Make one run by the user's own command."""
    from batchscope.external import command_runner

    print(f"{command}: {command_runner.make(results, command)}")


def snapshot(run: str, epoch: str, model_file: str | None = None, results: Path = _RESULTS) -> None:
    """Make one run's weights after an epoch before its last."""
    from batchscope.training import runs, snapshots

    training = runs.TrainingRun(results, run, model_file)
    snapshots.write(training, int(epoch) if epoch.isdecimal() else epoch)


def measure(
    step: str,
    run: str,
    output: Path,
    other: str | None = None,
    settings: str = "default",
    model_file: str | None = None,
    results: Path = _RESULTS,
) -> None:
    """Make one measure of a run, or of two."""
    from batchscope.host import tensorflow_start

    # One thread: a sum's order, and so its last bits, must not depend on the machine.
    if MEASURES[step].data:
        start({"threads": 1, "device": parse_run(run)["device"]})
    else:
        tensorflow_start.limit()
    from batchscope.measures import finished_run, measure_job

    names = [run, other] if other else [run]
    runs = [finished_run.FinishedRun(results, name, model_file) for name in names]
    measure_job.write(step, runs, settings, output)


def timing(
    step: str,
    output: Path,
    timing: str | None = None,
    sweep: str | None = None,
    machine: str = "local",
    settings: str = "default",
    model_file: str | None = None,
    results: Path = _RESULTS,
) -> None:
    """Time a sweep, or the configuration of a training."""
    subject = configuration(timing) if timing else parse_sweep(sweep or "")
    requirements.check_threads(subject.factors["threads"])
    if TIMINGS[step].batch_sizes != "searched":  # the tries of a search start TensorFlow themselves
        start(subject.factors)
    from batchscope.timing import timing_job

    job = timing_job.TimingJob(results, subject, model_file, output)
    timing_job.write(step, job, machine, settings)


def try_batch(
    sweep: str,
    batch_size: int,
    memory_mb: float | None = None,
    model_file: str | None = None,
    results: Path = _RESULTS,
) -> None:
    """Try whether one batch fits into memory."""
    from batchscope.timing import attempts
    from batchscope.timing.timing_job import TimingJob

    attempts.run(TimingJob(results, parse_sweep(sweep), model_file), batch_size, memory_mb)


def tabulate(
    config: str, experiment: str, output: Path, scale: str = "full", results: Path = _RESULTS
) -> None:
    """Write the tables of one experiment."""
    from batchscope.store import owners
    from batchscope.tables import experiment_tables

    study = options.study(results, config, scale, experiment)
    owners.claim(output.parent, study.name, config)
    experiment_tables.write(results, study, experiment, output)


def figures(
    config: str,
    experiment: str,
    tables: Path,
    output: Path,
    processes: int = 1,
    scale: str = "full",
    results: Path = _RESULTS,
) -> None:
    """Draw the figures of one experiment."""
    from batchscope import figures

    study = options.study(results, config, scale, experiment)
    planned = study.experiments[experiment]
    names, published = figures.drawn(planned), planned.keys.published
    figures.write(tables, names, output, processes, published, planned.metrics)


def claims(config: str, output: Path, scale: str = "full", results: Path = _RESULTS) -> None:
    """Test the claims of a study by its tables."""
    from batchscope.tables import experiment_tables

    study = options.study(results, config, scale)
    experiment_tables.write_claims(study, output.parent, output)


def interim(config: str, output: Path, scale: str = "full", results: Path = _RESULTS) -> None:
    """Make an interim analysis: give more seeds to the runs of open statements."""
    from batchscope.tables import experiment_tables

    experiment_tables.write_interim(results, options.study(results, config, scale), output)


def report(
    config: str,
    output: Path,
    partial: bool = False,
    scale: str = "full",
    results: Path = _RESULTS,
) -> None:
    """Build the report of a study, if `partial` from the results that exist."""
    from batchscope import report

    study = options.study(results, config, scale)
    report.write(study, results, config, output, partial)


STEPS = (
    *(prepare_data, check, train, run_command, snapshot, try_batch),
    *(tabulate, figures, claims, interim, report),
)


def start(factors: dict[str, Any]) -> None:
    """Start TensorFlow for a run or a timing; refuse more threads than there are cores."""
    from batchscope.host import tensorflow_start

    requirements.check_threads(factors["threads"])
    tensorflow_start.start(factors["threads"], factors["device"], factors.get("replicas", 1))
