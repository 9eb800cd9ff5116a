"""What processes use of the machine: this one, others, and another one with its descendants.

Peaks of memory are those that the kernel keeps: proc(5), /proc/[pid]/clear_refs and
/proc/[pid]/status. Memory is in MB of 10^6 bytes.
"""

import contextlib
import math
import time
from pathlib import Path
from typing import NamedTuple

import psutil

MEGABYTE = 10**6
_NOT_BUSY = {"idle", "iowait", "guest", "guest_nice"}  # user and nice contain the guests' time
_CLEAR_REFS = Path("/proc/self/clear_refs")
_RESET_PEAK = "5"


class Clock(NamedTuple):
    """Time that has passed, and core-seconds that were used so far, at one moment."""

    seconds: float
    process: float  # of this one without its children
    machine: float  # what a hypervisor took included


def cpu_times() -> Clock:
    """Returns the clocks of this process and the machine now, in some 50 microseconds.

    The machine's clock may advance in ticks of 10 ms per core, so that a block of a quarter of a
    second has others' cores to within a few hundredths.
    """
    times = psutil.cpu_times()._asdict()
    machine = sum(value for name, value in times.items() if name not in _NOT_BUSY)
    return Clock(time.monotonic(), time.process_time(), machine)


def foreign_cores(before: Clock, after: Clock) -> float:
    """Returns how many cores others kept busy, on average, between two readings; at least 0.

    Others are all processes but this one, its children among them, and, on a virtual machine,
    the machine's other guests as far as they held up this one.
    """
    seconds, own, machine = (end - start for start, end in zip(before, after, strict=True))
    return max(0.0, (machine - own) / seconds) if seconds > 0 else 0.0


def reset_peak_memory() -> bool:
    """Lets `peak_memory` count from now on; returns whether the system allows it."""
    try:
        _CLEAR_REFS.write_text(_RESET_PEAK, encoding="ascii")
    except OSError:
        return False
    return True


def peak_memory() -> float:
    return status_mb("VmHWM")


def status_mb(key: str) -> float:
    """Returns an entry of /proc/self/status, which is in units of 1024 bytes."""
    lines = Path("/proc/self/status").read_text(encoding="utf-8").splitlines()
    (number,) = (line.split()[1] for line in lines if line.startswith(f"{key}:"))
    return int(number) * 1024 / MEGABYTE


class Usage(NamedTuple):
    """What processes have used so far, and what they hold; NaN where unknown."""

    cpu_seconds: float = math.nan
    memory_mb: float = math.nan  # resident


class Family:
    """A process and its descendants; none where it has ended already, or has been waited for."""

    def __init__(self, pid: int) -> None:
        self._first: psutil.Process | None = None
        with contextlib.suppress(psutil.Error):
            self._first = psutil.Process(pid)

    def members(self) -> list[psutil.Process]:
        """Returns all of them, the process itself first; none once it has been waited for."""
        with contextlib.suppress(psutil.Error):
            if self._first is not None and self._first.is_running():
                return [self._first, *self._first.children(recursive=True)]
        return []

    def usage(self) -> Usage:
        """Returns the CPU time and the memory of all of them.

        Descendants that have ended and were waited for count too; the CPU time advances in ticks,
        mostly of 10 ms. What has ended holds no memory. Memory that forked processes share is
        counted once, by their proportional shares.
        """
        members = self.members()
        seconds: list[float] = []
        sizes: dict[int, tuple[int, int]] = {}  # of the address space, and the share of memory
        for member in members:
            with contextlib.suppress(psutil.Error):
                times = member.cpu_times()
                seconds += [times.user, times.system, times.children_user, times.children_system]
                alone = len(members) == 1  # shares take the kernel longer to find out
                info = member.memory_info() if alone else member.memory_full_info()
                if info.vms:  # a process that has ended has no more
                    sizes[member.pid] = info.vms, info.rss if alone else info.pss
        for member in members[1:]:
            with contextlib.suppress(psutil.Error):
                if member.pid in sizes and _is_starting(member, sizes):
                    del sizes[member.pid]
        held = sum(share for _, share in sizes.values()) / MEGABYTE
        return Usage(sum(seconds) if seconds else math.nan, held if sizes else math.nan)

    def end(self) -> None:
        for member in self.members():
            with contextlib.suppress(psutil.Error):
                member.kill()


def _is_starting(process: psutil.Process, sizes: dict[int, tuple[int, int]]) -> bool:
    """Returns whether a process still uses its parent's memory, between vfork and exec.

    Its share is the parent's, whole. The parent waits meanwhile, in the state of a disk's sleep.
    """
    parent = process.ppid()
    if parent not in sizes or sizes[parent][0] != sizes[process.pid][0]:
        return False
    return psutil.Process(parent).status() == psutil.STATUS_DISK_SLEEP
