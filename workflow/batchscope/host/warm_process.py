"""A process with TensorFlow imported, which local jobs fork from in place of importing it.

Importing TensorFlow takes a job longer than many of its steps, and the first step of a process
longer than the next. On one machine the workflow therefore starts one process that only imports
(nothing of TensorFlow runs in it, so that it has no threads and can be forked), and
`workflow/run.py` asks it for a copy of itself to do a job's step in. A copy whose step went well
takes the next one that is asked for; one that failed, was sent a signal, timed something, ran a
user's code or grew large ends with its step, and so does one that nobody asks for some seconds. A
timing is given a new copy, in which nothing has run. Tables, figures and the report, which need no
TensorFlow, are made in a copy too, and do not wait for its import. Where there is no such process,
or it does not answer, a job imports for itself: the numbers are the same, and so is the command.

A job's own process stays: it passes its output, arguments and signals on, and ends as its step
does. When it is killed, the copy ends too; when Snakemake dies, all do (`lifetime`).
"""

from __future__ import annotations

import contextlib
import gc
import importlib
import json
import os
import select
import signal
import socket
import struct
import subprocess
import sys
import threading
import time
import traceback
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn

import psutil

from batchscope.host import apart, lifetime
from batchscope.host.job import (
    ANY,
    END,
    NEW,
    READY,
    SIGNAL,
    SOCKET,
    STARTED,
    VARIABLE,
    collect_rarely,
    receive,
)

IDLE_SECONDS = 2.0  # after which a copy without a step ends: what is timed next has the memory
MOST_BYTES = 2**30  # of a copy that takes another step: half of what a training may have
_FREE = b"f"
_MOST = 1 << 24  # bytes of a request: a command line and its environment
_STOPS = (signal.SIGTERM, signal.SIGINT)
_kept: list[subprocess.Popen] = []


@dataclass(frozen=True)
class Door:
    """The steps, as this process is given them; the modules are those of batchscope.

    Attributes:
        modules: What steps have in common, to import after TensorFlow.
        last_modules: What tables, figures and report have in common, to import once the first
            step has its copy.
    """

    main: Callable[[list[str]], None]
    modules: tuple[str, ...]
    last_modules: tuple[str, ...]
    takes: Callable[[list[str]], bool]  # whether a step may run in a copy of this process
    leaves_nothing: Callable[[list[str]], bool]  # whether another may follow it there


@dataclass
class _Copy:
    """A copy of this process."""

    # A job's connection goes to it this way; a word comes back when its step is over.
    link: socket.socket
    job: socket.socket | None  # the connection whose step it runs; None while it waits for one
    since: float = 0.0  # when it began to wait


def launch(code: Path, idle: float = IDLE_SECONDS) -> None:
    """Starts the process and lets jobs know, through the environment, where it listens."""
    folder = lifetime.claim()
    os.environ[VARIABLE] = str(folder)
    program = "import run; from batchscope.host import warm_process; warm_process.serve(run.door())"
    # Listening before it starts: the first jobs wait for the import in place of repeating it.
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    with listener:
        try:
            listener.bind(str(folder / SOCKET))
        except OSError:  # too long a path of a temporary folder: jobs import for themselves
            return
        listener.listen(1024)
        arguments = [str(folder), str(listener.fileno()), str(idle)]
        command = [sys.executable, "-c", program, *arguments]
        environment = {**os.environ, "PYTHONPATH": str(code)}
        # It lives as long as the pipe: until this process ends, however it ends.
        process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            env=environment,
            start_new_session=True,
            pass_fds=[listener.fileno()],
        )
    _kept.append(process)


def serve(door: Door) -> None:
    """Imports TensorFlow, then lets copies run what is asked for, until standard input closes."""
    from batchscope.host import tensorflow_start

    collect_rarely()
    folder, descriptor, idle = sys.argv[1:]
    listener = socket.socket(fileno=int(descriptor))
    try:
        tensorflow_start.load(threads=1)
        tensorflow_start.expect_many_models()
        _import(door.modules)
        (Path(folder) / READY).touch()
        _answer(listener, door, float(idle))
    finally:
        listener.close()  # who waits for an answer runs its step itself
        lifetime.remove(Path(folder))


def _import(modules: Iterable[str]) -> None:
    for module in modules:
        importlib.import_module(f"batchscope.{module}")
    gc.freeze()  # not to be searched, nor copied, in every copy


def _answer(listener: socket.socket, door: Door, idle: float) -> None:
    copies: dict[int, _Copy] = {}
    ended, wakes = socket.socketpair()
    wakes.setblocking(False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    signal.set_wakeup_fd(wakes.fileno(), warn_on_full_buffer=False)
    complete = False
    while True:
        busy = {copy.link: copy for copy in copies.values() if copy.job}
        wait = None if len(busy) == len(copies) else idle / 4
        ready, _, _ = select.select([listener, sys.stdin, ended, *busy], [], [], wait)
        if sys.stdin in ready:  # never written to: it is closed
            signal.set_wakeup_fd(-1)
            return
        for link in busy:
            if link in ready:
                _note_free(busy[link])
        if ended in ready:
            ended.recv(1024)
            _report_ends(copies)
        if listener in ready:
            connection, _ = listener.accept()
            asked = _asked(connection)
            if asked == NEW or (asked == ANY and not _hand_on(connection, copies)):
                _fork(connection, copies, (listener, ended, wakes), door)
            if asked == ANY and not complete:  # never beside a timing
                _import(door.last_modules)
                complete = True
        for copy in copies.values():
            if copy.job is None and time.monotonic() - copy.since > idle:
                copy.link.close()


def _asked(connection: socket.socket) -> bytes:
    """Returns what copy a job asks for; nothing where the job has gone."""
    with contextlib.suppress(ConnectionError):
        if asked := connection.recv(1):
            return asked
    connection.close()
    return b""


def _note_free(copy: _Copy) -> None:
    """Notes that a copy waits for another step, where it does not end."""
    with contextlib.suppress(ConnectionError):
        if copy.job and copy.link.recv(1) == _FREE:
            copy.job.close()
            copy.job, copy.since = None, time.monotonic()


def _hand_on(connection: socket.socket, copies: dict[int, _Copy]) -> bool:
    """Gives a job to a copy that waits for one; returns whether there was any."""
    for copy in copies.values():
        # One whose link is closed was asked to end.
        if copy.job is None and copy.link.fileno() >= 0:
            with contextlib.suppress(OSError):  # killed in this moment
                socket.send_fds(copy.link, [_FREE], [connection.fileno()])
                copy.job = connection
                return True
    return False


def _fork(
    connection: socket.socket, copies: dict[int, _Copy], own: tuple[socket.socket, ...], door: Door
) -> None:
    """Makes a copy of this process for a job."""
    link, end = socket.socketpair()
    pid = os.fork()
    if pid == 0:
        signal.set_wakeup_fd(-1)
        others = [one for copy in copies.values() for one in (copy.link, copy.job) if one]
        for one in (*own, link, *others):
            one.close()
        _work(end, connection, door)
    end.close()
    copies[pid] = _Copy(link, connection)


def _report_ends(copies: dict[int, _Copy]) -> None:
    """Reports how each copy that has ended did so, to the job whose step it ran."""
    for pid in list(copies):
        found, status = os.waitpid(pid, os.WNOHANG)
        if found:
            copy = copies.pop(pid)
            copy.link.close()
            if copy.job:
                with contextlib.suppress(OSError), copy.job:
                    copy.job.sendall(END.pack(os.waitstatus_to_exitcode(status)))


def _work(link: socket.socket, connection: socket.socket, door: Door) -> NoReturn:
    """Runs steps in this process, a copy, until it is not to take another; ends it."""
    status = 1
    try:
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        handlers = {signum: signal.getsignal(signum) for signum in _STOPS}
        outputs = os.dup(1), os.dup(2)
        again = True
        while again:
            with connection:
                status, again = _serve(connection, door)
            for signum, handler in handlers.items():
                signal.signal(signum, handler)
            for output, own in zip(outputs, (1, 2), strict=True):
                os.dup2(output, own)  # lets go of the job's log
            if again:
                gc.collect()  # models are full of cycles
                gc.freeze()  # TensorFlow keeps the rest: not to be searched after each step
                again = psutil.Process().memory_info().rss <= MOST_BYTES
            if again:
                files = []
                with contextlib.suppress(ConnectionError):  # the process that was copied is gone
                    link.sendall(_FREE)
                    _, files, _, _ = socket.recv_fds(link, 1, 1)
                if again := bool(files):
                    connection = socket.socket(fileno=files[0])
    except BaseException:
        traceback.print_exc()
    os._exit(status)  # the interpreter's own end belongs to the process copied


def _serve(connection: socket.socket, door: Door) -> tuple[int, bool]:
    """Runs the step of a request; returns its exit status and whether another may follow."""
    size, files, _, _ = socket.recv_fds(connection, 4, 2)
    request = json.loads(receive(connection, min(struct.unpack("!I", size)[0], _MOST)))
    words = request["arguments"]
    # Another Python is a conda environment of the job's own.
    if request["python"] != sys.prefix or not door.takes(words):
        for file in files:
            os.close(file)
        return 0, True
    for file, own in zip(files, (1, 2), strict=True):
        os.dup2(file, own)
        os.close(file)
    os.chdir(request["folder"])
    os.environ.clear()
    os.environ.update(request["environment"])
    over, signalled = threading.Event(), threading.Event()
    connection.sendall(STARTED)
    obeys = threading.Thread(target=_obey, args=(connection, over, signalled), daemon=True)
    obeys.start()
    status = apart.outcome(door.main, words)
    over.set()
    with contextlib.suppress(OSError):  # the job may be gone by then
        connection.sendall(END.pack(status))
        connection.shutdown(socket.SHUT_RD)  # wakes the thread
    obeys.join()
    return status, status == 0 and not signalled.is_set() and door.leaves_nothing(words)


def _obey(connection: socket.socket, over: threading.Event, signalled: threading.Event) -> None:
    """Passes on the signals of the job's own process; ends this one when that is gone.

    Standard input is the pipe from Snakemake: it closes when that is gone.
    """
    while True:
        ready, _, _ = select.select([connection, 0], [], [])
        received = b""
        if connection in ready:
            with contextlib.suppress(ConnectionError):
                received = connection.recv(SIGNAL.size)
        if over.is_set():
            return
        if not received:
            os._exit(1)
        signalled.set()
        os.kill(os.getpid(), SIGNAL.unpack(received)[0])
