"""The steps that the workflow's rules call, one job each. A new step is a function in `STEPS`.

`entry` derives the options of a step from its signature: `--chunk-seconds` from `chunk_seconds`. An
option with the default None can have no value, such as `--model-file` for a built-in model.
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
    """Check the user's data and models of a study before the first job."""
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
        chunk_seconds: Longest time of a call of TensorFlow. `chunk_steps` limits its steps.
    """
    start_tensorflow(parse_run(run))
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

    print(f"{command}: {command_runner.make_run(results, command)}")


def snapshot(run: str, epoch: str, model_file: str | None = None, results: Path = _RESULTS) -> None:
    """Write one run's weights after an epoch before its last."""
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
    """Compute one measure of a run or of two runs."""
    from batchscope.host import tensorflow_start

    # With one thread, the order of a sum, and so its last bits, do not depend on the machine.
    if MEASURES[step].data:
        start_tensorflow({"threads": 1, "device": parse_run(run)["device"]})
    else:
        tensorflow_start.set_threads_and_device()
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
    if TIMINGS[step].batch_sizes != "searched":  # Each try of a search starts TensorFlow itself.
        start_tensorflow(subject.factors)
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

    attempts.run_try(TimingJob(results, parse_sweep(sweep), model_file), batch_size, memory_mb)


def tabulate(
    config: str, experiment: str, output: Path, scale: str = "full", results: Path = _RESULTS
) -> None:
    """Write the tables of one experiment."""
    from batchscope.store import owners
    from batchscope.tables import experiment_tables

    study = options.study(results, config, scale, experiment)
    owners.note_owner(output.parent, study.name, config)
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
    names, published = figures.figure_names(planned), planned.keys.published
    figures.write(tables, names, output, processes, published, planned.metrics)


def claims(config: str, output: Path, scale: str = "full", results: Path = _RESULTS) -> None:
    """Test the claims of a study with its tables."""
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
    """Build the report of a study. A partial report uses the existing results."""
    from batchscope import report

    study = options.study(results, config, scale)
    report.write(study, results, config, output, partial)


STEPS = (
    *(prepare_data, check, train, run_command, snapshot, try_batch),
    *(tabulate, figures, claims, interim, report),
)


def start_tensorflow(factors: dict[str, Any]) -> None:
    """Start TensorFlow for a run or a timing; raise an error for more threads than cores."""
    from batchscope.host import tensorflow_start

    requirements.check_threads(factors["threads"])
    tensorflow_start.start(factors["threads"], factors["device"], factors.get("replicas", 1))
