"""The commands that users type: functions with their help as docstring; options at the end."""

from __future__ import annotations

import argparse
import os
import sys
import time
from argparse import ArgumentParser, Namespace
from collections.abc import Callable
from pathlib import Path
from typing import Any

from batchscope.cli import options
from batchscope.core import display
from batchscope.core.errors import UserError
from batchscope.core.problems import show
from batchscope.host import requirements
from batchscope.study import log_keys, optimizer_constants, tasks

_MAX_LOGS = 20  # largest number of logs that fits on a screen
_WATCH_SECONDS = 5.0  # time between two updates of `watch`


def init(arguments: Namespace) -> None:
    """Write a study for your data or logs; print a guess of the batch size and the study's time."""
    from batchscope.cli import init as starting

    print(starting.write_study(arguments))


def plan(arguments: Namespace) -> None:
    """Show the missing jobs of a study, their estimated time, and problems of your data."""
    from batchscope.cli import missing_times, plan, study_check

    if arguments.gpus:
        os.environ[requirements.REMOTE_GPUS_VARIABLE] = "true"
    study = plan.study(arguments.config, arguments.scale, arguments.results)
    missing_times.note_missing_times(study, arguments.results)
    print(plan.text(study, arguments.results), flush=True)
    study_check.check_data(study, arguments.results)


def watch(arguments: Namespace) -> None:
    """Show running jobs, missing jobs and the best run of the last study, until Ctrl-C."""
    from batchscope.cli import watch

    clear = "\033[H\033[2J" if sys.stdout.isatty() and not arguments.once else ""
    while True:
        study = options.last_study(arguments.results)
        print(clear + watch.text(study, arguments.results, requirements.usable_cores()), flush=True)
        if arguments.once:
            return
        time.sleep(_WATCH_SECONDS)


def log(arguments: Namespace) -> None:
    """Show the newest logs of failed jobs, or the newest logs with all words in their paths."""
    from batchscope.store import job_logs, jobs

    results, words = arguments.results, arguments.words
    logs = [path for path in job_logs.find_logs(results, words) if path.stat().st_size]
    study = options.last_study(results)
    if study and not words:
        missing = job_logs.missing_job_logs(jobs.JobTable(study, results))
        logs = [path for path in logs if path in missing] or logs
    if not logs:
        raise UserError(
            f"{results.parent / 'logs'}: no text in logs (received {show(' '.join(words))})."
        )
    for path in logs[-_MAX_LOGS:]:
        text = path.read_text(encoding="utf-8", errors="replace")
        print(text if len(logs) == 1 else f"{path}: {text.rstrip().rpartition(chr(10))[2]}")


def decide(arguments: Namespace) -> None:
    """Run `snakemake OPTIONS`, and repeat it until no stage of the study is open."""
    from batchscope.cli import decide

    decide.run(arguments.options)


def advice(arguments: Namespace) -> None:
    """Recommend batch sizes, from the tables of a study."""
    from batchscope.report import recommendation

    study = options.study(arguments.results, arguments.config, arguments.scale)
    print(recommendation.terminal_text(study, arguments.results, arguments.config, arguments.seeds))


def explain(arguments: Namespace) -> None:
    """Explain a factor, measure, column, figure, or a word of the report such as provisional."""
    from batchscope.cli import reference

    name = " ".join(arguments.words)
    print(reference.entries(name) if name else reference.full_page(), end="")


def import_(arguments: Namespace) -> None:
    """Convert logs of any kind to the CSV file that `runs:` reads; see docs/own_training.md."""
    from batchscope.external import external_runs
    from batchscope.tables import csv_tables

    keys = options.keys_of_logs(arguments)
    logged = external_runs.read(keys)
    csv_tables.write(external_runs.in_log_columns(logged), arguments.output)
    runs, sizes = logged.rows["run"].nunique(), logged.rows["batch_size"].nunique()
    print(
        f"{arguments.output}: {display.count(runs, 'training')} at {sizes} batch sizes, in "
        f"{display.count(len(logged.rows), 'row')} ({logged.table.read_as})."
    )
    for note in logged.table.notes:
        print(f"Note: {note}.")


def results(arguments: Namespace) -> None:
    """Write docs/results.md: the claims of every document with their verdicts and a picture."""
    from batchscope.report import results_page

    output = arguments.output or Path("docs/results.md")
    results_page.write(arguments.results, output, arguments.study)
    print(f"Written: {output}")


def schema(arguments: Namespace) -> None:
    """Print the JSON schema of a study, for editors."""
    from batchscope.study import editor_schema

    print(editor_schema.text(), end="")


def add_commands(subparsers: argparse._SubParsersAction) -> None:
    """Add the commands with their options to a parser, in the order of the help."""

    def add_command(
        call: Callable[[Namespace], None], *shared: ArgumentParser, **form: Any
    ) -> Callable[..., Any]:
        name = call.__name__.removesuffix("_")  # `import` is a keyword of Python
        form |= {"parents": shared, "help": call.__doc__, "description": call.__doc__}
        parser = subparsers.add_parser(name, **form)
        parser.set_defaults(call=call)
        return parser.add_argument

    option = add_command(init, options.RESULTS)
    option("data", help="folder of images or logs, table, text, arrays, or a name such as digits")
    option("model", nargs="?", help="file of your model (default: a built-in model)")
    option("--label", metavar="COLUMN", help="label column of a table (default: the last one)")
    option("--task", choices=tuple(tasks.TASKS), help="task, if the labels do not decide it")
    optimizers = tuple(optimizer_constants.DEFAULT_CONSTANTS)
    option("--optimizer", choices=optimizers, help="default: as in model.compile, or adam")
    option("-o", "--output", type=Path, help="study file to write")
    option = add_command(plan, options.RESULTS, options.SCALE, options.CONFIG)
    option("--gpus", action="store_true", help="plan for GPUs elsewhere, such as a cluster")
    option = add_command(watch, options.RESULTS)
    option("--once", action="store_true", help="print once and exit")
    option = add_command(log, options.RESULTS)
    option("words", nargs="*", metavar="WORD", help="part of a name, such as bs=16 or seed=0")
    option = add_command(
        decide, prefix_chars="\0", add_help=False
    )  # options of Snakemake are words
    option("options", nargs="*", metavar="OPTION", help="of Snakemake, such as --cores 8")
    option = add_command(advice, options.RESULTS, options.SCALE, options.CONFIG)
    option("--seeds", action="store_true", help="also show what more seeds would resolve")
    option = add_command(explain)
    option("words", nargs="*", metavar="WORD", help="name, such as batch_size (default: all)")
    option = add_command(import_)
    option("files", nargs="+", metavar="FILES", help="logs, folders, or patterns with {name}")
    option("-o", "--output", type=Path, required=True, help="table to write")
    option(
        "--columns",
        **{"nargs": "+", "default": [], "metavar": "OURS=THEIRS"},
        help="such as validation_loss=val/loss batch_size=bs",
    )
    option("--examples-per-epoch", type=float, metavar="N", help="if the logs count epochs")
    option(
        "--pattern",
        metavar="PATTERN",
        help="for paths: bs{batch_size}_seed{seed}; for a column: 'run: bs{batch_size}'",
    )
    option("--factors", nargs="+", metavar="COLUMN", help="further columns that are factors")
    option(
        "--lines",
        **{"nargs": "+", "metavar": "PATTERN"},
        help="for printed lines: 'step {updates}: loss {train_loss}', or keras",
    )
    option(
        "--rows",
        choices=(log_keys.AT_TARGET,),
        help="each run has a single row, at its target (default: at its end)",
    )
    option = add_command(results, options.RESULTS)
    option("-o", "--output", type=Path, help="page to write (default: docs/results.md)")
    option("--study", nargs="*", default=[], metavar="NAME", help="default: all with a report")
    add_command(schema)
