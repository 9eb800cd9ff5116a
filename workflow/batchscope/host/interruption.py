"""Signal handlers that end Snakemake, its jobs and commands on Ctrl-C without a traceback."""

import atexit
import signal
import sys
import threading
from collections.abc import Callable

_TIMEOUT_SECONDS = 60.0  # maximum wait until the main thread answers
_interrupted = False  # whether Ctrl-C has reached this Snakemake
_handlers_ran = threading.Event()


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
    """Install the handler of Ctrl-C that ends Snakemake and prints how to continue."""
    install_handler(_stop_snakemake)
    signal.signal(signal.SIGURG, lambda signum, frame: _handlers_ran.set())


def is_interrupted() -> bool:
    """Return whether Ctrl-C has reached this Snakemake.

    Another thread may learn that a job ended by Ctrl-C before the main thread runs the handler of
    SIGINT. So it sends SIGURG and waits for its handler: Python runs handlers in the order of the
    signal numbers, so the handler of SIGINT has run before.
    """
    if not _interrupted and threading.current_thread() is not threading.main_thread():
        _handlers_ran.clear()
        signal.pthread_kill(threading.main_thread().ident, signal.SIGURG)
        _handlers_ran.wait(_TIMEOUT_SECONDS)
    return _interrupted
