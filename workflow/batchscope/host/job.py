"""A job runs its step in a copy of the warm process, where Snakemake started one, or by itself.

Most jobs of a small study are shorter than the imports of their step. So a job loads this module
alone before it asks; `batchscope.host.warm_process` is the other side. Where that does not answer,
the job imports for itself: the numbers are the same.
"""

from __future__ import annotations

import os
import signal
import socket
import struct
import sys
from collections.abc import Callable

from batchscope.host import forked_step

VARIABLE = "BATCHSCOPE_WARM"  # the process id of the Snakemake that the job belongs to
TRAINING, TABLES = "training", "tables"  # what a copy has imported
# Steps that need no TensorFlow. They do not wait for its import.
TABLE_STEPS = frozenset({"tabulate", "claims", "figures", "report"})
STARTED = b"s"
END = struct.Struct("!h")  # the exit status of a step; -n where signal n ended it


def run(words: list[str], main: Callable[[list[str]], object]) -> object:
    """Runs a step, and ends with the Snakemake whose job it is; returns the exit status."""
    status = None
    if snakemake := os.environ.get(VARIABLE):
        forked_step.follow(int(snakemake))
        status = ask(words)
    if status is None and words[:1] == ["train"]:
        # The job outlives a training that the kernel kills for memory, and records that.
        here, control = socket.socketpair()
        with forked_step.signals_sent(here):
            status = forked_step.run(main, words, control)
    return main(words) if status is None else _exit_status(status)


def ask(words: list[str]) -> int | None:
    """Lets a copy of the warm process run a step.

    Returns:
        The exit status, or -n where signal n ended the step; None where the step is to be run here.
    """
    is_table = words[:1] and words[0] in TABLE_STEPS
    if not is_table and not {"--run", "--timing"} & {*words}:
        return None
    import json

    with socket.socket(socket.AF_UNIX) as connection:
        try:
            connection.connect(address(os.environ[VARIABLE], TABLES if is_table else TRAINING))
            if not same_user(connection):
                return None
            here = {"folder": os.getcwd(), "environment": dict(os.environ), "python": sys.prefix}
            socket.send_fds(connection, [b"-"], [sys.stdout.fileno(), sys.stderr.fileno()])
            connection.sendall(json.dumps({"words": words, **here}).encode() + b"\n")
            if connection.recv(1) != STARTED:
                return None
        except OSError:
            return None
        with forked_step.signals_sent(connection):
            answer = forked_step.received(connection, END.size)
    return END.unpack(answer)[0] if len(answer) == END.size else -signal.SIGKILL


def address(snakemake: int | str, imported: str) -> str:
    """Returns where the warm process of a Snakemake listens: a name without a file (Linux)."""
    return f"\0batchscope-{snakemake}-{imported}"


def same_user(connection: socket.socket) -> bool:
    """Whether the other end of a connection is a process of this user: names are open to all."""
    peer = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i"))
    return struct.unpack("3i", peer)[1] == os.getuid()


def _exit_status(status: int) -> int:
    """Returns the exit status of a job, and reports the signal that ended its step."""
    if status >= 0:
        return status
    how = "killed" if status == -signal.SIGKILL else f"ended by {signal.Signals(-status).name}"
    print(f"The step was {how}.", file=sys.stderr)
    return 128 - status
