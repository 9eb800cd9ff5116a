"""The one door to every step: arguments, threads, error text; imports the step after that.

Each job of the workflow is one call of this script, and its logged line can be pasted into a
shell to repeat the job by hand. `python workflow/run.py plan` shows what a study would run,
`watch` how far the trainings are that run now, and `advice` which batch sizes to use.
`critical_batch_size` reads trainings of one's own, whatever made them.
"""

from __future__ import annotations

import sys

from batchscope.host import job

if __name__ == "__main__":
    job.follow()
    # Where a copy of the warm process runs the step, nothing of what follows is imported.
    _status, _words = job.in_a_copy(sys.argv[1:])
    if _status is not None:
        sys.exit(_status)
    job.collect_rarely()

import argparse
import contextlib
import functools
import json
import os
import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from batchscope import project_files
from batchscope.catalogue import (
    coercion,
    framework_names,
    kept_epochs,
    measure_settings,
    parameters,
    run_names,
    sweep_names,
)
from batchscope.catalogue.measures import MEASURES
from batchscope.catalogue.timings import TIMINGS
from batchscope.errors import ConfigError, Interrupted, UserError
from batchscope.host import absence, apart, control_groups, framework_environments
from batchscope.problems import received

INTERRUPTED = 85  # exit status of a training that was asked to stop and wrote its checkpoint


PARSER = argparse.ArgumentParser(prog="python workflow/run.py", description=__doc__)
STEPS = PARSER.add_subparsers(dest="step", required=True, metavar="STEP")
Option = tuple[str, dict[str, Any]]  # what argparse's `add_argument` is given


def _step(*options: Option, name: str = "", text: str = "") -> Callable:
    """Returns what makes a function a step, under its name and docstring or other ones."""

    def add(call: Callable) -> Callable:
        words = text or call.__doc__
        found = STEPS.add_parser(name or call.__name__, help=words, description=words)
        found.set_defaults(call=call)
        for option, given in (RESULTS, *options):
            found.add_argument(option, **given)
        return call

    return add


def _option(name: str, **given: Any) -> Option:
    return name, given


def _word(name: str, read: Callable[[str], Any], expected: str, **given: Any) -> Option:
    """Returns an option with what reads its word; it must be given if it has no default."""
    convert = functools.partial(_read, name, read, expected)
    usual = {"help": expected, "required": "default" not in given}
    return name, {"type": convert, **usual, **given}


def _read(option: str, read: Callable[[str], Any], expected: str, word: str) -> Any:
    """Returns what an option takes a word for; raises UserError where it takes none."""
    try:
        return read(word)
    except (KeyError, ValueError):
        raise UserError(received((option,), word, expected).line) from None


def _named(parse: Callable[[str], Any]) -> Callable[[str], str]:
    """Returns what reads a name: it stays a text, which paths have."""

    def read(word: str) -> str:
        parse(word)
        return word

    return read


def _epoch(word: str) -> int | str:
    return word if word == kept_epochs.MIDDLE else int(word)


def _definition(word: str) -> dict:
    if not isinstance(found := json.loads(word), dict):
        raise ValueError
    return found


RESULTS = _option("--results", type=Path, default=Path("results"), help="the results")
SCALE = _option("--scale", choices=("full", "reduced"), default="full")
CONFIG = _option("--config", required=True, help="the configuration file")
OUTPUT = _option("--output", type=Path, required=True)
OF_STUDY = (SCALE, CONFIG, OUTPUT)  # of what is made of a study, and of one experiment
OF_EXPERIMENT = (*OF_STUDY, _option("--experiment", required=True))
PLANNED = (
    SCALE,
    _option("config", nargs="?", default=project_files.DEFAULT_CONFIG, help=CONFIG[1]["help"]),
)
# The workflow writes the option without a value for a built-in model.
MODEL_FILE = _option("--model-file", nargs="?", help="the user's model file")
RUN = _word("--run", _named(run_names.parse_run), "the name of a run in paths")
OTHER = _word("--other", _named(run_names.parse_run), "the name of a run in paths")
SWEEP = _word("--sweep", _named(sweep_names.parse), "the name of a sweep in paths")
TIMING = _word(
    "--timing", _named(run_names.configuration), "the name of a timing configuration in paths"
)
PAUSE = parameters.Parameter.seconds("seconds", "s", 5.0, "Between two looks.", above=0)
_pause = functools.partial(coercion.coerce, PAUSE)


def _made(step: str) -> tuple[Option, ...]:
    """Returns the options of every measure and timing."""
    read = _named(functools.partial(measure_settings.parse_settings, step))
    settings = _word("--settings", read, "the name of its settings in paths", default="default")
    return settings, OUTPUT, MODEL_FILE


@_step(
    *PLANNED,
    _option("--gpus", action="store_true", help="jobs go where GPUs are: to a cluster"),
    _option("--verify", action="store_true", help="check every recorded SHA-256"),
)
def plan(arguments: argparse.Namespace) -> None:
    """Show what a study would run, what exists, time and disk."""
    from batchscope.store import status

    _end_with_the_reader()
    if arguments.gpus:
        os.environ[absence.VARIABLE] = "true"
    print(status.main(arguments.config, arguments.scale, arguments.results))
    if arguments.verify:
        from batchscope.datasets import verification

        print(verification.verify(_study(arguments), arguments.results))


@_step(*PLANNED, _option("--seeds", action="store_true", help="and what more seeds would resolve"))
def advice(arguments: argparse.Namespace) -> None:
    """Say which batch sizes to use, from a study's tables."""
    from batchscope.report import decision

    _end_with_the_reader()
    print(decision.text(_study(arguments), arguments.results, arguments.config, arguments.seeds))


@_step(
    _option("--once", action="store_true", help="print it once, as for a pipe"),
    _word("--seconds", _pause, PAUSE.expected, default=PAUSE.birth, help="between two looks"),
)
def watch(arguments: argparse.Namespace) -> None:
    """Show how far the trainings are that run now; ends with Ctrl-C."""
    from batchscope.store import progress

    _end_with_the_reader()
    clear = "\033[H\033[2J" if sys.stdout.isatty() and not arguments.once else ""
    with contextlib.suppress(KeyboardInterrupt):
        while True:
            print(f"{clear}{progress.overview(arguments.results)}", flush=True)
            if arguments.once:
                return
            time.sleep(arguments.seconds)


@_step(_option("name", nargs="?", help="of all that a study may choose; all if left out"))
def explain(arguments: argparse.Namespace) -> None:
    """Print what a factor, measure, column or figure is."""
    from batchscope.catalogue import reference

    text = reference.one(arguments.name) if arguments.name else reference.whole()
    print(text, end="")


@_step(
    _option("file", type=Path, metavar="FILE.csv", help="a row per evaluation"),
    _option(
        "--target",
        action="append",
        default=[],
        metavar="COLUMN=VALUE",
        help="such as validation_loss=0.2; may be given again; three of each series if left out",
    ),
    _option("--step-seconds", metavar="A,B", help="a step takes A + B * batch size seconds"),
    _option("--base", type=int, metavar="B", help="base batch size of B_20; 256 if left out"),
    _option("--output", type=Path, help="the folder of a table and a figure"),
)
def critical_batch_size(arguments: argparse.Namespace) -> None:
    """Fit the critical batch size to a table of one's own trainings; docs/own_runs.md."""
    from batchscope.analysis import updates_to_target
    from batchscope.report import own_runs as words
    from batchscope.tables import own_runs

    _end_with_the_reader()
    runs = own_runs.read(arguments.file)
    targets = [own_runs.target(text, runs) for text in arguments.target]
    if not targets:
        own_runs.check_default_targets(runs)
    step = own_runs.step_seconds(arguments.step_seconds) if arguments.step_seconds else None
    found = updates_to_target.scalings(runs.frame, runs.factors, targets, step)
    print(words.text(found, arguments.base))
    if arguments.output:
        written = words.write(found, arguments.output)
        print(f"\nWritten: {', '.join(map(str, written))}")


@_step()
def schema(arguments: argparse.Namespace) -> None:
    """Print the JSON schema of a study, for editors."""
    from batchscope.study import editor_schema

    print(editor_schema.text(), end="")


@_step(
    _word("--dataset", _named(run_names.split_token), "the name of a data set in paths"),
    _word("--definition", _definition, "its definition as JSON"),
)
def prepare_data(arguments: argparse.Namespace) -> None:
    """Prepare a data set."""
    from batchscope import datasets

    for warning in datasets.prepare(arguments.dataset, arguments.definition, arguments.results):
        print(f"Warning: {warning}")


@_step(SCALE, CONFIG)
def check_models(arguments: argparse.Namespace) -> None:
    """Build a study's own models, before their data."""
    from batchscope.store import states

    study = _study(arguments)
    own = states.Table(study, arguments.results).own_models()
    _start({"threads": 1, "device": "cpu"})
    from batchscope import datasets
    from batchscope.training import models

    problems = []
    for dataset, model in sorted(own):
        try:
            look = datasets.look(arguments.results, dataset, study.datasets[dataset])
            if look is not None:
                models.build(model, look, 0, study.models[model])
        except UserError as error:
            problems.append(str(error))
    if problems:
        raise ConfigError(list(dict.fromkeys(problems)))


@_step(
    _option("--framework", required=True, choices=tuple(framework_names.FRAMEWORKS)),
    _option("--output", type=Path, required=True, help="its record"),
)
def install_framework(arguments: argparse.Namespace) -> None:
    """Install a framework beside TensorFlow."""
    from batchscope.host import framework_install

    record = framework_environments.record(arguments.framework)
    if arguments.output.resolve() != record.resolve():
        raise UserError(
            f"--output: received {arguments.output}; {record} is expected, as "
            f"{framework_environments.VARIABLE} has it."
        )
    framework_install.install(arguments.framework)


@_step(
    RUN,
    _option("--chunk-seconds", type=float, default=5.0, help="most in one call"),
    _option("--chunk-steps", type=int, help="most steps in one call"),
    _option("--checkpoint-seconds", type=float, default=30.0, help="between two"),
    _option("--killed-at-mb", type=float, help="the kernel killed it at this limit"),
    MODEL_FILE,
)
def train(arguments: argparse.Namespace) -> None:
    """Train one run."""
    _start(run_names.parse_run(arguments.run))
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


@_step(RUN, _word("--epoch", _epoch, f"a number of epochs or {kept_epochs.MIDDLE}"), MODEL_FILE)
def snapshot(arguments: argparse.Namespace) -> None:
    """Make one run's weights after an epoch before its last."""
    from batchscope.training import early_weights, runs

    run = runs.Run(arguments.results, arguments.run, arguments.model_file)
    early_weights.write(run, arguments.epoch)


def measure(arguments: argparse.Namespace) -> None:
    """Make one measure of a run, or of two."""
    entry = MEASURES[arguments.step]
    if entry.data:
        # One thread: a sum's order, and so its last bits, must not depend on the machine.
        _start({"threads": 1, "device": run_names.parse_run(arguments.run)["device"]})
    from batchscope import measures

    names = (arguments.run, arguments.other) if entry.pairs else (arguments.run,)
    runs = [measures.FinishedRun(arguments.results, name, arguments.model_file) for name in names]
    measures.write(arguments.step, runs, arguments.settings, arguments.output)


for _name, _entry in MEASURES.items():
    _runs = (RUN, OTHER) if _entry.pairs else (RUN,)
    _step(*_runs, *_made(_name), name=_name, text=_entry.doc)(measure)


def timing(arguments: argparse.Namespace) -> None:
    """Time a sweep, or a training's configuration."""
    job.collect_as_usual()
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
        _start(factors)
    from batchscope import timing as timings

    timed = timings.TimingJob(arguments.results, subject, arguments.model_file, arguments.output)
    timings.write(arguments.step, timed, arguments.machine, arguments.settings)


for _name, _entry in TIMINGS.items():
    _of = (_option("--machine", default="local"), TIMING if _entry.trains else SWEEP)
    _step(*_of, *_made(_name), name=_name, text=_entry.doc)(timing)


@_step(
    SWEEP,
    _option("--batch-size", type=int, required=True),
    _option("--memory-mb", type=float, help="the limit"),
    MODEL_FILE,
)
def try_batch(arguments: argparse.Namespace) -> None:
    """Try whether one batch fits into memory."""
    job.collect_as_usual()
    from batchscope.timing import TimingJob
    from batchscope.timing.largest import attempt_child

    sweep = sweep_names.parse(arguments.sweep)
    tried = TimingJob(arguments.results, sweep, arguments.model_file)
    attempt_child.run(tried, arguments.batch_size, arguments.memory_mb)


@_step(*OF_EXPERIMENT)
def tabulate(arguments: argparse.Namespace) -> None:
    """Write the tables of one experiment."""
    from batchscope.store import owners
    from batchscope.tables import run_table

    study = _study(arguments)
    owners.claim(arguments.output.parent, study.name, arguments.config)
    run_table.write(arguments.results, study, arguments.experiment, arguments.output)


@_step(
    *OF_EXPERIMENT,
    _option("--tables", type=Path, required=True),
    _option("--processes", type=int, default=1),
)
def figures(arguments: argparse.Namespace) -> None:
    """Draw the figures of one experiment."""
    from batchscope import figures

    drawn = figures.drawn(_study(arguments).experiments[arguments.experiment])
    figures.write(arguments.tables, drawn, arguments.output, arguments.processes)


@_step(*OF_STUDY)
def claims(arguments: argparse.Namespace) -> None:
    """Test what the documents of a study state, by its tables."""
    from batchscope.tables import claim_table

    claim_table.write(_study(arguments), arguments.output.parent, arguments.output)


@_step(_option("--output", type=Path, help="the page; results/ledger.html if left out"))
def ledger(arguments: argparse.Namespace) -> None:
    """Write what held of every study's documents: one page."""
    from batchscope.report import ledger_page

    output = arguments.output or arguments.results / "ledger.html"
    ledger_page.write(arguments.results, output)
    print(f"Written: {output}")


@_step(
    _option("--output", type=Path, required=True, help="the index, a Markdown page"),
    _option("--figures", nargs="*", default=[], help="study/experiment/figure each"),
)
def results(arguments: argparse.Namespace) -> None:
    """Write some figures and what held, a page per study, to read."""
    from batchscope.report import results_page

    figures = [results_page.Chosen.of(text) for text in arguments.figures]
    results_page.write(arguments.results, arguments.output, figures)
    print(f"Written: {arguments.output}")


@_step(*OF_STUDY, _option("--partial", action="store_true", help="from whatever exists"))
def report(arguments: argparse.Namespace) -> None:
    """Build the report of a study."""
    from batchscope import report

    given = (arguments.results, arguments.config, arguments.output, arguments.partial)
    report.write(_study(arguments), *given)


def _study(arguments: argparse.Namespace) -> Any:
    """Returns the study, which has the experiment that is asked for."""
    from batchscope.study import config

    found = config.study(arguments.config, arguments.scale)
    if "experiment" in arguments:
        known = found.experiments
        expected = f"one of {', '.join(known)}"
        _read("--experiment", known.__getitem__, expected, arguments.experiment)
    return found


def _start(factors: dict) -> None:
    from batchscope.host import tensorflow_start

    absence.check_threads(factors["threads"])
    tensorflow_start.start(factors["threads"], factors["device"], factors.get("replicas", 1))


def _end_with_the_reader() -> None:
    """Lets what only prints end quietly where `head` has read enough."""
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)


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


def main(words: list[str]) -> None:
    """Runs one step; a problem that the user can mend ends in its message alone."""
    started = time.monotonic()
    try:
        arguments = PARSER.parse_args(words)
        arguments.call(arguments)
    except UserError as error:
        sys.exit(str(error))
    except OSError as error:
        if error.filename is None:
            raise
        sys.exit(f"{error.filename}: {error.strerror}.")
    except Interrupted:
        print("Stopped by a signal; goes on from its checkpoint when started again.")
        sys.exit(INTERRUPTED)
    if arguments.step in measure_settings.ENTRIES:
        from batchscope.store import estimates

        given = vars(arguments)
        (name,) = (given[of] for of in ("run", "timing", "sweep") if of in given)
        seconds = time.monotonic() - started
        estimates.note(arguments.results, arguments.step, name, arguments.output, seconds)


def _alone(words: list[str]) -> bool:
    """Whether a step must have a process of its own: most timings, a GPU, threads, replicas."""
    if words[0] in {"check_models", *job.OF_TABLES}:
        return False
    if words[0] in TIMINGS:
        if not TIMINGS[words[0]].forked:
            return True
        timed = run_names.configuration(words[words.index("--timing") + 1])
        return timed.factors["device"] != "cpu"
    run = words[words.index("--run") + 1] if "--run" in words[:-1] else ""
    try:
        factors = run_names.parse_run(run)
    except ValueError:
        return True
    wide = factors["threads"] > 1 or factors["device"] != "cpu"
    return wide or (words[0] not in MEASURES and factors["replicas"] > 1)


def _leaves_nothing(words: list[str]) -> bool:
    """Whether another step may follow a step in the same process: no code of a user's ran.

    A timing sets the threads of its process, for good.
    """
    if words[0] in TIMINGS:
        return False
    option = words.index("--model-file") + 1 if "--model-file" in words else len(words)
    return option == len(words) or words[option].startswith("--")


def door() -> Any:
    """Returns the steps as the process that jobs fork from is given them."""
    from batchscope.host import warm_process

    return warm_process.Door(
        main,
        modules=("datasets", "measures", "timing.time_epoch", "training.trainer"),
        last_modules=("report", "figures.drawing.canvas"),
        takes=lambda words: not _alone(words),
        leaves_nothing=_leaves_nothing,
    )


def _job(words: list[str]) -> int | None:
    """Runs a step as a job that no copy of the warm process runs; returns its exit status."""
    if words[:1] != ["train"]:
        return main(words)
    before = control_groups.count()
    status = apart.run(main, words)
    if status == -signal.SIGKILL and (limit := control_groups.limit_met(before)):
        status = apart.run(main, [*words, "--killed-at-mb", str(limit)])
    return job.exit_status(status)


if __name__ == "__main__":
    sys.exit(_job(_words))
