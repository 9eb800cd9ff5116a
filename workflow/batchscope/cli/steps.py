"""The steps that the workflow's rules call: one job each; hidden from the help."""

from __future__ import annotations

import os
import sys
from argparse import ArgumentParser, Namespace
from collections.abc import Callable
from typing import Any

from batchscope.catalogue import framework_names, run_names, sweep_names
from batchscope.catalogue.measures import MEASURES
from batchscope.catalogue.timings import TIMINGS
from batchscope.cli import options
from batchscope.errors import UserError
from batchscope.host import absence, framework_environments


def add(commands: Any) -> None:
    """Adds the steps to a parser's commands; without a `help`, its help does not list them."""

    def added(name: str, call: Callable[[Namespace], None], text: str = "") -> ArgumentParser:
        parser = commands.add_parser(name, description=text or call.__doc__)
        parser.set_defaults(call=call)
        return parser

    study = ("--results", "--scale", "--config")
    for call, names in {
        prepare_data: ("--results", "--dataset", "--definition"),
        check_models: study,
        install_framework: ("--framework", "--output"),
        train: ("--results", "--run", "--model-file", "--checkpoint-seconds", "--killed-at-mb")
        + ("--chunk-seconds", "--chunk-steps"),
        snapshot: ("--results", "--run", "--epoch", "--model-file"),
        try_batch: ("--results", "--sweep", "--batch-size", "--memory-mb", "--model-file"),
        tabulate: (*study, "--experiment", "--output"),
        figures: (*study, "--experiment", "--output", "--tables", "--processes"),
        claims: (*study, "--output"),
        report: (*study, "--output", "--partial"),
    }.items():
        options.add(added(call.__name__, call), *names)
    for name, entry in run_names.ENTRIES.items():
        parser = added(name, timing if name in TIMINGS else measure, entry.doc)
        if name in TIMINGS:
            options.add(parser, "--machine", "--timing" if entry.trains else "--sweep")
        else:
            options.add(parser, "--run", *(["--other"] if entry.pairs else []))
        options.add_settings(parser, name)
        options.add(parser, "--results", "--output", "--model-file")


def prepare_data(arguments: Namespace) -> None:
    """Prepare a data set."""
    from batchscope import datasets

    made = datasets.prepare(arguments.dataset, arguments.definition, arguments.results)
    for warning in made:
        print(f"Warning: {warning}")


def check_models(arguments: Namespace) -> None:
    """Build a study's own models, before their data."""
    from batchscope.cli import model_check

    model_check.check(options.study(arguments), arguments.results)


def install_framework(arguments: Namespace) -> None:
    """Install a framework beside TensorFlow."""
    from batchscope.host import framework_install

    record = framework_environments.record(arguments.framework)
    if arguments.output.resolve() != record.resolve():
        raise UserError(
            f"--output: received {arguments.output}; {record} is expected, as "
            f"{framework_environments.VARIABLE} has it."
        )
    framework_install.install(arguments.framework)


def train(arguments: Namespace) -> None:
    """Train one run."""
    start(run_names.parse_run(arguments.run))
    from batchscope.store import memory_kills
    from batchscope.training import runs, trainer

    run = runs.Run(arguments.results, arguments.run, arguments.model_file)
    killed = memory_kills.record_or_retry(run.folder, arguments.killed_at_mb)
    if killed:
        status = trainer.record_kill(run, killed)
        print(f"{run.name}: {status}. {killed}")
        return
    chunk = (arguments.chunk_seconds, arguments.chunk_steps)
    status = trainer.train(run, trainer.Limits(*chunk, arguments.checkpoint_seconds))
    print(f"{run.name}: {status}")


def snapshot(arguments: Namespace) -> None:
    """Make one run's weights after an epoch before its last."""
    from batchscope.training import runs, snapshots

    run = runs.Run(arguments.results, arguments.run, arguments.model_file)
    snapshots.write(run, arguments.epoch)


def measure(arguments: Namespace) -> None:
    """Make one measure of a run, or of two."""
    from batchscope.host import tensorflow_start

    entry = MEASURES[arguments.step]
    # One thread: a sum's order, and so its last bits, must not depend on the machine.
    if entry.data:
        start({"threads": 1, "device": run_names.parse_run(arguments.run)["device"]})
    else:
        tensorflow_start.limit()
    from batchscope import measures

    names = (arguments.run, arguments.other) if entry.pairs else (arguments.run,)
    runs = [measures.FinishedRun(arguments.results, name, arguments.model_file) for name in names]
    measures.write(arguments.step, runs, arguments.settings, arguments.output)


def timing(arguments: Namespace) -> None:
    """Time a sweep, or a training's configuration."""
    entry = TIMINGS[arguments.step]
    if entry.trains:
        subject: Any = run_names.configuration(arguments.timing)
    else:
        subject = sweep_names.parse(arguments.sweep)
    factors = subject.factors
    absence.check_threads(factors["threads"])
    if factors.get("framework", framework_names.OWN) != framework_names.OWN:
        _hand_over(factors["framework"])
    elif entry.batch_sizes != "searched":  # the tries of a search start TensorFlow themselves
        start(factors)
    from batchscope import timing as timings

    timed = timings.TimingJob(arguments.results, subject, arguments.model_file, arguments.output)
    timings.write(arguments.step, timed, arguments.machine, arguments.settings)


def try_batch(arguments: Namespace) -> None:
    """Try whether one batch fits into memory."""
    from batchscope.timing import TimingJob
    from batchscope.timing.largest import attempt_child

    sweep = sweep_names.parse(arguments.sweep)
    tried = TimingJob(arguments.results, sweep, arguments.model_file)
    attempt_child.run(tried, arguments.batch_size, arguments.memory_mb)


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

    drawn = figures.drawn(options.study(arguments).experiments[arguments.experiment])
    figures.write(arguments.tables, drawn, arguments.output, arguments.processes)


def claims(arguments: Namespace) -> None:
    """Test what the documents of a study state, by its tables."""
    from batchscope.tables import experiment_tables

    study = options.study(arguments)
    experiment_tables.write_claims(study, arguments.output.parent, arguments.output)


def report(arguments: Namespace) -> None:
    """Build the report of a study."""
    from batchscope import report

    given = (arguments.results, arguments.config, arguments.output, arguments.partial)
    report.write(options.study(arguments), *given)


def start(factors: dict[str, Any]) -> None:
    """Starts TensorFlow for a run or a timing, unless it has more threads than there are cores."""
    from batchscope.host import tensorflow_start

    absence.check_threads(factors["threads"])
    tensorflow_start.start(factors["threads"], factors["device"], factors.get("replicas", 1))


def _hand_over(framework: str) -> None:
    """Goes on with this command in a framework's own environment, unless it runs there."""
    python = framework_environments.python(framework)
    if os.path.realpath(sys.prefix) == os.path.realpath(python.parents[1]):
        return
    if not framework_environments.installed(framework):
        raise UserError(
            f"framework: received {framework!r}, which is not installed; "
            f"{framework_environments.command(framework)} is expected to be run first."
        )
    sys.stdout.flush()
    os.execv(python, [str(python), *sys.argv])
