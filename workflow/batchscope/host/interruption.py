"""Ctrl-C ends Snakemake, its jobs and every command without a traceback."""

import atexit
import signal
import sys
from collections.abc import Callable

_interrupted = False  # whether Ctrl-C has reached this Snakemake


class Stopped(SystemExit):
    """The end of a process after SIGINT.

    Python ends quietly on it, in a process of a pool too. A `KeyboardInterrupt` prints a traceback
    in each process that does not catch it.
    """


def stop(signum: int, frame: object) -> None:
    """Handle a signal: unwind the stack and exit with the shell's status for the signal."""
    # A second signal must not disturb the clean-up. A copy of a job receives SIGINT from the
    # terminal and from its job.
    signal.signal(signum, signal.SIG_IGN)
    raise Stopped(128 + signum)


def stop_snakemake(signum: int, frame: object) -> None:
    """Handle a signal to Snakemake: stop it, with a last line that tells how to continue."""
    global _interrupted
    _interrupted = True
    atexit.register(print, "Interrupted: the same command continues.", file=sys.stderr)
    stop(signum, frame)


def stop_quietly(handler: Callable[[int, object], None] = stop) -> None:
    """Let a handler end this process on Ctrl-C, unless its parent made it ignore Ctrl-C."""
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, handler)


def is_interrupted() -> bool:
    return _interrupted
