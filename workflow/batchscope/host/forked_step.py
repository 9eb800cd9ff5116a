"""A step in a copy of this process: signals reach it, and its end is judged from outside."""

from __future__ import annotations

import contextlib
import os
import select
import signal
import socket
import sys
import threading
import time
from collections.abc import Callable, Iterator

# Signals that ask a process to stop, with what a copy does of itself.
_STOPS = {signal.SIGTERM: signal.SIG_DFL, signal.SIGINT: signal.default_int_handler}


def run(main: Callable[[list[str]], object], words: list[str], control: socket.socket) -> int:
    """Runs a step in a copy of this process; returns its exit status, -n where signal n ended it.

    A training that the kernel killed for memory is started once more, to record that.

    Args:
        control: Every byte that arrives is a signal for the step, which is killed when the other
            end is closed.
    """
    from batchscope.host import control_groups  # most jobs only ask

    before = control_groups.count()
    status = _run(main, words, control)
    if words[0] != "train" or status != -signal.SIGKILL:
        return status
    limit = control_groups.limit_met(before)
    return _run(main, [*words, "--killed-at-mb", str(limit)], control) if limit else status


def _run(main: Callable[[list[str]], object], words: list[str], control: socket.socket) -> int:
    import multiprocessing.connection  # most jobs only ask

    step = multiprocessing.get_context("fork").Process(target=_step, args=(main, words, control))
    step.start()
    while step.sentinel not in multiprocessing.connection.wait([step.sentinel, control]):
        signum = received(control, 1)
        os.kill(step.pid, signum[0] if signum else signal.SIGKILL)
    step.join()
    return step.exitcode


def _step(main: Callable[[list[str]], object], words: list[str], control: socket.socket) -> None:
    import multiprocessing

    control.close()
    for signum, handler in _STOPS.items():
        signal.signal(signum, handler)
    _end_after(multiprocessing.parent_process().join)
    main(words)


def follow(pid: int) -> None:
    """Ends this process, and what it started, as soon as Snakemake has ended, however it did."""
    _end_after(_wait, pid)


def _wait(pid: int) -> None:
    try:
        select.select([os.pidfd_open(pid)], [], [])
    except OSError:  # it has ended, or the kernel is older than Linux 5.3
        with contextlib.suppress(ProcessLookupError):
            while True:
                os.kill(pid, 0)
                time.sleep(1)


def _end_after(wait: Callable[..., object], *arguments: object) -> None:
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


def received(connection: socket.socket, size: int) -> bytes:
    """Returns what comes next through a connection; nothing where it was closed."""
    with contextlib.suppress(ConnectionError):
        return connection.recv(size)
    return b""
