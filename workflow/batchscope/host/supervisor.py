"""Run a user's command in a process that ends everything that the command started.

The supervisor is a process between a job and the command. It is a subreaper: a process that the
command leaves behind becomes its child. Its standard input is a socket to the job. A byte that
arrives is a signal for all processes of the command; when the socket closes, they are killed. After
the command's end the supervisor kills the remaining processes and sends a line of JSON to the job.
It does not import batchscope, so that the command's own environment variables may be set.
"""

import contextlib
import ctypes
import json
import os
import resource
import select
import signal
import socket
import sys
import time
from pathlib import Path

import psutil

_SECONDS = 10.0  # between two searches for orphans that have ended
_PR_SET_PDEATHSIG, _PR_SET_CHILD_SUBREAPER = 1, 36  # of prctl(2)


def become_subreaper() -> None:
    ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1)


def set_parent_death_signal(parent: int | None = None) -> None:
    """Let the kernel kill this process when the thread that started it ends.

    Args:
        parent: The parent's process id, if this process should also end because it ended before.
    """
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if parent not in (None, os.getppid()):
        os.kill(os.getpid(), signal.SIGKILL)


def prefer_for_oom_kill() -> None:
    with contextlib.suppress(OSError):
        Path("/proc/self/oom_score_adj").write_text("1000")


def _signal_descendants(signum: int) -> bool:
    """Send a signal to all descendants of this process; return whether there are any."""
    descendants = psutil.Process().children(recursive=True)
    for process in descendants:
        with contextlib.suppress(psutil.Error):
            process.send_signal(signum)
    return bool(descendants)


def kill_descendants() -> None:
    while _signal_descendants(signal.SIGKILL):
        _reap_children()
        time.sleep(0.01)


def _reap_children(exception: int = 0) -> None:
    """Wait for the children that have ended, up to the one with the process id `exception`."""
    options = os.WEXITED | os.WNOHANG | os.WNOWAIT
    with contextlib.suppress(ChildProcessError):
        while (child := os.waitid(os.P_ALL, 0, options)) and child.si_pid != exception:
            os.waitpid(child.si_pid, 0)


def main(command: list[str]) -> None:
    become_subreaper()
    job = socket.socket(fileno=os.dup(0))
    for signum in (signal.SIGTERM, signal.SIGINT):  # the job passes them on
        signal.signal(signum, signal.SIG_IGN)
    begun = time.monotonic()
    pid = os.fork()
    if pid == 0:
        _run_command(command)
    ended, signals = os.pidfd_open(pid), []
    while ended not in (ready := select.select([ended, job], [], [], _SECONDS)[0]):
        _reap_children(exception=pid)
        if ready:
            if not (signum := job.recv(1)):
                kill_descendants()
                return
            signals += signum
            _signal_descendants(signum[0])
    _, status, _ = os.wait4(pid, 0)
    seconds = time.monotonic() - begun
    kill_descendants()
    answer = {
        "status": os.waitstatus_to_exitcode(status),  # -n if signal n ended it
        "signals": signals,
        "seconds": seconds,
        # The largest of its processes.
        "largest_mb": resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss * 1024 / 10**6,
    }
    with contextlib.suppress(OSError):  # the job has ended
        job.sendall(json.dumps(answer).encode() + b"\n")


def _run_command(command: list[str]) -> None:
    set_parent_death_signal()
    prefer_for_oom_kill()
    for signum in (signal.SIGTERM, signal.SIGINT):
        signal.signal(signum, signal.SIG_DFL)
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    try:
        os.execvp(command[0], command)
    except OSError as error:
        os.write(2, f"{command[0]}: {error.strerror}\n".encode())
        os._exit(127)


if __name__ == "__main__":
    main(sys.argv[1:])
