"""The steps that the workflow's rules call: one job each; hidden from the help."""

from __future__ import annotations

from argparse import Namespace
from typing import Any

from batchscope.cli import options
from batchscope.host import absence
from batchscope.study.names import configuration, parse_run, parse_sweep
from batchscope.study.registry import MEASURES, TIMINGS


def prepare_data(arguments: Namespace) -> None:
    """Prepare a data set."""
    from batchscope import datasets

    for warning in datasets.prepare(arguments.dataset, arguments.definition, arguments.results):
        print(f"Warning: {warning}")


def check(arguments: Namespace) -> None:
    """Read a study's own data and build its own models, before any job."""
    from batchscope.cli import study_check

    study_check.check(options.study(arguments), arguments.results)


def train(arguments: Namespace) -> None:
    """Train one run."""
    start(parse_run(arguments.run))
    from batchscope.store import memory_kills
    from batchscope.training import runs, trainer

    run = runs.TrainingRun(arguments.results, arguments.run, arguments.model_file)
    if killed := memory_kills.record_or_retry(run.folder, arguments.killed_at_mb):
        print(f"{run.name}: {trainer.record_kill(run, killed)}. {killed}")
        return
    chunk = (arguments.chunk_seconds, arguments.chunk_steps)
    status = trainer.train(run, trainer.FitLimits(*chunk, arguments.checkpoint_seconds))
    print(f"{run.name}: {status}")


def run_command(arguments: Namespace) -> None:
    """Make one run by the user's own command."""
    from batchscope.external import command_runner

    print(f"{arguments.command}: {command_runner.make(arguments.results, arguments.command)}")


def snapshot(arguments: Namespace) -> None:
    """Make one run's weights after an epoch before its last."""
    from batchscope.training import runs, snapshots

    run = runs.TrainingRun(arguments.results, arguments.run, arguments.model_file)
    snapshots.write(run, arguments.epoch)


def measure(arguments: Namespace) -> None:
    """Make one measure of a run, or of two."""
    from batchscope.host import tensorflow_start

    entry = MEASURES[arguments.step]
    # One thread: a sum's order, and so its last bits, must not depend on the machine.
    if entry.data:
        start({"threads": 1, "device": parse_run(arguments.run)["device"]})
    else:
        tensorflow_start.limit()
    from batchscope.measures import finished_run, measure_job

    names = (arguments.run, arguments.other) if entry.pairs else (arguments.run,)
    given = [(arguments.results, name, arguments.model_file) for name in names]
    runs = [finished_run.FinishedRun(*each) for each in given]
    measure_job.write(arguments.step, runs, arguments.settings, arguments.output)


def timing(arguments: Namespace) -> None:
    """Time a sweep, or a training's configuration."""
    entry = TIMINGS[arguments.step]
    parse = configuration if entry.trains else parse_sweep
    subject = parse(arguments.timing if entry.trains else arguments.sweep)
    factors = subject.factors
    absence.check_threads(factors["threads"])
    if entry.batch_sizes != "searched":  # the tries of a search start TensorFlow themselves
        start(factors)
    from batchscope.timing import timing_job

    timed = timing_job.TimingJob(arguments.results, subject, arguments.model_file, arguments.output)
    timing_job.write(arguments.step, timed, arguments.machine, arguments.settings)


def try_batch(arguments: Namespace) -> None:
    """Try whether one batch fits into memory."""
    from batchscope.timing import attempts
    from batchscope.timing.timing_job import TimingJob

    sweep = parse_sweep(arguments.sweep)
    tried = TimingJob(arguments.results, sweep, arguments.model_file)
    attempts.run(tried, arguments.batch_size, arguments.memory_mb)


def tabulate(arguments: Namespace) -> None:
    """Write the tables of one experiment."""
    from batchscope.store import owners
    from batchscope.tables import experiment_tables

    study = options.study(arguments)
    owners.claim(arguments.output.parent, study.name, arguments.config)
    experiment_tables.write(arguments.results, study, arguments.experiment, arguments.output)


def figures(arguments: Namespace) -> None:
    """Draw the figures of one experiment."""
    from batchscope import figures

    study = options.study(arguments)
    experiment = study.experiments[arguments.experiment]
    given = (figures.drawn(experiment), arguments.output, arguments.processes)
    figures.write(arguments.tables, *given, experiment.keys.published, study.figure_format)


def claims(arguments: Namespace) -> None:
    """Test what the documents of a study state, by its tables."""
    from batchscope.tables import experiment_tables

    study = options.study(arguments)
    experiment_tables.write_claims(study, arguments.output.parent, arguments.output)


def interim(arguments: Namespace) -> None:
    """Analyse a study whose seeds come in stages: which runs get more."""
    from batchscope.tables import experiment_tables

    experiment_tables.write_interim(arguments.results, options.study(arguments), arguments.output)


def report(arguments: Namespace) -> None:
    """Build the report of a study."""
    from batchscope import report

    given = (arguments.results, arguments.config, arguments.output, arguments.partial)
    report.write(options.study(arguments), *given)


_STUDY = ("--results", "--scale", "--config")
# Step -> its options; measures and timings have those of their settings besides.
OPTIONS = {
    prepare_data: ("--results", "--dataset", "--definition"),
    check: _STUDY,
    train: ("--results", "--run", "--model-file", "--checkpoint-seconds", "--killed-at-mb")
    + ("--chunk-seconds", "--chunk-steps"),
    run_command: ("--results", "--command"),
    snapshot: ("--results", "--run", "--epoch", "--model-file"),
    try_batch: ("--results", "--sweep", "--batch-size", "--memory-mb", "--model-file"),
    tabulate: (*_STUDY, "--experiment", "--output"),
    figures: (*_STUDY, "--experiment", "--output", "--tables", "--processes"),
    claims: (*_STUDY, "--output"),
    interim: (*_STUDY, "--output"),
    report: (*_STUDY, "--output", "--partial"),
}


def start(factors: dict[str, Any]) -> None:
    """Starts TensorFlow for a run or a timing, unless it has more threads than there are cores."""
    from batchscope.host import tensorflow_start

    absence.check_threads(factors["threads"])
    tensorflow_start.start(factors["threads"], factors["device"], factors.get("replicas", 1))
