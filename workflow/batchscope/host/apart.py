"""A step in a copy of this process, which lives on to report how the copy ended."""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import threading
import traceback
from collections.abc import Callable
from typing import NoReturn

from batchscope.host import passing


def run(main: Callable[[list[str]], None], arguments: list[str]) -> int:
    """Runs a step in a copy of this process, passes signals on, and returns how it ended.

    The copy ends with this process.

    Returns:
        The exit status; -n where signal n ended the copy.
    """
    reader, writer = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.close(writer)
        threading.Thread(target=_end_with, args=(reader,), daemon=True).start()
        run_and_end(main, arguments)
    os.close(reader)
    with passing.passing_on(lambda signum: os.kill(pid, signum)):
        _, status = os.waitpid(pid, 0)
    os.close(writer)
    return os.waitstatus_to_exitcode(status)


def run_and_end(main: Callable[[list[str]], None], arguments: list[str]) -> NoReturn:
    """Runs a step in this process, a copy, and ends it.

    Args:
        main: Runs a step, given its arguments; it may end in `sys.exit`.
    """
    os._exit(outcome(main, arguments))  # the interpreter's own end belongs to the process copied


def outcome(main: Callable[[list[str]], None], arguments: list[str]) -> int:
    """Runs a step, says what it ended with, and returns its exit status.

    Args:
        main: Runs a step, given its arguments; it may end in `sys.exit`.
    """
    status = 1
    try:
        main(arguments)
        status = 0
    except SystemExit as end:
        status = end.code if isinstance(end.code, int) else int(end.code is not None)
        if isinstance(end.code, str):
            print(end.code, file=sys.stderr)
    except BaseException:
        traceback.print_exc()
    with contextlib.suppress(OSError):  # nobody reads
        sys.stdout.flush()
        sys.stderr.flush()
    return status


def _end_with(reader: int) -> None:
    """Ends this process once the other end of a pipe is closed: nothing is written there."""
    os.read(reader, 1)
    os._exit(128 + signal.SIGKILL)
