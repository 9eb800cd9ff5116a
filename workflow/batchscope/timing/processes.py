"""CPU time and resident memory of another process, with its descendants."""

from __future__ import annotations

import contextlib
from typing import NamedTuple

import psutil

from batchscope.timing.peak_memory import MEGABYTE


class Usage(NamedTuple):
    """What processes have used so far, and what they hold.

    Args:
        cpu_seconds: CPU time of all their threads.
        memory_mb: Resident memory, 10^6 bytes.
    """

    cpu_seconds: float
    memory_mb: float


class Family:
    """A process and its descendants.

    Args:
        pid: The process. Where it has ended already, or has been waited for, there is none.
    """

    def __init__(self, pid: int) -> None:
        self._first: psutil.Process | None = None
        with contextlib.suppress(psutil.Error):
            self._first = psutil.Process(pid)

    def members(self) -> list[psutil.Process]:
        """Returns those that live, the process itself first; none where it has ended."""
        if self._first is None:
            return []
        try:
            return [self._first, *self._first.children(recursive=True)]
        except psutil.Error:
            return []

    def usage(self) -> Usage | None:
        """Returns the CPU time and the memory of all of them; None where the first has ended.

        The CPU time of descendants that have ended and were waited for is part of it; it advances
        in ticks, mostly of 10 ms. Memory that forked processes share is counted once, by their
        proportional shares. A process that is just starting another one is there twice, with the
        same memory whole: it is known by its size.
        """
        members = self.members()
        seconds, sizes = 0.0, {}
        for member in members:
            with contextlib.suppress(psutil.Error):
                times = member.cpu_times()
                seconds += times.user + times.system + times.children_user + times.children_system
                alone = len(members) == 1  # shares take the kernel longer to find out
                info = member.memory_info() if alone else member.memory_full_info()
                share = info.rss if alone else info.pss
                sizes[info.vms] = max(share, sizes.get(info.vms, 0))
        return Usage(seconds, sum(sizes.values()) / MEGABYTE) if sizes else None

    def end(self) -> None:
        """Ends all of them at once."""
        for member in self.members():
            with contextlib.suppress(psutil.Error):
                member.kill()
