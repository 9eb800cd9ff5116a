"""Run the jobs of one Snakemake as forks of one process that has TensorFlow imported.

TensorFlow's import takes longer than most steps. So Snakemake starts a fork server, which imports
TensorFlow without starting a thread, because only such a process can be forked. `launch` and
`serve` are the server's side. `run` is the job's side, which imports little besides this module.

Listening: the server has two abstract Unix sockets with Snakemake's process id in their names.
`training` accepts connections at once and answers after the import of TensorFlow. `tables` is for
steps without TensorFlow. It exists after that import; until then these jobs do their own imports.

Forking: a job sends its arguments, folder, environment, stdout and stderr. The server forks a child
that runs the step, and sends the child's exit status. Without a server the job forks itself. The
server refuses jobs of another Python, and steps with GPUs or several threads. The job passes SIGINT
and SIGTERM on to its step, which leads its own process group.

If a process is killed, other processes end with it:
- Snakemake: the server ends by the parent-death signal and because it watches Snakemake. The jobs
  end because they watch Snakemake. (The shell between them may live on.)
- The server: its steps end by the parent-death signal.
- A job: its step ends by the parent-death signal or because the connection to the step closes.
- A step: its parent kills its process group. Worker processes of a step set the parent-death signal
  too, because a step and its parent may be killed at once.
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
import struct
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

from batchscope.host import interruption, memory_limits

SNAKEMAKE_PID = "BATCHSCOPE_SNAKEMAKE_PID"  # environment variable of Snakemake's jobs
# Steps without TensorFlow. Other steps are known by their options --run and --timing.
TABLE_STEPS = frozenset({"tabulate", "claims", "figures", "interim", "report"})
_TRAINING_SOCKET, _TABLES_SOCKET = "training", "tables"
# The server answers with a step's process id, then with its exit status (-n after signal n).
_NUMBER = struct.Struct("!q")
# Signals that ask a process to stop, and their handlers in a step.
_STOP_SIGNALS = {signal.SIGTERM: signal.SIG_DFL, signal.SIGINT: interruption.stop}

Main = Callable[[list[str]], object]


class Step(NamedTuple):
    """A step that runs in another process for a job."""

    pid: int
    end_event: socket.socket | int  # readable when the step has ended: the server's answer, a pidfd

    def send_signal(self, signum: int) -> None:
        with contextlib.suppress(OSError):
            os.killpg(self.pid, signum)

    def wait(self, snakemake_pid: str) -> int:
        """Return the exit status; -n if signal n ended the step."""
        with forwarded_signals(self.send_signal):
            _wait_for(self.end_event, snakemake_pid, self.send_signal)
        if isinstance(self.end_event, int):
            return _reap(self.pid)
        status = _receive_number(self.end_event)
        return -signal.SIGKILL if status is None else status


def run(arguments: list[str], main: Main) -> object:
    """Run a command of the CLI; return its exit status.

    The command of a Snakemake job, and every training, runs in another process, which this process
    watches. If the kernel killed a training for memory, a second process records that.
    """
    interruption.install_handler()
    snakemake_pid = os.environ.pop(SNAKEMAKE_PID, "")  # processes that the step starts are no jobs
    is_training = arguments[:1] == ["train"]
    if not snakemake_pid and not is_training:
        return main(arguments)
    kills = memory_limits.kill_count()
    while True:
        step = request(arguments, snakemake_pid) or _fork()
        if step is None:
            return main(arguments)
        status = step.wait(snakemake_pid)
        limit_mb = memory_limits.limit_after_kill(kills)
        if not is_training or status != -signal.SIGKILL or limit_mb is None:
            break
        is_training, arguments = False, [*arguments, "--killed-at-mb", str(limit_mb)]
    if status >= 0:
        return status
    cause = "killed" if status == -signal.SIGKILL else f"ended by {signal.Signals(-status).name}"
    print(f"The step was {cause}.", file=sys.stderr)
    return 128 - status


def request(arguments: list[str], snakemake_pid: str) -> Step | None:
    """Ask the fork server to run a step; return None if it does not answer or refuses."""
    is_table = not TABLE_STEPS.isdisjoint(arguments[:1])
    if not snakemake_pid or not (is_table or {"--run", "--timing"}.intersection(arguments)):
        return None
    server = socket.socket(socket.AF_UNIX)
    with contextlib.suppress(OSError):
        server.connect(_address(snakemake_pid, _TABLES_SOCKET if is_table else _TRAINING_SOCKET))
        if is_same_user(server):
            job = {"arguments": arguments, "folder": os.getcwd(), "python": sys.prefix}
            job["environment"] = dict(os.environ)
            socket.send_fds(server, [b"-"], [sys.stdout.fileno(), sys.stderr.fileno()])
            server.sendall(json.dumps(job).encode() + b"\n")
            _wait_for(server, snakemake_pid)
            if (pid := _receive_number(server)) is not None:
                return Step(pid, server)
    server.close()
    return None


def _fork() -> Step | None:
    """Fork this process for a step; return None in the child."""
    parent = os.getpid()
    # No signal may arrive before its handler is set, in either process.
    signal.pthread_sigmask(signal.SIG_BLOCK, _STOP_SIGNALS)
    if pid := os.fork():
        with contextlib.suppress(OSError):  # the child did the same and has ended
            os.setpgid(pid, pid)
        return Step(pid, os.pidfd_open(pid))
    _become_step(parent)
    return None


def _become_step(parent: int) -> None:
    from batchscope.host import supervisor

    supervisor.set_parent_death_signal(parent)
    os.setpgid(0, 0)
    for signum, handler in _STOP_SIGNALS.items():
        signal.signal(signum, handler)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, _STOP_SIGNALS)


def _reap(pid: int) -> int:
    """Kill the rest of the process group of a step that ended; return the step's exit status."""
    with contextlib.suppress(OSError):
        os.killpg(pid, signal.SIGKILL)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def _wait_for(
    file: socket.socket | int, snakemake_pid: str, send: Callable[[int], None] = lambda signum: None
) -> None:
    """Wait until a file is readable; if Snakemake ends first, kill the step and this process."""
    with contextlib.suppress(ProcessLookupError):
        snakemake = [os.pidfd_open(int(snakemake_pid))] if snakemake_pid else []
        if file in select.select([file, *snakemake], [], [])[0]:
            return
    send(signal.SIGKILL)
    with contextlib.suppress(OSError):  # the reader of stderr may have ended with Snakemake
        print("Snakemake was killed, and this step with it.", file=sys.stderr, flush=True)
    os._exit(128 + signal.SIGKILL)


@contextlib.contextmanager
def forwarded_signals(send: Callable[[int], object]) -> Iterator[None]:
    """Pass on the signals that ask this process to stop."""

    def forward(signum: int, frame: object) -> None:
        with contextlib.suppress(OSError):  # the receiver has ended
            send(signum)

    handlers = {signum: signal.signal(signum, forward) for signum in _STOP_SIGNALS}
    signal.pthread_sigmask(signal.SIG_UNBLOCK, _STOP_SIGNALS)
    try:
        yield
    finally:
        for signum, handler in handlers.items():
            signal.signal(signum, handler)


def announce() -> None:
    """Let the jobs of this process end with it and use its fork server."""
    os.environ[SNAKEMAKE_PID] = str(os.getpid())


def launch(code: Path) -> None:
    """Start the fork server of this process, from its main thread.

    Args:
        code: Folder that contains the package batchscope.
    """
    import subprocess

    announce()
    try:
        listener = _listen(os.getpid(), _TRAINING_SOCKET)
    except OSError:
        return
    program = (
        "import sys; sys.path.insert(0, sys.argv[1]); from batchscope.cli import entry;"
        "sys.exit(entry.serve(*map(int, sys.argv[2:])))"
    )
    command = [sys.executable, "-c", program, str(code), str(os.getpid()), str(listener.fileno())]
    with listener:
        subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            start_new_session=True,
            pass_fds=[listener.fileno()],
        )


def serve(
    snakemake_pid: int,
    descriptor: int,
    can_share: Callable[[list[str]], bool],
    modules: tuple[str, ...],
    table_modules: tuple[str, ...],
) -> list[str]:
    """Run the fork server; return the arguments of a step in the child that has to run it.

    Args:
        descriptor: The listening socket `training`.
        can_share: Function that returns whether a step may run in a fork of this process.
        modules: Modules of batchscope to import after TensorFlow.
        table_modules: Modules to import before the first table, figure or report.
    """
    from batchscope.host import supervisor, tensorflow_start

    supervisor.set_parent_death_signal()
    snakemake = os.pidfd_open(snakemake_pid)  # fails if Snakemake has ended
    for signum in _STOP_SIGNALS:  # the steps get them from their jobs
        signal.signal(signum, signal.SIG_IGN)
    training = socket.socket(fileno=descriptor)
    tensorflow_start.import_keras()
    _import_modules(modules)
    tables = _listen(snakemake_pid, _TABLES_SOCKET)
    parent = os.getpid()
    steps: dict[int, tuple[int, socket.socket]] = {}  # pidfd -> process id, connection to the job
    while True:
        for ready in select.select([snakemake, training, tables, *steps], [], [])[0]:
            if ready == snakemake:
                os._exit(0)
            if ready in steps:
                pid, job = steps.pop(ready)
                os.close(ready)
                with job, contextlib.suppress(OSError):  # the job may have ended
                    job.sendall(_NUMBER.pack(_reap(pid)))
                continue
            if ready is tables:
                _import_modules(table_modules)
            job, _ = ready.accept()
            if pid := os.fork():
                steps[os.pidfd_open(pid)] = pid, job
                continue
            for server_socket in (training, tables, *(other for _, other in steps.values())):
                server_socket.close()
            _become_step(parent)
            return _read_request(job, can_share)


def _read_request(job: socket.socket, can_share: Callable[[list[str]], bool]) -> list[str]:
    """Take over a job's streams, folder and environment; return its arguments, or refuse it."""
    with contextlib.suppress(OSError, ValueError):
        _, files, _, _ = socket.recv_fds(job, 1, 2)
        with job.makefile("rb") as stream:
            request = json.loads(stream.readline())
        same_python = request["python"] == sys.prefix
        if is_same_user(job) and same_python and can_share(request["arguments"]):
            for file, stream_number in zip(files, (1, 2), strict=True):
                os.dup2(file, stream_number)
                os.close(file)
            os.chdir(request["folder"])
            os.environ.clear()
            os.environ.update(request["environment"])
            # From now on, the kernel kills this process when the job closes the connection.
            fcntl.fcntl(job, fcntl.F_SETSIG, signal.SIGKILL)
            fcntl.fcntl(job, fcntl.F_SETOWN, os.getpid())
            fcntl.fcntl(job, fcntl.F_SETFL, fcntl.fcntl(job, fcntl.F_GETFL) | os.O_ASYNC)
            if not select.select([job], [], [], 0)[0]:  # the job had not closed it before
                job.sendall(_NUMBER.pack(os.getpid()))
                return request["arguments"]
    job.shutdown(socket.SHUT_RDWR)
    os._exit(0)


def _import_modules(modules: tuple[str, ...]) -> None:
    for module in modules:
        importlib.import_module(f"batchscope.{module}")
    gc.freeze()  # otherwise the garbage collector of a fork would copy the memory that it visits


def _address(snakemake_pid: int | str, name: str) -> str:
    return f"\0batchscope-{snakemake_pid}-{name}"


def _listen(snakemake_pid: int, name: str) -> socket.socket:
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(_address(snakemake_pid, name))
    listener.listen(1024)
    return listener


def is_same_user(connection: socket.socket) -> bool:
    peer = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i"))
    return struct.unpack("3i", peer)[1] == os.getuid()


def _receive_number(connection: socket.socket) -> int | None:
    with contextlib.suppress(OSError, struct.error):
        return _NUMBER.unpack(connection.recv(_NUMBER.size))[0]
    return None
