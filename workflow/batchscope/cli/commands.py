"""The commands that users type: functions with their help as docstring; options at the end."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from argparse import ArgumentParser, _SubParsersAction
from collections.abc import Callable
from pathlib import Path
from typing import Any

from batchscope.core import project_files
from batchscope.core.errors import UserError
from batchscope.host import requirements
from batchscope.study import command_line, optimizer_constants, tasks

_WATCH_SECONDS = 5.0  # time between two updates of `watch`


def init(**choices: Any) -> None:
    """Write a study for your data; print a guess of the batch size and the study's time."""
    from batchscope.cli import init as starting

    print(starting.write_study(starting.Choices(**choices)))


def plan(configfile: str, scale: str, results: Path, gpus: bool) -> None:
    """Show the missing jobs of a study, their estimated time, and problems of your data."""
    from batchscope.cli import missing_times, plan, study_check

    if gpus:
        os.environ[requirements.REMOTE_GPUS_VARIABLE] = "true"
    study = plan.study(configfile, scale, results)
    missing_times.note_missing_times(study, results)
    print(plan.text(study, results), flush=True)
    study_check.check_data(study, results)


def watch(results: Path, once: bool) -> None:
    """Show running jobs, missing jobs and the best run of the last study, until Ctrl-C."""
    from batchscope.cli import watch

    clear = "\033[H\033[2J" if sys.stdout.isatty() and not once else ""
    while True:
        study = watch.last_study(results)
        print(clear + watch.text(study, results, requirements.usable_cores()), flush=True)
        if once:
            return
        time.sleep(_WATCH_SECONDS)


def decide(snakemake_options: list[str]) -> None:
    """Run `snakemake OPTIONS`, and repeat it until no stage of the study is open."""
    from batchscope.rules.study import plan_study
    from batchscope.store import interims

    results = Path("results")
    study = plan_study(*command_line.study_of_command(snakemake_options), results)
    analyses = interims.count(results, study.folder_name)
    while True:
        status = subprocess.run([sys.executable, "-m", "snakemake", *snakemake_options]).returncode
        if status:
            sys.exit(status)
        if not study.has_stages or not interims.is_open(results, study.folder_name):
            return
        before, analyses = analyses, interims.count(results, study.folder_name)
        if analyses == before:
            raise UserError("decide: the command made no interim analysis, so it is not repeated.")


def advice(configfile: str, scale: str, results: Path) -> None:
    """Recommend batch sizes, from the tables of a study."""
    from batchscope.report import recommendation
    from batchscope.rules.study import plan_study

    study = plan_study(configfile, scale, results)
    print(recommendation.terminal_text(study, results, configfile))


def explain(words: list[str]) -> None:
    """Explain a factor, measure, column, figure, or a word of the report such as provisional."""
    from batchscope.cli import reference

    name = " ".join(words)
    print(reference.entries(name) if name else reference.full_page(), end="")


def results(results: Path, output: Path, study: list[str]) -> None:
    """Write docs/results.md: the claims of every document with their verdicts and a picture."""
    from batchscope.report import results_page

    results_page.write(results, output, study)
    print(f"Written: {output}")


def schema() -> None:
    """Print the JSON schema of a study, for editors."""
    from batchscope.study import editor_schema

    print(editor_schema.text(), end="")


def add_commands(subparsers: _SubParsersAction) -> None:
    """Add the commands with their options to a parser, in the order of the help."""
    results_option, study_options = ArgumentParser(add_help=False), ArgumentParser(add_help=False)
    results_option.add_argument(
        "--results", type=Path, default=Path("results"), help="folder of the results"
    )
    study_options.add_argument(
        "--configfile",
        default=project_files.DEFAULT_CONFIG,
        metavar="FILE",
        help="file of the study (default: config.yaml), as for snakemake",
    )
    study_options.add_argument(
        "--config",
        dest="scale",
        type=lambda entry: entry.removeprefix("scale="),
        choices=("full", "reduced"),
        default="full",
        metavar="scale=reduced",
        help="the reduced form of the study, as for snakemake",
    )

    def add_command(
        call: Callable[..., None], *parents: ArgumentParser, **keywords: Any
    ) -> Callable[..., Any]:
        parser = subparsers.add_parser(
            call.__name__,
            parents=parents,
            help=call.__doc__,
            description=call.__doc__,
            **keywords,
        )
        parser.set_defaults(call=call)
        return parser.add_argument

    option = add_command(init, results_option)
    option("data", help="folder of images, table, text, arrays, or a name such as digits")
    option("model", nargs="?", help="file of your model (default: a built-in model)")
    option("--label", metavar="COLUMN", help="label column of a table (default: the last one)")
    option("--task", choices=tuple(tasks.TASKS), help="task, if the labels do not decide it")
    optimizers = tuple(optimizer_constants.DEFAULT_CONSTANTS)
    option("--optimizer", choices=optimizers, help="default: as in model.compile, or adam")
    option("-o", "--output", type=Path, help="study file to write")
    option = add_command(plan, results_option, study_options)
    option("--gpus", action="store_true", help="plan for GPUs elsewhere, such as a cluster")
    option = add_command(watch, results_option)
    option("--once", action="store_true", help="print once and exit")
    # Without a prefix character, the options of Snakemake are words.
    option = add_command(decide, prefix_chars="\0", add_help=False)
    option("snakemake_options", nargs="*", metavar="OPTION", help="such as --cores 8")
    add_command(advice, results_option, study_options)
    option = add_command(explain)
    option("words", nargs="*", metavar="WORD", help="name, such as batch_size (default: all)")
    option = add_command(results, results_option)
    page = Path("docs/results.md")
    option("-o", "--output", type=Path, default=page, help=f"page to write (default: {page})")
    option("--study", nargs="*", default=[], metavar="NAME", help="default: all with a report")
    add_command(schema)
