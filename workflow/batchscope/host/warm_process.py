"""A process with TensorFlow imported, which local jobs fork from in place of importing it.

Importing TensorFlow takes a job longer than many of its steps. On one machine the workflow
therefore starts one process that only imports (nothing of TensorFlow runs in it, so that it
has no threads and can be forked), and `workflow/run.py` asks it for a copy of itself to do a
job's step in. Where there is none, or it does not answer, a job imports for itself: the numbers
are the same, and so is the command.

A job's own process stays: it passes its output, arguments and signals on, and ends as its step
does. When it is killed, the copy ends too; when Snakemake dies, all do.
"""

from __future__ import annotations

import json
import os
import select
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import threading
import traceback
from collections.abc import Callable
from pathlib import Path

VARIABLE = "BATCHSCOPE_WARM"
_STARTED, _EXIT, _SIGNAL = b"s", struct.Struct("!cB"), struct.Struct("!B")
_MOST = 1 << 24  # bytes of a request: a command line and its environment
_kept: list[subprocess.Popen] = []


def launch(code: Path) -> None:
    """Starts the process and tells jobs, through the environment, where it listens.

    Args:
        code: Folder that holds this package.
    """
    folder = tempfile.mkdtemp(prefix="batchscope-")  # private to the user
    address = os.path.join(folder, "warm")
    program = "import run; from batchscope import warm; warm.serve(run.main)"
    # Listening before it starts: the first jobs wait for the import in place of repeating it.
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        listener.bind(address)
    except OSError:  # too long a path of a temporary folder: jobs import for themselves
        listener.close()
        os.rmdir(folder)
        return
    listener.listen(1024)
    command = [sys.executable, "-c", program, address, str(listener.fileno())]
    environment = {**os.environ, "PYTHONPATH": str(code)}
    # It lives as long as the pipe: until this process ends, however it ends.
    process = subprocess.Popen(
        command,
        stdin=subprocess.PIPE,
        env=environment,
        start_new_session=True,
        pass_fds=[listener.fileno()],
    )
    listener.close()
    _kept.append(process)
    os.environ[VARIABLE] = address


def ask(arguments: list[str]) -> int | None:
    """Lets a copy of the warm process run a step; returns its exit status.

    Args:
        arguments: The step and its arguments, as on the command line.

    Returns:
        The exit status, or None where there is no such process: run the step here.
    """
    address = os.environ.get(VARIABLE)
    if not address:
        return None
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
        try:
            connection.connect(address)
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
        for signum in (signal.SIGTERM, signal.SIGINT):
            signal.signal(signum, lambda signum, _: connection.sendall(_SIGNAL.pack(signum)))
        answer = _receive(connection, _EXIT.size)
    if len(answer) == _EXIT.size:
        return _EXIT.unpack(answer)[1]
    print("The step was killed.", file=sys.stderr)
    return 128 + signal.SIGKILL


def serve(main: Callable[[list[str]], None]) -> None:
    """Imports TensorFlow, then forks a copy for every request, until standard input closes.

    Args:
        main: Runs a step, given its arguments.
    """
    from batchscope.host import tensorflow_start

    address, descriptor = sys.argv[1:]
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # nobody waits for the copies
    listener = socket.socket(fileno=int(descriptor))
    try:
        tensorflow_start.load(threads=1)
        while True:
            ready, _, _ = select.select([listener, sys.stdin], [], [])
            if sys.stdin in ready:  # never written to: it is closed
                return
            connection, _ = listener.accept()
            if os.fork() == 0:
                listener.close()
                _copy(connection, main)
            connection.close()
    finally:
        Path(address).unlink(missing_ok=True)
        Path(address).parent.rmdir()


def _copy(connection: socket.socket, main: Callable[[list[str]], None]) -> None:
    """Runs the step of a request in this process and ends it."""
    status = 1
    try:
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        size, files, _, _ = socket.recv_fds(connection, 4, 2)
        request = json.loads(_receive(connection, min(struct.unpack("!I", size)[0], _MOST)))
        if request["python"] != sys.prefix:  # a conda environment of the job's own
            os._exit(status)
        os.dup2(files[0], 1)
        os.dup2(files[1], 2)
        for file in files:
            os.close(file)
        os.chdir(request["folder"])
        os.environ.clear()
        os.environ.update(request["environment"])
        connection.sendall(_STARTED)
        threading.Thread(target=_obey, args=(connection,), daemon=True).start()
        status = _status(main, request["arguments"])
    except BaseException:
        traceback.print_exc()
    finally:
        try:
            sys.stdout.flush()
            sys.stderr.flush()
            connection.sendall(_EXIT.pack(b"e", status))
        finally:
            os._exit(status)  # the interpreter's own end belongs to the process copied


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


def _status(main: Callable[[list[str]], None], arguments: list[str]) -> int:
    """Returns the exit status of a step, which may end in `sys.exit`."""
    try:
        main(arguments)
    except SystemExit as end:
        if isinstance(end.code, str):
            print(end.code, file=sys.stderr)
            return 1
        return end.code or 0
    return 0


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
