"""Ctrl-C ends Snakemake, its jobs and every command without a traceback."""

import atexit
import signal
import sys
import threading
from collections.abc import Callable

_SECONDS = 60.0  # that an answer of the main thread may take
_interrupted = False  # whether Ctrl-C has reached this Snakemake
_handlers_ran = threading.Event()


class Stopped(SystemExit):
    """The end of a process after SIGINT.

    Python ends quietly on it, in a process of a pool too. A `KeyboardInterrupt` prints a traceback
    in each process that does not catch it.
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


def stop_quietly(handler: Callable[[int, object], None] = stop) -> None:
    """Let a handler end this process on Ctrl-C, unless its parent made it ignore Ctrl-C."""
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, handler)


def stop_snakemake_quietly() -> None:
    """Let Ctrl-C end Snakemake, with a last line that tells how to continue."""
    stop_quietly(_stop_snakemake)
    signal.signal(signal.SIGURG, lambda signum, frame: _handlers_ran.set())


def is_interrupted() -> bool:
    """Whether Ctrl-C has reached this Snakemake.

    Another thread may learn that a job ended by Ctrl-C before the main thread runs the handler for
    SIGINT. So it sends SIGURG, for Python runs the handlers in the order of the signal numbers.
    """
    if not _interrupted and threading.current_thread() is not threading.main_thread():
        _handlers_ran.clear()
        signal.pthread_kill(threading.main_thread().ident, signal.SIGURG)
        _handlers_ran.wait(_SECONDS)
    return _interrupted
