"""The memory control groups that this process is in: their limits, and kills for memory.

The kernel counts the processes that it kills for memory: of a control group, and of the whole
machine. A process that ended by SIGKILL while its control group's count rose is taken to be one
of them. Jobs in one control group share its count and its limit: another kill at the same moment
cannot be distinguished.

Sources: the kernel's documentation, admin-guide/cgroup-v2.rst and cgroup-v1/memory.rst.
"""

import contextlib
import os
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

OWN = Path("/proc/self/cgroup")
ROOT = Path("/sys/fs/cgroup")
VMSTAT = Path("/proc/vmstat")


class _Place(NamedTuple):
    """Where the kernel keeps a number: a file that holds it alone, or a line `name number`."""

    file: str
    name: str = ""


# Places in version 1 and in version 2; refusals are how often a group's own limit was met.
_LIMIT = _Place("memory.limit_in_bytes"), _Place("memory.max")
_USED = _Place("memory.usage_in_bytes"), _Place("memory.current")
_CACHE = _Place("memory.stat", "total_inactive_file"), _Place("memory.stat", "inactive_file")
_KILLS = _Place("memory.oom_control", "oom_kill"), _Place("memory.events", "oom_kill")
_REFUSALS = _Place("memory.failcnt"), _Place("memory.events.local", "oom")


_HELD = 0.25  # of the memory: there are others, and what is computed of it


@dataclass(frozen=True)
class Group:
    """One control group."""

    folder: Path
    version: int  # 1 or 2

    def number(self, places: tuple[_Place, _Place]) -> int | None:
        """Returns what the kernel says of it; None where it says nothing."""
        return _read(self.folder, places[self.version - 1])

    def limit(self) -> int | None:
        limit = self.number(_LIMIT)
        # Version 1 has the largest number of pages for no limit.
        return None if limit is None or limit >= 1 << 60 else limit

    def left(self) -> int | None:
        """Returns the bytes that they may still have, with the cache that is given up first."""
        limit, used = self.limit(), self.number(_USED)
        if limit is None or used is None:
            return None
        return max(0, limit - max(0, used - (self.number(_CACHE) or 0)))


def own() -> list[Group]:
    """Returns the groups of this process, its own first, then those above it."""
    found = []
    with contextlib.suppress(OSError):
        for line in OWN.read_text(encoding="utf-8").splitlines():
            _, controllers, path = line.split(":", 2)
            if not controllers:
                top, version = ROOT, 2
            elif "memory" in controllers.split(","):
                top, version = ROOT / "memory", 1
            else:
                continue
            # A container sees its own group as the root, whatever its path says.
            group = top / path.strip("/")
            above = [group, *group.parents]
            folders = above[: above.index(top) + 1]
            found += [Group(folder, version) for folder in folders if folder.is_dir()]
    return found


@dataclass(frozen=True)
class Counts:
    """What the kernel has counted so far."""

    kills: int | None  # for memory; None where it does not say
    refusals: dict[Group, int]  # control group -> times that its limit was met


def count() -> Counts:
    """Reads the counts: of this process's control group, or else of the whole machine."""
    groups = own()
    kills = [found for group in groups if (found := group.number(_KILLS)) is not None]
    kills = kills or [_read(VMSTAT.parent, _Place(VMSTAT.name, "oom_kill"))]
    return Counts(kills[0], {group: group.number(_REFUSALS) or 0 for group in groups})


def limit_met(before: Counts) -> float | None:
    """Returns the limit at which the kernel killed a process since then, in MB; None if at none.

    That of a control group, or the machine's memory.
    """
    now = count()
    if before.kills is None or now.kills is None or now.kills <= before.kills:
        return None
    met = [of for of, times in now.refusals.items() if times > before.refusals.get(of, 0)]
    return limit_mb(met)


def limit_mb(groups: list[Group] | None = None) -> float:
    """Returns the smallest limit of groups, this process's own by default, in MB.

    The machine's memory where there is none.
    """
    limits = [group.limit() for group in (own() if groups is None else groups)]
    total = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    return min([total, *(limit for limit in limits if limit is not None)]) / 10**6


def most_held() -> float:
    """Returns the bytes of the largest array that is held in memory; others stay on the disk."""
    return _HELD * limit_mb() * 10**6


def _read(folder: Path, place: _Place) -> int | None:
    """Returns one of the kernel's numbers; None where it does not say, or for `max`."""
    with contextlib.suppress(OSError, ValueError, KeyError):
        text = (folder / place.file).read_text(encoding="utf-8")
        return int(dict(map(str.split, text.splitlines()))[place.name] if place.name else text)
    return None
