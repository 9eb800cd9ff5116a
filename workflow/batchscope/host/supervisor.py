"""Run a user's command, then end every process that it started and send its status to the job.

The supervisor is a process between a job and the command. It is a subreaper: a process that the
command leaves behind becomes its child. Its standard input is a socket to the job. A byte that
arrives is a signal for all processes of the command; when the socket closes, they are killed. After
the command's end the supervisor kills the remaining processes and sends a line of JSON to the job.
It does not import batchscope, so that the command's environment variables may be set.
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

_PR_SET_PDEATHSIG, _PR_SET_CHILD_SUBREAPER = 1, 36  # options of prctl(2)


def become_subreaper() -> None:
    ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1)


def set_parent_death_signal(parent: int | None = None) -> None:
    """Let the kernel kill this process when the thread that started it ends.

    Args:
        parent: Expected process id of the parent; with another parent, end this process now.
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
        with contextlib.suppress(ChildProcessError):
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        time.sleep(0.01)


def main(command: list[str]) -> None:
    become_subreaper()
    job = socket.socket(fileno=os.dup(0))
    for signum in (signal.SIGTERM, signal.SIGINT):  # the job passes them on
        signal.signal(signum, signal.SIG_IGN)
    start = time.monotonic()
    pid = os.fork()
    if pid == 0:
        _run_command(command)
    end_event, signals = os.pidfd_open(pid), []
    while end_event not in select.select([end_event, job], [], [])[0]:
        if not (signum := job.recv(1)):
            kill_descendants()
            return
        signals += signum
        _signal_descendants(signum[0])
    _, status, _ = os.wait4(pid, 0)
    seconds = time.monotonic() - start
    kill_descendants()
    answer = {
        "status": os.waitstatus_to_exitcode(status),  # -n if signal n ended it
        "signals": signals,
        "seconds": seconds,
        # Peak memory of the largest process.
        "largest_mb": resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss * 1024 / 10**6,
    }
    with contextlib.suppress(OSError):  # the job may have ended
        job.sendall(json.dumps(answer).encode() + b"\n")


def _run_command(command: list[str]) -> None:
    set_parent_death_signal()
    prefer_for_oom_kill()
    # Python ignores the last two, which would otherwise keep `yes | head` from ending.
    for signum in (signal.SIGTERM, signal.SIGINT, signal.SIGPIPE, signal.SIGXFSZ):
        signal.signal(signum, signal.SIG_DFL)
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    try:
        os.execvp(command[0], command)
    except OSError as error:
        os.write(2, f"{command[0]}: {error.strerror}\n".encode())
        os._exit(127)


if __name__ == "__main__":
    main(sys.argv[1:])
