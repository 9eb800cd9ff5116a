"""Parse the command line, run one command or step, and show its errors in one line.

Users type the commands, functions of this module with their help as docstring; `_add_commands`
lists them with their options. The rules of the workflow call the steps of `steps.py`: the
parameters of a step are its options, and the help does not list it.
"""

import functools
import inspect
import os
import subprocess
import sys
import time
import typing
from argparse import ArgumentParser
from collections.abc import Callable
from pathlib import Path
from typing import Any

from batchscope.cli import steps
from batchscope.core import project_files
from batchscope.core.errors import Interrupted, UserError, check_folder
from batchscope.host import fork_server, requirements
from batchscope.study import run_factors, tasks

INTERRUPTED_STATUS = 85  # exit status of a training that a signal stopped at its checkpoint
_WATCH_SECONDS = 5.0  # time between two updates of `watch`
# Modules that the fork server imports once for its steps: with TensorFlow for trainings, measures
# and timings; later for tables, figures and reports.
_TRAINING_MODULES = (
    "datasets",
    "measures.measure_job",
    "timing.loops",
    "timing.timing_job",
    "training.trainer",
)
_TABLE_MODULES = ("report", "figures.canvas")


def main(words: list[str]) -> None:
    """Run one command. An error that the user can fix is shown without traceback."""
    try:
        arguments = vars(parser().parse_args(words or ["--help"]))
        call = arguments.pop("call")
        if "results" in arguments:
            check_folder(arguments["results"])
        call(**arguments)
        print(end="", flush=True)
    except UserError as error:
        sys.exit(str(error))
    except BrokenPipeError:  # A reader such as `head` has ended. The last flush must not fail.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(1)
    except OSError as error:
        if error.filename is None:
            raise
        sys.exit(f"{error.filename}: {error.strerror}.")
    except Interrupted:
        print("Stopped by a signal. The next start resumes from the checkpoint.")
        sys.exit(INTERRUPTED_STATUS)


def init(**choices: Any) -> None:
    """Write a study for your data; print a guess of the batch size and the study's time."""
    from batchscope.cli import init as starting

    print(starting.write_study(starting.Choices(**choices)))


def plan(configfile: str, scale: str, results: Path, gpus: bool) -> None:
    """Show the missing jobs of a study, their estimated time, and problems of your data."""
    from batchscope.cli import plan, study_check

    if gpus:
        os.environ[requirements.REMOTE_GPUS_VARIABLE] = "true"
    study = plan.study(configfile, scale, results)
    study_check.note_missing_times(study, results)
    print(plan.text(study, results), flush=True)
    study_check.check_data(study, results)


def watch(results: Path, once: bool) -> None:
    """Show the running jobs and the missing jobs of the last study, until Ctrl-C."""
    from batchscope.cli import plan

    clear = "\033[H\033[2J" if sys.stdout.isatty() and not once else ""
    while True:
        print(clear + plan.watch_text(results), flush=True)
        if once:
            return
        time.sleep(_WATCH_SECONDS)


def decide(snakemake_options: list[str]) -> None:
    """Run `snakemake OPTIONS`, and repeat it until no stage of the study is open."""
    from batchscope.rules.study import plan_study
    from batchscope.store import interims
    from batchscope.study import config

    results = Path("results")
    study = plan_study(*config.study_of_command(snakemake_options), results)
    analysis = interims.last(results, study.folder_name)
    while True:
        snakemake = subprocess.Popen([sys.executable, "-m", "snakemake", *snakemake_options])
        with fork_server.forwarded_signals(snakemake.send_signal):
            if snakemake.wait():
                sys.exit(snakemake.returncode)
        if not study.has_stages or not interims.is_open(results, study.folder_name):
            return
        before, analysis = analysis, interims.last(results, study.folder_name)
        if analysis == before:
            raise UserError("decide: the command made no interim analysis, so it is not repeated.")


def advice(configfile: str, scale: str, results: Path) -> None:
    """Recommend batch sizes, from the tables of a study."""
    from batchscope.cli import plan
    from batchscope.report import recommendation

    study = plan.study(configfile, scale, results)
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
    from batchscope.study import study_file

    print(study_file.json_schema_text(), end="")


@functools.cache
def parser() -> ArgumentParser:
    """Return the parser. Its argument `call` is the function to call with all other arguments."""
    main_parser = ArgumentParser("python workflow/run.py", description="Batchscope's commands.")
    subparsers = main_parser.add_subparsers(metavar="COMMAND", title="commands", required=True)
    _add_commands(subparsers)
    for name, step in steps.STEPS.items():
        _add_step(subparsers.add_parser(name), step)
    return main_parser


def _add_commands(subparsers: Any) -> None:
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
    optimizers = tuple(run_factors.DEFAULT_CONSTANTS)
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


def _add_step(command: ArgumentParser, step: Callable[..., None]) -> None:
    """Add one option per parameter of a step: `--chunk-seconds` for `chunk_seconds`."""
    command.set_defaults(call=step)
    for name, parameter in inspect.signature(step).parameters.items():
        option, default = f"--{name.replace('_', '-')}", parameter.default
        if parameter.annotation is bool:
            command.add_argument(option, action="store_true")
        elif default is parameter.empty:
            command.add_argument(option, type=parameter.annotation, required=True)
        elif default is None:  # A rule may state no value: a built-in model has no model file.
            optional_type = typing.get_args(parameter.annotation)[0]  # `str` of `str | None`
            command.add_argument(option, type=optional_type, nargs="?")
        else:
            command.add_argument(option, type=parameter.annotation, default=default)


def serve(snakemake_pid: int, descriptor: int) -> None:
    """Run the fork server.

    `fork_server.serve` returns only in a forked process, with the arguments of the step to run.
    """
    parser()
    modules = _TRAINING_MODULES, _TABLE_MODULES
    main(fork_server.serve(snakemake_pid, descriptor, steps.can_share, *modules))
