"""What a job does first: it lets a copy of the warm process run its step, and imports no more.

Most jobs of a small study are shorter than the imports that a step needs. So this module, and
what it imports, is all that a job loads before it asks; see batchscope.host.warm_process for the
other side.
"""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import struct
import sys

from batchscope.host import lifetime, passing

VARIABLE = "BATCHSCOPE_WARM"
SOCKET = "socket"
READY = "ready"  # a file beside the socket, once jobs are answered
# Steps that import no TensorFlow. They do not wait for a process that still does.
OF_TABLES = frozenset({"tabulate", "claims", "figures", "report"})
STARTED, SIGNAL = b"s", struct.Struct("!B")
ANY, NEW = b"a", b"n"  # what a job asks for first: any copy, or one in which nothing has run
END = struct.Struct("!h")  # the exit status of a copy; -n where signal n ended it


def follow() -> None:
    """Ends this process with the Snakemake whose job it is; nothing where it is none's."""
    if folder := os.environ.get(VARIABLE):
        lifetime.follow(folder)


def collect_rarely() -> None:
    """Runs the garbage collector less often: imports, graphs and tables leave hardly any garbage.

    That saves about a tenth of the CPU time of tables and figures.
    """
    import gc

    gc.set_threshold(50_000, 20, 50)


def collect_as_usual() -> None:
    """Runs the garbage collector as Python does of itself: what is timed is a user's own."""
    import gc

    gc.set_threshold(700, 10, 10)


def in_a_copy(words: list[str]) -> tuple[int | None, list[str]]:
    """Lets a copy of the warm process run a step, where there is one and it takes it.

    A training that the kernel killed for memory is started once more, to record that.

    Returns:
        The exit status, or None where the step is to be run here, and its words then.
    """
    folder = os.environ.get(VARIABLE)
    if not folder:
        return None, words
    tables = not OF_TABLES.isdisjoint(words[:1]) and os.path.exists(os.path.join(folder, READY))
    if not tables and not {"--run", "--timing"} & {*words}:
        return None, words
    if words[0] != "train":
        # What is timed is not to depend on what ran before.
        status = ask(words, NEW if "--timing" in words else ANY)
    else:
        from batchscope.host import control_groups

        before = control_groups.count()
        status = ask(words)
        if status == -signal.SIGKILL and (limit := control_groups.limit_met(before)):
            words = [*words, "--killed-at-mb", str(limit)]
            status = ask(words)
    return (None if status is None else exit_status(status)), words


def ask(words: list[str], copy: bytes = ANY) -> int | None:
    """Lets a copy of the warm process run a step; returns its exit status.

    Args:
        copy: `ANY`, or `NEW` for one in which nothing has run.

    Returns:
        -n where signal n ended the copy; None where there is no such process, or the step is none
        that it takes: run the step here.
    """
    folder = os.environ.get(VARIABLE)
    if not folder:
        return None
    import json

    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
        try:
            connection.connect(os.path.join(folder, SOCKET))
            connection.sendall(copy)
            here = {"folder": os.getcwd(), "environment": dict(os.environ), "python": sys.prefix}
            request = json.dumps({"arguments": words, **here}).encode()
            size = struct.pack("!I", len(request))
            socket.send_fds(connection, [size], [sys.stdout.fileno(), sys.stderr.fileno()])
            connection.sendall(request)
            if connection.recv(1) != STARTED:
                return None
        except OSError:
            return None
        with passing.passing_on(lambda signum: connection.sendall(SIGNAL.pack(signum))):
            answer = receive(connection, END.size)
    # Without an answer the warm process was killed too.
    return END.unpack(answer)[0] if len(answer) == END.size else -signal.SIGKILL


def receive(connection: socket.socket, size: int) -> bytes:
    """Returns so many bytes of a connection, or fewer where it ends before."""
    parts = b""
    with contextlib.suppress(ConnectionError):
        while len(parts) < size and (part := connection.recv(size - len(parts))):
            parts += part
    return parts


def exit_status(status: int) -> int:
    """Returns an exit status in place of the signal that ended a step, and reports the signal."""
    if status >= 0:
        return status
    how = "killed" if status == -signal.SIGKILL else f"ended by {signal.Signals(-status).name}"
    print(f"The step was {how}.", file=sys.stderr)
    return 128 - status
