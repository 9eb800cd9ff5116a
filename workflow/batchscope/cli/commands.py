"""The commands that users type."""

from __future__ import annotations

import contextlib
import functools
import os
import signal
import sys
import time
from argparse import ArgumentParser, Namespace
from collections.abc import Callable
from pathlib import Path
from typing import Any

from batchscope.catalogue import coercion, parameters
from batchscope.cli import options
from batchscope.host import absence

PAUSE = parameters.Parameter.seconds("seconds", "s", 5.0, "Between two looks.", above=0)


def add(commands: Any) -> None:
    """Adds the commands to a parser's, in the order of its help."""

    def added(name: str, call: Callable[[Namespace], None]) -> ArgumentParser:
        parser = commands.add_parser(name, help=call.__doc__, description=call.__doc__)
        parser.set_defaults(call=call)
        return parser

    parser = added("plan", plan)
    options.add_study(parser)
    parser.add_argument("--gpus", action="store_true", help="jobs go to GPUs: to a cluster")
    parser.add_argument("--verify", action="store_true", help="check every recorded SHA-256")

    parser = added("watch", watch)
    options.add_results(parser)
    parser.add_argument("--once", action="store_true", help="print it once, as for a pipe")
    seconds = functools.partial(coercion.coerce, PAUSE)
    read = functools.partial(options.converted, "--seconds", seconds, PAUSE.expected)
    parser.add_argument("--seconds", type=read, default=PAUSE.birth, help="between two looks")

    parser = added("advice", advice)
    options.add_study(parser)
    parser.add_argument("--seeds", action="store_true", help="and what more seeds would resolve")

    parser = added("explain", explain)
    parser.add_argument("name", nargs="?", help="such as batch_size; all if left out")

    parser = added("critical_batch_size", critical_batch_size)
    parser.add_argument("file", type=Path, metavar="FILE.csv", help="a row per evaluation")
    target = "such as validation_loss=0.2; may be given again; three of each series if left out"
    parser.add_argument(
        "--target", action="append", default=[], metavar="COLUMN=VALUE", help=target
    )
    parser.add_argument("--step-seconds", metavar="A,B", help="a step takes A + B * batch size")
    parser.add_argument("--base", type=int, metavar="B", help="base batch size of B_20; 256 if not")
    parser.add_argument("--output", type=Path, help="the folder of a table and a figure")

    parser = added("results", results)
    options.add_results(parser)
    parser.add_argument("--output", type=Path, required=True, help="the index, a Markdown page")
    parser.add_argument("--figures", nargs="*", default=[], help="study/experiment/figure each")

    parser = added("ledger", ledger)
    options.add_results(parser)
    parser.add_argument("--output", type=Path, help="the page; results/ledger.html if left out")

    added("schema", schema)


def plan(arguments: Namespace) -> None:
    """Show what a study would run, what exists, time and disk."""
    from batchscope.store import status

    _end_with_the_reader()
    if arguments.gpus:
        os.environ[absence.VARIABLE] = "true"
    print(status.main(arguments.config, arguments.scale, arguments.results))
    if arguments.verify:
        from batchscope.datasets import verification

        print(verification.verify(options.study(arguments), arguments.results))


def watch(arguments: Namespace) -> None:
    """Show how far the running trainings are; ends with Ctrl-C."""
    from batchscope.store import progress

    _end_with_the_reader()
    clear = "\033[H\033[2J" if sys.stdout.isatty() and not arguments.once else ""
    with contextlib.suppress(KeyboardInterrupt):
        while True:
            print(f"{clear}{progress.overview(arguments.results)}", flush=True)
            if arguments.once:
                return
            time.sleep(arguments.seconds)


def advice(arguments: Namespace) -> None:
    """Say which batch sizes to use, from a study's tables."""
    from batchscope.report import decision

    _end_with_the_reader()
    study = options.study(arguments)
    print(decision.text(study, arguments.results, arguments.config, arguments.seeds))


def explain(arguments: Namespace) -> None:
    """Print what a factor, measure, column or figure is."""
    from batchscope.catalogue import reference

    text = reference.one(arguments.name) if arguments.name else reference.whole()
    print(text, end="")


def critical_batch_size(arguments: Namespace) -> None:
    """Fit the critical batch size to a table of external runs; see docs/own_runs.md."""
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


def results(arguments: Namespace) -> None:
    """Write some figures and verdicts, a page per study, to read."""
    from batchscope.report import results_page

    figures = [results_page.Chosen.of(text) for text in arguments.figures]
    results_page.write(arguments.results, arguments.output, figures)
    print(f"Written: {arguments.output}")


def ledger(arguments: Namespace) -> None:
    """Write the verdicts on every study's documents: one page."""
    from batchscope.report import ledger_page

    output = arguments.output or arguments.results / "ledger.html"
    ledger_page.write(arguments.results, output)
    print(f"Written: {output}")


def schema(arguments: Namespace) -> None:
    """Print the JSON schema of a study, for editors."""
    from batchscope.study import editor_schema

    print(editor_schema.text(), end="")


def _end_with_the_reader() -> None:
    """Lets what only prints end quietly where `head` has read enough."""
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)
