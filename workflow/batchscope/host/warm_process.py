"""A process with TensorFlow imported, which local jobs fork from in place of importing it.

Importing TensorFlow takes a job longer than many of its steps. On one machine the workflow
therefore starts one process that only imports (nothing of TensorFlow runs in it, so that it
has no threads and can be forked), and `workflow/run.py` asks it for a copy of itself to do a
job's step in. Where there is none, or it does not answer, a job imports for itself: the numbers
are the same, and so is the command.

A job's own process stays: it passes its output, arguments and signals on, and ends as its step
does. When it is killed, the copy ends too; when Snakemake dies, all do (`lifetime`).
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import socket
import struct
import subprocess
import sys
import threading
import traceback
from collections.abc import Callable
from pathlib import Path

from batchscope.host import apart, lifetime

VARIABLE = "BATCHSCOPE_WARM"
_SOCKET = "socket"
_STARTED, _SIGNAL = b"s", struct.Struct("!B")
_END = struct.Struct("!h")  # the exit status of a copy; -n where signal n ended it
_MOST = 1 << 24  # bytes of a request: a command line and its environment
_kept: list[subprocess.Popen] = []


def launch(code: Path) -> None:
    """Starts the process and tells jobs, through the environment, where it listens.

    Args:
        code: Folder that holds this package.
    """
    folder = lifetime.claim()
    os.environ[VARIABLE] = str(folder)
    program = "import run; from batchscope.host import warm_process; warm_process.serve(run.main)"
    # Listening before it starts: the first jobs wait for the import in place of repeating it.
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    with listener:
        try:
            listener.bind(str(folder / _SOCKET))
        except OSError:  # too long a path of a temporary folder: jobs import for themselves
            return
        listener.listen(1024)
        command = [sys.executable, "-c", program, str(folder), str(listener.fileno())]
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


def follow() -> None:
    """Ends this process with the Snakemake whose job it is; nothing where it is none's."""
    if folder := os.environ.get(VARIABLE):
        lifetime.follow(Path(folder))


def ask(arguments: list[str]) -> int | None:
    """Lets a copy of the warm process run a step; returns how that ended.

    Args:
        arguments: The step and its arguments, as on the command line.

    Returns:
        The exit status, -n where signal n ended the copy, or None where there is no such process:
        run the step here.
    """
    folder = os.environ.get(VARIABLE)
    if not folder:
        return None
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
        try:
            connection.connect(os.path.join(folder, _SOCKET))
            request = json.dumps(
                {
                    "arguments": arguments,
                    "folder": os.getcwd(),
                    "environment": dict(os.environ),
                    "python": sys.prefix,
                }
            ).encode()
            size = struct.pack("!I", len(request))
            socket.send_fds(connection, [size], [sys.stdout.fileno(), sys.stderr.fileno()])
            connection.sendall(request)
            if connection.recv(1) != _STARTED:
                return None
        except OSError:
            return None
        with apart.passing_on(lambda signum: connection.sendall(_SIGNAL.pack(signum))):
            answer = _receive(connection, _END.size)
    # Without an answer the warm process was killed too.
    return _END.unpack(answer)[0] if len(answer) == _END.size else -signal.SIGKILL


def serve(main: Callable[[list[str]], None]) -> None:
    """Imports TensorFlow, then forks a copy for every request, until standard input closes.

    Args:
        main: Runs a step, given its arguments.
    """
    from batchscope.host import tensorflow_start

    folder, descriptor = sys.argv[1:]
    listener = socket.socket(fileno=int(descriptor))
    try:
        tensorflow_start.load(threads=1)
        _answer(listener, main)
    finally:
        listener.close()  # who waits for an answer runs its step itself
        lifetime.remove(Path(folder))


def _answer(listener: socket.socket, main: Callable[[list[str]], None]) -> None:
    copies: dict[int, socket.socket] = {}
    ended, wakes = socket.socketpair()
    wakes.setblocking(False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    signal.set_wakeup_fd(wakes.fileno(), warn_on_full_buffer=False)
    while True:
        ready, _, _ = select.select([listener, sys.stdin, ended], [], [])
        if sys.stdin in ready:  # never written to: it is closed
            return
        if ended in ready:
            ended.recv(1024)
            _tell_ends(copies)
        if listener in ready:
            connection, _ = listener.accept()
            pid = os.fork()
            if pid == 0:
                signal.set_wakeup_fd(-1)
                for one in (listener, ended, wakes, *copies.values()):
                    one.close()
                _copy(connection, main)
            copies[pid] = connection


def _tell_ends(copies: dict[int, socket.socket]) -> None:
    """Tells of each copy that has ended how it did, to the job whose step it ran."""
    for pid in list(copies):
        found, status = os.waitpid(pid, os.WNOHANG)
        if found:
            with contextlib.suppress(OSError), copies.pop(pid) as connection:
                connection.sendall(_END.pack(os.waitstatus_to_exitcode(status)))


def _copy(connection: socket.socket, main: Callable[[list[str]], None]) -> None:
    """Runs the step of a request in this process and ends it."""
    try:
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        size, files, _, _ = socket.recv_fds(connection, 4, 2)
        request = json.loads(_receive(connection, min(struct.unpack("!I", size)[0], _MOST)))
        if request["python"] != sys.prefix:  # a conda environment of the job's own
            os._exit(1)
        os.dup2(files[0], 1)
        os.dup2(files[1], 2)
        for file in files:
            os.close(file)
        os.chdir(request["folder"])
        os.environ.clear()
        os.environ.update(request["environment"])
        connection.sendall(_STARTED)
        threading.Thread(target=_obey, args=(connection,), daemon=True).start()
    except BaseException:
        traceback.print_exc()
        os._exit(1)

    def tell(status: int) -> None:  # the warm process may be gone by then
        connection.sendall(_END.pack(status))

    apart.run_and_end(main, request["arguments"], tell)


def _obey(connection: socket.socket) -> None:
    """Passes on the signals of the job's own process; ends this one when that is gone.

    Standard input is the pipe from Snakemake: it closes when that is gone.
    """
    while True:
        ready, _, _ = select.select([connection, 0], [], [])
        received = connection.recv(_SIGNAL.size) if connection in ready else b""
        if not received:
            os._exit(1)
        os.kill(os.getpid(), _SIGNAL.unpack(received)[0])


def _receive(connection: socket.socket, size: int) -> bytes:
    parts = b""
    while len(parts) < size:
        try:
            part = connection.recv(size - len(parts))
        except ConnectionError:
            break
        if not part:
            break
        parts += part
    return parts
