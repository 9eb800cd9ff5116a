"""Signal handlers that end Snakemake, its jobs and commands on Ctrl-C without a traceback."""

import atexit
import signal
import sys
import threading
import time
from collections.abc import Callable

_HANDLER_SECONDS = 0.2  # until the main thread has run a handler
_interrupted = False  # whether Ctrl-C has reached this Snakemake


class Stopped(SystemExit):
    """SIGINT ends this process.

    Python exits silently on this exception, also in a process of a pool. `KeyboardInterrupt` prints
    a traceback in each process that does not catch it.
    """


def stop(signum: int, frame: object) -> None:
    """Handle a signal: unwind the stack and exit with the shell's status for the signal."""
    signal.signal(signum, signal.SIG_IGN)  # a second signal must not disturb the clean-up
    raise Stopped(128 + signum)


def _stop_snakemake(signum: int, frame: object) -> None:
    global _interrupted
    _interrupted = True
    atexit.register(print, "Interrupted: the same command continues.", file=sys.stderr)
    stop(signum, frame)


def install_handler(handler: Callable[[int, object], None] = stop) -> None:
    """Install a handler of Ctrl-C, unless the parent made this process ignore Ctrl-C."""
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, handler)


def install_snakemake_handler() -> None:
    install_handler(_stop_snakemake)


def is_interrupted() -> bool:
    """Return whether Ctrl-C has reached this Snakemake.

    Another thread may be the first to learn that Ctrl-C ended a job. It waits here until the main
    thread has run the handler of SIGINT.
    """
    if not _interrupted and threading.current_thread() is not threading.main_thread():
        time.sleep(_HANDLER_SECONDS)
    return _interrupted
