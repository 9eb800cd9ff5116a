"""A step in a copy of this process, which lives on to report how the copy ended."""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import threading
import traceback
from collections.abc import Callable

from batchscope.host import passing


def run(main: Callable[[list[str]], None], arguments: list[str]) -> int:
    """Runs a step in a copy of this process, which ends with this one; passes signals on.

    Returns:
        The exit status; -n where signal n ended the copy.
    """
    reader, writer = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.close(writer)
        threading.Thread(target=_end_with, args=(reader,), daemon=True).start()
        os._exit(outcome(main, arguments))  # the interpreter's own end is the copied process's
    os.close(reader)
    with passing.passing_on(lambda signum: os.kill(pid, signum)):
        _, status = os.waitpid(pid, 0)
    os.close(writer)
    return os.waitstatus_to_exitcode(status)


def outcome(main: Callable[[list[str]], None], arguments: list[str]) -> int:
    """Runs a step, which may end in `sys.exit`, and reports its error; returns its exit status."""
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
