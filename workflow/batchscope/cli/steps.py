"""The steps that the workflow's rules call: one job each; hidden from the help."""

from __future__ import annotations

import functools
import json
import os
import sys
from argparse import ArgumentParser, Namespace
from collections.abc import Callable
from pathlib import Path
from typing import Any

from batchscope.catalogue import (
    framework_names,
    kept_epochs,
    measure_settings,
    run_names,
    sweep_names,
)
from batchscope.catalogue.entries import Timing
from batchscope.catalogue.measures import MEASURES
from batchscope.catalogue.timings import TIMINGS
from batchscope.cli import options
from batchscope.errors import UserError
from batchscope.host import absence, framework_environments

RUN = (run_names.parse_run, "the name of a run in paths")
SWEEP = (sweep_names.parse, "the name of a sweep in paths")
TIMING = (run_names.configuration, "the name of a timing configuration in paths")
DATASET = (run_names.split_token, "the name of a data set in paths")


def add(commands: Any) -> None:
    """Adds the steps to a parser's commands; without a `help`, its help does not list them."""

    def added(name: str, call: Callable[[Namespace], None], text: str = "") -> ArgumentParser:
        parser = commands.add_parser(name, description=text or call.__doc__)
        parser.set_defaults(call=call)
        return parser

    _add_preparation(added)
    _add_training(added)
    for name, entry in measure_settings.ENTRIES.items():
        timed = isinstance(entry, Timing)
        _add_entry(added(name, timing if timed else measure, entry.doc), name)
    _add_reporting(added)


def _add_preparation(added: Callable[..., ArgumentParser]) -> None:
    parser = added("prepare_data", prepare_data)
    options.add_results(parser)
    options.add_word(parser, "--dataset", *DATASET)
    options.add_word(parser, "--definition", _definition, "its definition as JSON")

    options.add_study(added("check_models", check_models), named=True)

    parser = added("install_framework", install_framework)
    parser.add_argument("--framework", required=True, choices=tuple(framework_names.FRAMEWORKS))
    parser.add_argument("--output", type=Path, required=True, help="its record")


def _add_training(added: Callable[..., ArgumentParser]) -> None:
    parser = added("train", train)
    options.add_word(parser, "--run", *RUN)
    parser.add_argument("--chunk-seconds", type=float, default=5.0, help="most in one call")
    parser.add_argument("--chunk-steps", type=int, help="most steps in one call")
    parser.add_argument("--checkpoint-seconds", type=float, default=30.0, help="between two")
    parser.add_argument("--killed-at-mb", type=float, help="the kernel killed it at this limit")
    _add_model(parser)

    parser = added("snapshot", snapshot)
    options.add_word(parser, "--run", *RUN)
    epoch = f"a number of epochs or {kept_epochs.MIDDLE}"
    options.add_word(parser, "--epoch", _epoch, epoch)
    _add_model(parser)

    parser = added("try_batch", try_batch)
    options.add_word(parser, "--sweep", *SWEEP)
    parser.add_argument("--batch-size", type=int, required=True)
    parser.add_argument("--memory-mb", type=float, help="the limit")
    _add_model(parser)


def _add_entry(parser: ArgumentParser, name: str) -> None:
    entry = measure_settings.ENTRIES[name]
    if not isinstance(entry, Timing):
        options.add_word(parser, "--run", *RUN)
        if entry.pairs:
            options.add_word(parser, "--other", *RUN)
    else:
        parser.add_argument("--machine", default="local")
        options.add_word(parser, *(("--timing", *TIMING) if entry.trains else ("--sweep", *SWEEP)))
    read = functools.partial(measure_settings.parse_settings, name)
    settings = "the name of its settings in paths"
    options.add_word(parser, "--settings", read, settings, default="default")
    parser.add_argument("--output", type=Path, required=True)
    _add_model(parser)


def _add_model(parser: ArgumentParser) -> None:
    options.add_results(parser)
    # The workflow writes the option without a value for a built-in model.
    parser.add_argument("--model-file", nargs="?", help="the user's model file")


def _add_reporting(added: Callable[..., ArgumentParser]) -> None:
    parsers = {call.__name__: added(call.__name__, call) for call in (tabulate, figures, claims)}
    parsers["report"] = added("report", report)
    for name, parser in parsers.items():
        options.add_study(parser, named=True)
        parser.add_argument("--output", type=Path, required=True)
        if name in ("tabulate", "figures"):
            parser.add_argument("--experiment", required=True)
    parsers["figures"].add_argument("--tables", type=Path, required=True)
    parsers["figures"].add_argument("--processes", type=int, default=1)
    parsers["report"].add_argument("--partial", action="store_true", help="from whatever exists")


def prepare_data(arguments: Namespace) -> None:
    """Prepare a data set."""
    from batchscope import datasets

    definition = json.loads(arguments.definition)
    for warning in datasets.prepare(arguments.dataset, definition, arguments.results):
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
    from batchscope.training import early_weights, runs

    run = runs.Run(arguments.results, arguments.run, arguments.model_file)
    early_weights.write(run, _epoch(arguments.epoch))


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
    subject: Any = (
        run_names.configuration(arguments.timing)
        if entry.trains
        else sweep_names.parse(arguments.sweep)
    )
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
    from batchscope.tables import run_table

    study = options.study(arguments)
    owners.claim(arguments.output.parent, study.name, arguments.config)
    run_table.write(arguments.results, study, arguments.experiment, arguments.output)


def figures(arguments: Namespace) -> None:
    """Draw the figures of one experiment."""
    from batchscope import figures

    drawn = figures.drawn(options.study(arguments).experiments[arguments.experiment])
    figures.write(arguments.tables, drawn, arguments.output, arguments.processes)


def claims(arguments: Namespace) -> None:
    """Test what the documents of a study state, by its tables."""
    from batchscope.tables import claim_table

    claim_table.write(options.study(arguments), arguments.output.parent, arguments.output)


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


def _epoch(word: str) -> int | str:
    return word if word == kept_epochs.MIDDLE else int(word)


def _definition(word: str) -> dict[str, Any]:
    if not isinstance(found := json.loads(word), dict):
        raise ValueError
    return found


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
