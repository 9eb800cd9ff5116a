"""The memory control groups that this process is in: their limits, and kills for memory.

The kernel counts the processes that it kills for memory: of a control group, and of the whole
machine. A process that ended by SIGKILL while its control group's count rose is taken to be one
of them. Jobs in one control group share its count and its limit: another kill at the same moment
cannot be distinguished.

Sources: the kernel's documentation, admin-guide/cgroup-v2.rst and cgroup-v1/memory.rst.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

OWN = Path("/proc/self/cgroup")
ROOT = Path("/sys/fs/cgroup")
VMSTAT = Path("/proc/vmstat")


@dataclass(frozen=True)
class Group:
    """One control group."""

    folder: Path
    version: int  # 1 or 2

    def limit(self) -> int | None:
        """Returns the bytes that its processes may have together; None for no limit."""
        limit = self._number("memory.max" if self.version == 2 else "memory.limit_in_bytes")
        # Version 1 has the largest number of pages for no limit.
        return None if limit is None or limit >= 1 << 60 else limit

    def left(self) -> int | None:
        """Returns the bytes that they may still have, with the cache that is given up first."""
        used = self._number("memory.current" if self.version == 2 else "memory.usage_in_bytes")
        limit = self.limit()
        if limit is None or used is None:
            return None
        cache = "inactive_file" if self.version == 2 else "total_inactive_file"
        return max(0, limit - max(0, used - self._count("memory.stat", cache)))

    def kills(self) -> int | None:
        """Returns how many of its processes the kernel has killed for memory; None if unknown."""
        name = "memory.events" if self.version == 2 else "memory.oom_control"
        return _numbers(self.folder / name).get("oom_kill")

    def refusals(self) -> int:
        """Returns how often its own limit was met."""
        if self.version == 1:
            return self._number("memory.failcnt") or 0
        # Before Linux 5.2 there was one file, without the groups below.
        has_local = (self.folder / "memory.events.local").exists()
        return self._count("memory.events.local" if has_local else "memory.events", "oom")

    def _number(self, name: str) -> int | None:
        with contextlib.suppress(OSError, ValueError):
            return int((self.folder / name).read_text())
        return None

    def _count(self, file: str, name: str) -> int:
        return _numbers(self.folder / file).get(name, 0)


def own() -> list[Group]:
    """Returns the groups of this process, its own first, then those above it."""
    with contextlib.suppress(OSError):
        return list(_groups(OWN.read_text(encoding="utf-8")))
    return []


def _groups(text: str) -> Iterator[Group]:
    for line in text.splitlines():
        _, controllers, path = line.split(":", 2)
        if not controllers:
            top, version = ROOT, 2
        elif "memory" in controllers.split(","):
            top, version = ROOT / "memory", 1
        else:
            continue
        # A container sees its own group as the root, whatever its path says.
        own = top / path.strip("/")
        above = [own, *own.parents]
        for folder in above[: above.index(top) + 1]:
            if folder.is_dir():
                yield Group(folder, version)


@dataclass(frozen=True)
class Counts:
    """What the kernel has counted so far."""

    kills: int | None  # for memory; None where it does not say
    refusals: dict[Group, int]  # control group -> times that its limit was met


def count() -> Counts:
    """Reads the counts: of this process's control group, or else of the whole machine."""
    groups = own()
    kills = [found for group in groups if (found := group.kills()) is not None]
    kills = kills or [_numbers(VMSTAT).get("oom_kill")]
    return Counts(kills[0], {group: group.refusals() for group in groups})


def limit_met(before: Counts) -> float | None:
    """Returns the limit at which the kernel killed a process since then, in MB; None if at none.

    That of a control group, or the machine's memory.
    """
    now = count()
    if before.kills is None or now.kills is None or now.kills <= before.kills:
        return None
    return limit_mb(
        [of for of, times in now.refusals.items() if times > before.refusals.get(of, 0)]
    )


def limit_mb(groups: list[Group] | None = None) -> float:
    """Returns the smallest limit of groups, or else the machine's memory, in MB.

    Args:
        groups: This process's own where None.
    """
    limits = [group.limit() for group in (own() if groups is None else groups)]
    total = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    return min([total, *(limit for limit in limits if limit is not None)]) / 10**6


def _numbers(path: Path) -> dict[str, int]:
    """Returns the numbers of one of the kernel's files of lines `name number`; none without it."""
    with contextlib.suppress(OSError, ValueError):
        lines = [line.split() for line in path.read_text(encoding="utf-8").splitlines()]
        return {name: int(value) for name, value in lines}
    return {}
