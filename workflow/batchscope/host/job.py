"""A job runs its step in a copy of the warm process, where Snakemake started one, or by itself.

Most jobs of a small study are shorter than the imports of their step. So a job loads this module
alone before it asks; `batchscope.host.warm_process` is the other side. Where that does not answer,
the job imports for itself: the numbers are the same. A training runs in a copy in either case, so
that its end can be judged from outside.
"""

import contextlib
import os
import select
import signal
import socket
import struct
import sys
import threading
from collections.abc import Callable, Iterator

from batchscope.host import interruption

VARIABLE = "BATCHSCOPE_WARM"  # the process id of the Snakemake that the job belongs to
TRAINING, TABLES = "training", "tables"  # what a copy has imported
# Steps that need no TensorFlow. They do not wait for its import.
TABLE_STEPS = frozenset({"tabulate", "claims", "figures", "interim", "report"})
STARTED = b"s"
END = struct.Struct("!h")  # the exit status of a step; -n where signal n ended it
# Signals that ask a process to stop, with what a copy does of itself.
_STOPS = {signal.SIGTERM: signal.SIG_DFL, signal.SIGINT: interruption.stop}

Main = Callable[[list[str]], object]


def run(words: list[str], main: Main) -> object:
    """Runs a step, and ends with the Snakemake whose job it is; returns the exit status."""
    interruption.stop_quietly()
    status = None
    if snakemake := os.environ.get(VARIABLE):
        _end_after(_wait, int(snakemake))
        status = ask(words)
    if status is None and words[:1] == ["train"]:
        here, control = socket.socketpair()
        with signals_sent(here):
            status = run_copied(main, words, control)
    if status is None:
        return main(words)
    if status >= 0:
        return status
    how = "killed" if status == -signal.SIGKILL else f"ended by {signal.Signals(-status).name}"
    print(f"The step was {how}.", file=sys.stderr)
    return 128 - status


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
        with signals_sent(connection):
            answer = _received(connection, END.size)
    return END.unpack(answer)[0] if len(answer) == END.size else -signal.SIGKILL


def address(snakemake: int | str, imported: str) -> str:
    return f"\0batchscope-{snakemake}-{imported}"


def same_user(connection: socket.socket) -> bool:
    peer = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i"))
    return struct.unpack("3i", peer)[1] == os.getuid()


def run_copied(main: Main, words: list[str], control: socket.socket) -> int:
    """Runs a step in a copy of this process; returns its exit status, -n where signal n ended it.

    A training that the kernel killed for memory is started once more, to record that.

    Args:
        control: Every byte that arrives is a signal for the step, which is killed when the other
            end is closed.
    """
    import multiprocessing.connection  # most jobs only ask

    from batchscope.host import control_groups

    before = control_groups.count()
    while True:
        step = multiprocessing.get_context("fork").Process(
            target=_step, args=(main, words, control)
        )
        step.start()
        while step.sentinel not in multiprocessing.connection.wait([step.sentinel, control]):
            signum = _received(control, 1)
            os.kill(step.pid, signum[0] if signum else signal.SIGKILL)
        step.join()
        if step.exitcode != -signal.SIGKILL or words[0] != "train" or "--killed-at-mb" in words:
            return step.exitcode
        if (limit := control_groups.limit_met(before)) is None:
            return step.exitcode
        words = [*words, "--killed-at-mb", str(limit)]


def _step(main: Main, words: list[str], control: socket.socket) -> None:
    import multiprocessing

    control.close()
    for signum, handler in _STOPS.items():
        signal.signal(signum, handler)
    _end_after(multiprocessing.parent_process().join)
    main(words)


def _wait(pid: int) -> None:
    with contextlib.suppress(ProcessLookupError):  # it has ended
        select.select([os.pidfd_open(pid)], [], [])


def _end_after(wait: Callable[..., object], *arguments: object) -> None:
    """Ends this process, and what it started, once `wait` returns: another process has ended."""

    def end() -> None:
        wait(*arguments)
        print("Snakemake or its job was killed, and this step with it.", file=sys.stderr)
        sys.stderr.flush()
        import psutil  # here, for it is mostly not needed

        for started in psutil.Process().children(recursive=True):
            with contextlib.suppress(psutil.Error):
                started.kill()
        os._exit(128 + signal.SIGKILL)

    threading.Thread(target=end, daemon=True).start()


@contextlib.contextmanager
def signals_sent(connection: socket.socket) -> Iterator[None]:
    """Sends the signals that ask this process to stop through a connection, a byte each."""

    def send(signum: int, _: object) -> None:
        with contextlib.suppress(OSError):  # it has ended
            connection.sendall(bytes([signum]))

    handlers = {signum: signal.signal(signum, send) for signum in _STOPS}
    try:
        yield
    finally:
        for signum, handler in handlers.items():
            signal.signal(signum, handler)


def _received(connection: socket.socket, size: int) -> bytes:
    with contextlib.suppress(ConnectionError):
        return connection.recv(size)
    return b""
