"""Ctrl-C ends Snakemake, its jobs and every command without a traceback."""

from __future__ import annotations

import atexit
import signal
import sys

_interrupted = False  # whether Ctrl-C has reached this Snakemake


class Stopped(SystemExit):
    """The end of a process after SIGINT.

    Python ends quietly on it, in a process of a pool too. A `KeyboardInterrupt` prints a traceback
    in each process that does not catch it.
    """


def stop(signum: int, frame: object) -> None:
    raise Stopped(128 + signum)


def stop_quietly() -> None:
    """Let Ctrl-C end this process by `Stopped`, unless its parent made it ignore Ctrl-C."""
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, stop)


def stop_snakemake_quietly() -> None:
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, _stop_snakemake)


def _stop_snakemake(signum: int, frame: object) -> None:
    global _interrupted
    if not _interrupted:  # later signals would disturb Snakemake while it waits for its jobs
        _interrupted = True
        atexit.register(print, "Interrupted: the same command continues.", file=sys.stderr)
        stop(signum, frame)


def is_interrupted() -> bool:
    return _interrupted
