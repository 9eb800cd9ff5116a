"""Parse the command line, run one command or step, and show its errors in one line.

Users type the commands of `commands.py`. The rules of the workflow call the steps of `steps.py`.
The parameters of a step are its options, and the help does not list it.
"""

from __future__ import annotations

import argparse
import functools
import inspect
import os
import sys
import typing
from collections.abc import Callable

from batchscope.cli import commands, steps
from batchscope.core.errors import Interrupted, UserError, check_folder
from batchscope.host import fork_server

INTERRUPTED_STATUS = 85  # exit status of a training that a signal stopped at its checkpoint


def main(words: list[str]) -> None:
    """Run one command. An error that the user can fix is shown without traceback."""
    try:
        arguments = vars(parser().parse_args(words or ["--help"]))
        call = arguments.pop("call")
        if "results" in arguments:
            check_folder(arguments["results"])
        call(**arguments)
        sys.stdout.flush()
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


@functools.cache
def parser() -> argparse.ArgumentParser:
    """Return the parser. Its argument `call` is the function to call with all other arguments."""
    main_parser = argparse.ArgumentParser(
        "python workflow/run.py", description="Batchscope's commands."
    )
    subparsers = main_parser.add_subparsers(metavar="COMMAND", title="commands", required=True)
    commands.add_commands(subparsers)
    for name, step in steps.STEPS.items():
        _add_step(subparsers.add_parser(name), step)
    return main_parser


def _add_step(command: argparse.ArgumentParser, step: Callable[..., None]) -> None:
    """Add one option per parameter of a step: `--chunk-seconds` for `chunk_seconds`."""
    command.set_defaults(call=step)
    for name, parameter in inspect.signature(step, eval_str=True).parameters.items():
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
    modules = ("datasets", "measures.measure_job", "timing.loops", "timing.timing_job")
    modules += ("training.trainer",)
    table_modules = ("report", "figures.canvas")
    main(fork_server.serve(snakemake_pid, descriptor, steps.can_share, modules, table_modules))
