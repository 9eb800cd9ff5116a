"""The warm process has TensorFlow imported; every local job is a fork of it.

Importing TensorFlow takes longer than many steps. On one machine the workflow therefore starts one
process that only imports: nothing of TensorFlow runs in it, so that it has no threads and can be
forked. Each job (`batchscope.host.job`) gets a copy, which ends with its step. Tables, figures and
the report have an address of their own, which answers once TensorFlow is imported.

When a job ends, so does its copy; when Snakemake ends, all do, whatever they are importing: its
project may be gone with it.
"""

import contextlib
import fcntl
import gc
import importlib
import json
import os
import select
import signal
import socket
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import NoReturn

from batchscope.host import interruption, job

_kept: list[subprocess.Popen] = []


def announce() -> None:
    os.environ[job.VARIABLE] = str(os.getpid())


def launch(code: Path) -> None:
    """Starts the process, which jobs ask by the Snakemake that they belong to.

    Args:
        code: The folder of batchscope.
    """
    announce()
    # Listening before it starts: the first jobs wait for the import in place of repeating it.
    try:
        listener = _listener(os.getpid(), job.TRAINING)
    except OSError:  # jobs import for themselves
        return
    with listener:
        program = "from batchscope.cli import entry; entry.serve()"
        command = [sys.executable, "-c", program, str(os.getpid()), str(listener.fileno())]
        # It lives as long as the pipe: until this process ends, however it ends.
        process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            env={**os.environ, "PYTHONPATH": str(code)},
            start_new_session=True,
            pass_fds=[listener.fileno()],
        )
    _kept.append(process)


def _listener(snakemake: int, imported: str) -> socket.socket:
    made = socket.socket(socket.AF_UNIX)
    made.bind(job.address(snakemake, imported))
    made.listen(1024)
    return made


def serve(
    main: job.Main,
    shared: Callable[[list[str]], bool],
    modules: tuple[str, ...],
    table_modules: tuple[str, ...],
) -> None:
    """Imports TensorFlow, then forks for each job, until standard input closes.

    Args:
        main: Runs a step.
        shared: Whether a step may run in a copy of this process.
        modules: Those of batchscope that steps have in common, to import after TensorFlow.
        table_modules: Those that tables, figures and the report have in common.
    """
    from batchscope.host import tensorflow_start

    # The system's signal that a pipe was closed ends this process, in the middle of an import too.
    fcntl.fcntl(sys.stdin, fcntl.F_SETOWN, os.getpid())
    fcntl.fcntl(sys.stdin, fcntl.F_SETFL, os.O_ASYNC)
    if select.select([sys.stdin], [], [], 0)[0]:  # closed before
        return
    interruption.stop_quietly()  # for the copies: Ctrl-C in a terminal does not reach this process
    # A scheduler signals all processes of a job; a copy is asked to stop by the job that it is of.
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    snakemake, descriptor = map(int, sys.argv[1:])
    listeners = [socket.socket(fileno=descriptor)]
    tensorflow_start.load()
    _import(modules)
    listeners.append(_listener(snakemake, job.TABLES))
    signal.signal(signal.SIGCHLD, _reap)
    while True:
        ready, _, _ = select.select([sys.stdin, *listeners], [], [])
        if sys.stdin in ready:  # never written to: it is closed
            return
        for listener in ready:
            if listener is listeners[1]:
                _import(table_modules)
            connection, _ = listener.accept()
            if os.fork() == 0:
                for each in listeners:
                    each.close()
                _work(connection, main, shared)
            connection.close()


def _reap(signum: int, frame: object) -> None:
    with contextlib.suppress(ChildProcessError):  # none is left
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass


def _import(modules: tuple[str, ...]) -> None:
    for module in modules:
        importlib.import_module(f"batchscope.{module}")
    gc.freeze()  # not to be searched, nor copied, in every copy


def _work(
    connection: socket.socket, main: job.Main, shared: Callable[[list[str]], bool]
) -> NoReturn:
    """Runs the step of a job, whose process is at the other end; ends this process."""
    with contextlib.suppress(OSError):  # the job has gone
        _, files, _, _ = socket.recv_fds(connection, 1, 2)
        request = json.loads(connection.makefile("rb").readline() or "{}")
        # Another Python is a conda environment of the job's own.
        served = request.get("python") == sys.prefix and job.same_user(connection)
        if served and shared(request["words"]):
            for file, own in zip(files, (1, 2), strict=True):
                os.dup2(file, own)
                os.close(file)
            os.chdir(request["folder"])
            os.environ.clear()
            os.environ.update(request["environment"])
            connection.sendall(job.STARTED)
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            status = job.run_copied(main, request["words"], connection)
            connection.sendall(job.END.pack(status))
    os._exit(0)
