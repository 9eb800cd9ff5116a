"""The steps that the workflow's rules call, one job each. A new step is a function in `STEPS`."""

import contextlib
import functools
import itertools
import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from batchscope.host import fork_server, requirements
from batchscope.study.names import configuration, parse_run, parse_sweep
from batchscope.study.registry import MEASURES, TIMINGS

if TYPE_CHECKING:
    from batchscope.study.plan import Study

_RESULTS = Path("results")


def prepare_data(dataset: str, definition: str, results: Path = _RESULTS) -> None:
    """Prepare a data set by its definition, which is JSON."""
    from batchscope import datasets

    for warning in datasets.prepare(dataset, json.loads(definition), results):
        print(f"Warning: {warning}")


def check(config: str, scale: str = "full", results: Path = _RESULTS) -> None:
    from batchscope.cli import study_check

    study_check.check(_study(config, scale, results), results)


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
    from batchscope.external import command_runner

    print(f"{command}: {command_runner.make_run(results, command)}")


def snapshot(run: str, epoch: str, model_file: str | None = None, results: Path = _RESULTS) -> None:
    """Write one run's weights after an epoch before its last."""
    from batchscope.training import runs

    training = runs.TrainingRun(results, run, model_file)
    runs.write_snapshot(training, int(epoch) if epoch.isdecimal() else epoch)


def measure(
    step: str,
    run: str,
    output: Path,
    other: str | None = None,
    settings: str = "default",
    model_file: str | None = None,
    results: Path = _RESULTS,
) -> None:
    from batchscope.host import tensorflow_start

    with _running_job(step, run, output, results):
        # With one thread, the order of a sum, and so its last bits, do not depend on the machine.
        if MEASURES[step].data:
            start_tensorflow({"threads": 1, "device": parse_run(run)["device"]})
        else:
            tensorflow_start.set_threads_and_device()
        from batchscope.measures import measure_job

        names = [run, other] if other else [run]
        runs = [measure_job.FinishedRun(results, name, model_file) for name in names]
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
    with _running_job(step, timing or sweep or "", output, results):
        subject = configuration(timing) if timing else parse_sweep(sweep or "")
        requirements.check_threads(subject.factors["threads"])
        if TIMINGS[step].batch_sizes != "searched":  # Each try of a search starts TensorFlow.
            start_tensorflow(subject.factors)
        from batchscope.timing import timing_job

        job = timing_job.TimingJob(results, subject, model_file, output)
        timing_job.time_and_write(step, job, machine, settings)


@contextlib.contextmanager
def _running_job(step: str, subject: str, output: Path, results: Path) -> Iterator[None]:
    """List a measure or a timing as running inside the block, and note its seconds."""
    from batchscope.store import estimates, progress

    started = time.monotonic()
    with progress.listed_as_running(results, step, subject):
        yield
    estimates.note_job(results, step, subject, output, time.monotonic() - started)


def try_batch(
    sweep: str,
    batch_size: int,
    output: Path,
    gpu_mb: float = 0,
    model_file: str | None = None,
    results: Path = _RESULTS,
) -> None:
    from batchscope.timing import max_batch_size
    from batchscope.timing.timing_job import TimingJob

    job = TimingJob(results, parse_sweep(sweep), model_file, output)
    max_batch_size.try_in_this_process(job, batch_size, gpu_mb)


def tabulate(
    config: str, experiment: str, output: Path, scale: str = "full", results: Path = _RESULTS
) -> None:
    from batchscope.rules.study import note_owner
    from batchscope.tables import study_tables

    study = _study(config, scale, results)
    note_owner(output.parent, study.name, config)
    study_tables.write(results, study, experiment, output)


def figures(
    config: str,
    experiment: str,
    tables: Path,
    output: Path,
    processes: int = 1,
    scale: str = "full",
    results: Path = _RESULTS,
) -> None:
    from batchscope import figures

    study = _study(config, scale, results)
    planned = study.experiments[experiment]
    figures.write(tables, figures.figure_names(planned), output, processes, planned.metrics)


def claims(config: str, output: Path, scale: str = "full", results: Path = _RESULTS) -> None:
    from batchscope.tables import study_tables

    study = _study(config, scale, results)
    study_tables.write_claims(study, output.parent, output)


def interim(config: str, output: Path, scale: str = "full", results: Path = _RESULTS) -> None:
    """Make an interim analysis: give more seeds to the runs of open statements."""
    from batchscope.tables import study_tables

    study_tables.write_interim(results, _study(config, scale, results), output)


def report(
    config: str,
    output: Path,
    partial: bool = False,
    scale: str = "full",
    results: Path = _RESULTS,
) -> None:
    """Build the report of a study. A partial report uses the existing results."""
    from batchscope.report import study_page

    study = _study(config, scale, results)
    study_page.write(study, results, config, output, partial)


_FUNCTIONS = (
    *(prepare_data, check, train, run_command, snapshot, try_batch),
    *(tabulate, figures, claims, interim, report),
)
STEPS = {
    **{function.__name__: function for function in _FUNCTIONS},
    **{name: functools.partial(measure, name) for name in MEASURES},
    **{name: functools.partial(timing, name) for name in TIMINGS},
}


def _study(config: str, scale: str, results: Path) -> "Study":
    # The import takes half a second, and trainings do not need it.
    from batchscope.rules import study

    return study.plan_study(config, scale, results)


def start_tensorflow(factors: dict[str, Any]) -> None:
    """Start TensorFlow for a run or a timing; raise an error for more threads than cores."""
    from batchscope.host import tensorflow_start

    requirements.check_threads(factors["threads"])
    tensorflow_start.start(factors["threads"], factors["device"], factors.get("replicas", 1))


def can_share(arguments: list[str]) -> bool:
    """Return whether a step may run in a fork of the server, which has one thread and no GPU."""
    step, options = arguments[0], dict(itertools.pairwise(arguments))
    if step in fork_server.TABLE_STEPS:
        return True
    if step in TIMINGS and not TIMINGS[step].forked:
        return False
    try:
        if "--timing" in options:  # A timing sets its threads itself.
            return configuration(options["--timing"]).factors["device"] == "cpu"
        factors = parse_run(options.get("--run", ""))
    except ValueError:
        return False
    replicas = 1 if step in MEASURES else factors["replicas"]
    return (factors["threads"], factors["device"], replicas) == (1, "cpu", 1)
