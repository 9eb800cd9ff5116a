"""The parser of all commands, the end of a command in one line, and the steps of local jobs."""

from __future__ import annotations

import argparse
import contextlib
import functools
import os
import sys
import time
from collections.abc import Iterator

from batchscope.cli import commands, options, steps
from batchscope.errors import Interrupted, UserError, check_folder
from batchscope.host import fork_server
from batchscope.study import versions
from batchscope.study.names import configuration, parse_run
from batchscope.study.registry import MEASURES, TIMINGS

INTERRUPTED = 85  # exit status of a training that was asked to stop and wrote its checkpoint


@functools.cache
def parser() -> argparse.ArgumentParser:
    """Returns the parser: its help lists the commands of users, without the workflow's steps."""
    made = argparse.ArgumentParser("python workflow/run.py", description="Batchscope's commands.")
    added = made.add_subparsers(dest="step", metavar="COMMAND", title="commands")
    for call, names in {**commands.OPTIONS, **steps.OPTIONS}.items():
        listed = {"help": call.__doc__} if call in commands.OPTIONS else {}
        name = call.__name__.removesuffix("_")  # of a command that Python has a word for
        command = added.add_parser(name, description=call.__doc__, **listed)
        command.set_defaults(call=call)
        options.add(command, *names, output_required=call not in commands.OPTIONAL_OUTPUT)
    for name, entry in versions.ENTRIES.items():
        command = added.add_parser(name, description=entry.doc)
        command.set_defaults(call=steps.timing if name in TIMINGS else steps.measure)
        options.add_settings(command, name)
        subjects = (f"--{option}" for option in entry.subjects)
        options.add(command, *subjects, "--results", "--output", "--model-file")
    return made


def main(words: list[str]) -> None:
    """Runs one command; a problem that the user can mend ends in its message alone."""
    try:
        arguments = parser().parse_args(words or ["--help"])
        if "results" in arguments:
            check_folder(arguments.results)
        with _noted(arguments):
            arguments.call(arguments)
        sys.stdout.flush()
    except UserError as error:
        sys.exit(str(error))
    except BrokenPipeError:  # `head` has read enough; what is left to flush at the end goes nowhere
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(1)
    except OSError as error:
        if error.filename is None:
            raise
        sys.exit(f"{error.filename}: {error.strerror}.")
    except Interrupted:
        print("Stopped by a signal; goes on from its checkpoint when started again.")
        sys.exit(INTERRUPTED)


@contextlib.contextmanager
def _noted(arguments: argparse.Namespace) -> Iterator[None]:
    """Note that a measure or a timing runs, for `watch`, and then how long it took."""
    if arguments.step not in versions.ENTRIES:
        yield
        return
    from batchscope.store import estimates, progress

    options = vars(arguments)
    (name,) = (options[subject] for subject in ("run", "timing", "sweep") if subject in options)
    started = time.monotonic()
    with progress.running(arguments.results, arguments.step, name):
        yield
    seconds = time.monotonic() - started
    estimates.note(arguments.results, arguments.step, name, arguments.output, seconds)


def serve(snakemake_pid: int, descriptor: int) -> None:
    """Run the fork server, or a step in a fork of it."""
    parser()
    modules = ("datasets", "measures.measure_job", "timing.loops", "timing.timing_job")
    modules += ("training.trainer",)
    table_modules = ("report", "figures.drawing.canvas")
    main(fork_server.serve(snakemake_pid, descriptor, can_share, modules, table_modules))


def can_share(words: list[str]) -> bool:
    """Whether a step may run in a fork of the server, which has one thread and no GPU."""
    given = dict(zip(words, words[1:], strict=False))
    if words[0] in fork_server.TABLE_STEPS:
        return True
    if words[0] in TIMINGS and not TIMINGS[words[0]].forked:
        return False
    try:
        if "--timing" in given:  # a timing sets its threads itself
            return configuration(given["--timing"]).factors["device"] == "cpu"
        factors = parse_run(given.get("--run", ""))
    except ValueError:
        return False
    replicas = 1 if words[0] in MEASURES else factors["replicas"]
    return (factors["threads"], factors["device"], replicas) == (1, "cpu", 1)
