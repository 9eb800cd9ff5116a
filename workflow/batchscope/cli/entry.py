"""Parse and run a command or step, and show its errors in one line.

A user command is added in `commands.py`, a step in `steps.py`; its parameters become its options.
"""

from __future__ import annotations

import argparse
import contextlib
import functools
import inspect
import itertools
import os
import sys
import time
import typing
from collections.abc import Callable, Iterator

from batchscope.cli import commands, steps
from batchscope.core.errors import Interrupted, UserError, check_folder
from batchscope.host import fork_server
from batchscope.study import versions
from batchscope.study.names import configuration, parse_run
from batchscope.study.registry import MEASURES, TIMINGS

INTERRUPTED_STATUS = 85  # exit status of a training that a signal stopped at its checkpoint


@functools.cache
def parser() -> argparse.ArgumentParser:
    """Return the parser of commands and steps. Its help lists the commands of users alone."""
    main_parser = argparse.ArgumentParser(
        "python workflow/run.py", description="Batchscope's commands."
    )
    subparsers = main_parser.add_subparsers(dest="step", metavar="COMMAND", title="commands")
    commands.add_commands(subparsers)
    for call in steps.STEPS:
        _add_step(subparsers.add_parser(call.__name__, description=call.__doc__), call)
    for name, entry in versions.ENTRIES.items():
        call = functools.partial(steps.timing if name in TIMINGS else steps.measure, name)
        _add_step(subparsers.add_parser(name, description=entry.doc), call)
    return main_parser


def _add_step(command: argparse.ArgumentParser, call: Callable[..., None]) -> None:
    """Add options to a step's parser, one for each parameter of its function."""
    parameters = inspect.signature(call, eval_str=True).parameters
    for parameter in parameters.values():
        option = f"--{parameter.name.replace('_', '-')}"
        kind, *_ = *typing.get_args(parameter.annotation), parameter.annotation  # `float | None`
        if kind is bool:
            command.add_argument(option, action="store_true")
        elif parameter.default is parameter.empty:
            command.add_argument(option, type=kind, required=True)
        else:
            count = "?" if parameter.default is None else None
            command.add_argument(option, type=kind, default=parameter.default, nargs=count)
    command.set_defaults(
        call=lambda arguments: call(**{name: vars(arguments)[name] for name in parameters})
    )


def main(words: list[str]) -> None:
    """Run one command. An error that the user can fix is shown without traceback."""
    try:
        arguments = parser().parse_args(words or ["--help"])
        if "results" in arguments:
            check_folder(arguments.results)
        with _running_job(arguments):
            arguments.call(arguments)
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


@contextlib.contextmanager
def _running_job(arguments: argparse.Namespace) -> Iterator[None]:
    """List a measure or a timing as running inside the block, and note its seconds."""
    if arguments.step not in versions.ENTRIES:
        yield
        return
    from batchscope.store import estimates, progress

    # The subject of the job, by whichever option the step has.
    names = (vars(arguments).get(option) for option in ("run", "timing", "sweep"))
    name = next(filter(None, names))
    started = time.monotonic()
    with progress.listed_as_running(arguments.results, arguments.step, name):
        yield
    seconds = time.monotonic() - started
    estimates.note_job(arguments.results, arguments.step, name, arguments.output, seconds)


def serve(snakemake_pid: int, descriptor: int) -> None:
    """Run the fork server.

    `fork_server.serve` returns only in a forked process, with the arguments of the step to run.
    """
    parser()
    modules = ("datasets", "measures.measure_job", "timing.loops", "timing.timing_job")
    modules += ("training.trainer",)
    table_modules = ("report", "figures.canvas")
    main(fork_server.serve(snakemake_pid, descriptor, can_share, modules, table_modules))


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
