"""Stands between a job and a command of the user's, so that nothing of the command outlives either.

A process of its own: what the command started and left becomes its child, and is found. Standard
input is a socket to the job: a byte that arrives is a signal for all of the command's processes,
which are killed when the job is no more. When the command has ended, so does whatever is left of
it, and the job receives a line of JSON. Nothing of batchscope is imported here.
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

_SECONDS = 10.0  # between two looks for adopted processes that have ended
# Of prctl(2).
_SET_PARENT_DEATH_SIGNAL, _SET_CHILD_SUBREAPER = 1, 36


def adopt() -> None:
    ctypes.CDLL(None).prctl(_SET_CHILD_SUBREAPER, 1)


def end_with_parent() -> None:
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_SET_PARENT_DEATH_SIGNAL, signal.SIGKILL)


def be_killed_first() -> None:
    """Make this process the kernel's first choice if memory runs out."""
    with contextlib.suppress(OSError):
        Path("/proc/self/oom_score_adj").write_text("1000")


def send(signum: int) -> bool:
    """Sends a signal to all descendants of this process; returns whether there are any."""
    members = psutil.Process().children(recursive=True)
    for member in members:
        with contextlib.suppress(psutil.Error):
            member.send_signal(signum)
    return bool(members)


def kill_all() -> None:
    while send(signal.SIGKILL):
        _bury()
        time.sleep(0.01)


def _bury(but: int = 0) -> None:
    """Waits for the children that have ended, but for one."""
    how = os.WEXITED | os.WNOHANG
    with contextlib.suppress(ChildProcessError):
        while (found := os.waitid(os.P_ALL, 0, how | os.WNOWAIT)) and found.si_pid != but:
            os.waitpid(found.si_pid, 0)


def main(words: list[str]) -> None:
    adopt()
    job = socket.socket(fileno=os.dup(0))
    for signum in (signal.SIGTERM, signal.SIGINT):  # the job passes on those that are meant
        signal.signal(signum, signal.SIG_IGN)
    begun = time.monotonic()
    pid = os.fork()
    if pid == 0:
        _become(words)
    ended, signals = os.pidfd_open(pid), []
    while ended not in (ready := select.select([ended, job], [], [], _SECONDS)[0]):
        _bury(but=pid)
        if ready and not (received := job.recv(1)):
            kill_all()
            return
        if ready:
            signals += received
            send(received[0])
    _, status, _ = os.wait4(pid, 0)
    seconds = time.monotonic() - begun
    kill_all()
    largest = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss
    said = {
        "status": os.waitstatus_to_exitcode(status),  # -n where signal n ended it
        "signals": signals,
        "seconds": seconds,
        "largest_mb": largest * 1024 / 10**6,  # of any one of its processes
    }
    with contextlib.suppress(OSError):  # the job has ended
        job.sendall(json.dumps(said).encode() + b"\n")


def _become(words: list[str]) -> None:
    end_with_parent()
    be_killed_first()
    for signum in (signal.SIGTERM, signal.SIGINT):
        signal.signal(signum, signal.SIG_DFL)
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    try:
        os.execvp(words[0], words)
    except OSError as error:
        os.write(2, f"{words[0]}: {error.strerror}\n".encode())
        os._exit(127)


if __name__ == "__main__":
    main(sys.argv[1:])
