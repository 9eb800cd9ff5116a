"""Measure CPU time and memory of this process, of the machine, and of a process tree.

The kernel counts the memory peaks: proc(5), /proc/[pid]/clear_refs and /proc/[pid]/status. Memory
is in MB of 10^6 bytes.
"""

import contextlib
import math
import time
from pathlib import Path
from typing import NamedTuple

import psutil

MEGABYTE = 10**6
# User and nice contain the time of guests.
_UNCOUNTED = {"idle", "iowait", "guest", "guest_nice"}
_CLEAR_REFS = Path("/proc/self/clear_refs")
_RESET_PEAK = "5"


class CpuReading(NamedTuple):
    """A clock and two counters of CPU time, in seconds; only differences have a meaning."""

    seconds: float  # elapsed time
    process: float  # CPU time of this process without its children
    machine: float  # CPU time of the machine, including time that a hypervisor took


def cpu_times() -> CpuReading:
    """Read the counters of this process and of the machine, in about 50 microseconds.

    The machine's counter may advance in ticks of 10 ms per core. Over a block of a quarter of a
    second, the foreign cores are therefore accurate to a few hundredths.
    """
    times = psutil.cpu_times()._asdict()
    machine = sum(value for name, value in times.items() if name not in _UNCOUNTED)
    return CpuReading(time.monotonic(), time.process_time(), machine)


def foreign_cores(before: CpuReading, after: CpuReading) -> float:
    """Return the mean number of cores that other processes used between two readings, at least 0.

    Other processes include the children of this process, and other guests of a virtual machine
    while they delay this machine.
    """
    seconds, process, machine = (end - start for start, end in zip(before, after, strict=True))
    return max(0.0, (machine - process) / seconds) if seconds > 0 else 0.0


def reset_peak_memory() -> bool:
    """Restart the count of `peak_memory`; return whether the system allows that."""
    try:
        _CLEAR_REFS.write_text(_RESET_PEAK, encoding="ascii")
    except OSError:
        return False
    return True


def peak_memory() -> float:
    """Return the peak resident memory of this process; the kernel counts units of 1024 bytes."""
    lines = Path("/proc/self/status").read_text(encoding="utf-8").splitlines()
    (number,) = (line.split()[1] for line in lines if line.startswith("VmHWM:"))
    return int(number) * 1024 / MEGABYTE


class Usage(NamedTuple):
    """CPU time so far and current memory of processes; NaN without processes."""

    cpu_seconds: float = math.nan
    memory_mb: float = math.nan  # resident memory


class ProcessTree:
    """A process and its descendants; empty once the exit status of the process is collected."""

    def __init__(self, pid: int) -> None:
        self._parent = psutil.Process(pid)

    def members(self) -> list[psutil.Process]:
        with contextlib.suppress(psutil.Error):
            if self._parent.is_running():
                return [self._parent, *self._parent.children(recursive=True)]
        return []

    def usage(self) -> Usage:
        """Return the total CPU time and memory.

        The CPU time includes descendants that have ended, once their parents waited for them. It
        advances in ticks, mostly of 10 ms. Memory that forked processes share counts once, by their
        proportional shares.
        """
        members = self.members()
        seconds, bytes_used = [], []
        for member in members:
            with contextlib.suppress(psutil.Error):
                seconds.append(sum(member.cpu_times()[:4]))  # including the children's
                # A single process shares no memory, and the kernel needs longer for the shares.
                is_single = len(members) == 1
                used = member.memory_info().rss if is_single else member.memory_full_info().pss
                bytes_used.append(used)
        return Usage(sum(seconds), sum(bytes_used) / MEGABYTE) if bytes_used else Usage()

    def kill(self) -> None:
        for member in self.members():
            with contextlib.suppress(psutil.Error):
                member.kill()
