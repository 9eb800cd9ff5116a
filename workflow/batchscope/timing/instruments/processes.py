"""CPU time and resident memory of another process, with its descendants."""

from __future__ import annotations

import contextlib
import math
from typing import NamedTuple

import psutil

from batchscope.timing.instruments.units import MEGABYTE


class Usage(NamedTuple):
    """What processes have used so far, and what they hold."""

    cpu_seconds: float
    memory_mb: float  # resident, 10^6 bytes; NaN where it is unknown


class Family:
    """A process and its descendants; none where it has ended already, or has been waited for."""

    def __init__(self, pid: int) -> None:
        self._first: psutil.Process | None = None
        with contextlib.suppress(psutil.Error):
            self._first = psutil.Process(pid)

    def members(self) -> list[psutil.Process]:
        """Returns all of them, the process itself first; none once it has been waited for."""
        if self._first is None or not self._first.is_running():
            return []
        try:
            return [self._first, *self._first.children(recursive=True)]
        except psutil.Error:
            return []

    def usage(self) -> Usage | None:
        """Returns the CPU time and the memory of all of them; None where there is none.

        The CPU time of descendants that have ended and were waited for is part of it; it advances
        in ticks, mostly of 10 ms. What has ended holds no memory: that is NaN where all have.
        Memory that forked processes share is counted once, by their proportional shares.
        """
        members = self.members()
        seconds, known = 0.0, False
        sizes: dict[int, tuple[int, int]] = {}  # of the address space, and the share of memory
        for member in members:
            with contextlib.suppress(psutil.Error):
                times = member.cpu_times()
                seconds += times.user + times.system + times.children_user + times.children_system
                known = True
                alone = len(members) == 1  # shares take the kernel longer to find out
                info = member.memory_info() if alone else member.memory_full_info()
                if info.vms:  # a process that has ended has no more
                    sizes[member.pid] = info.vms, info.rss if alone else info.pss
        for member in members[1:]:
            with contextlib.suppress(psutil.Error):
                if member.pid in sizes and _is_starting(member, sizes):
                    del sizes[member.pid]
        held = sum(share for _, share in sizes.values()) / MEGABYTE if sizes else math.nan
        return Usage(seconds, held) if known else None

    def end(self) -> None:
        """Ends all of them at once."""
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
