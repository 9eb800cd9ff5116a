"""Memory limits of this process, and trainings that the kernel killed for memory.

The kernel counts its kills for memory per control group, or else for the whole machine. A process
that ended by SIGKILL while this count rose is taken for one of them; another kill at that moment
cannot be distinguished. The limit is the smallest one of the control groups and the machine.

Such a kill is a result, the status `out_of_memory`. A scheduler sets a limit per job: there the
first kill fails the job and leaves a note in the run's folder. The next job records the result if
it has no more memory; otherwise it trains.

Sources: the kernel's documentation, admin-guide/cgroup-v2.rst and cgroup-v1/memory.rst.
"""

import contextlib
import os
from pathlib import Path
from typing import NamedTuple

from batchscope.core.errors import UserError

NOTE = "memory_kill.json"
SCHEDULED = "BATCHSCOPE_SCHEDULED"  # environment variable of a job that a scheduler started
GROUPS, CONTROLLERS = Path("/proc/self/cgroup"), Path("/sys/fs/cgroup")
VMSTAT = Path("/proc/vmstat")
_LARGEST_ARRAY = 0.25  # share of the memory; other processes and results need some too
# File of a control group, and the line `name number` in it, by the version of control groups.
_LIMIT = {1: ("memory.limit_in_bytes", ""), 2: ("memory.max", "")}
_USED = {1: ("memory.usage_in_bytes", ""), 2: ("memory.current", "")}
_CACHE = {1: ("memory.stat", "total_inactive_file"), 2: ("memory.stat", "inactive_file")}
_KILLS = {1: ("memory.oom_control", "oom_kill"), 2: ("memory.events", "oom_kill")}


class ControlGroup(NamedTuple):
    """A control group that limits memory."""

    folder: Path
    version: int

    def read(self, files: dict[int, tuple[str, str]]) -> int | None:
        file, name = files[self.version]
        return _number(self.folder / file, name)

    @property
    def limit(self) -> int | None:
        limit = self.read(_LIMIT)
        return None if limit is None or limit >= 1 << 60 else limit  # version 1: no limit

    @property
    def free(self) -> int | None:
        """Bytes below the limit, including the cache that the kernel gives up first."""
        limit, used = self.limit, self.read(_USED)
        if limit is None or used is None:
            return None
        return max(0, limit - max(0, used - (self.read(_CACHE) or 0)))


def control_groups() -> list[ControlGroup]:
    """Return the control groups of this process, innermost first."""
    groups = []
    with contextlib.suppress(OSError):
        for line in GROUPS.read_text(encoding="utf-8").splitlines():
            _, controllers, path = line.split(":", 2)
            if controllers and "memory" not in controllers.split(","):
                continue
            top = CONTROLLERS / "memory" if controllers else CONTROLLERS
            group = top / path.strip("/")
            parents = [group, *group.parents]
            # In a container the path may not exist: its own group is the root.
            folders = [folder for folder in parents[: parents.index(top) + 1] if folder.is_dir()]
            groups += [ControlGroup(folder, 1 if controllers else 2) for folder in folders]
    return groups


def kill_count() -> int | None:
    """Return the kernel's number of kills for memory; None if it does not say."""
    kills = (group.read(_KILLS) for group in control_groups())
    return next((number for number in kills if number is not None), _number(VMSTAT, "oom_kill"))


def limit_met(before: int | None) -> float | None:
    """Return the limit in MB if the kernel has killed for memory since an earlier count."""
    now = kill_count()
    return limit_mb() if before is not None and now is not None and now > before else None


def limit_mb() -> float:
    total = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    return min(total, *(group.limit or total for group in control_groups()), total) / 10**6


def largest_array() -> float:
    """Return the bytes of the largest array to hold in memory; larger ones stay on the disk."""
    return _LARGEST_ARRAY * limit_mb() * 10**6


def record_or_retry(folder: Path, killed_at_mb: float | None) -> str | None:
    """Return the message for the record of a killed run; None if the run is to be trained.

    Args:
        folder: The run's folder.
        killed_at_mb: Memory limit of the training that the kernel has just killed, if it has.

    Raises:
        UserError: If the kernel has, and a later job may have more memory.
    """
    from batchscope.core import disk

    note = folder / NOTE
    if SCHEDULED in os.environ and killed_at_mb is not None:
        disk.write_json(note, {"limit_mb": killed_at_mb})
        raise UserError(
            f"{folder}: the kernel killed the training for memory (received at most "
            f"{killed_at_mb:.0f} MB). The next call of snakemake resumes from the checkpoint if "
            "its job has more memory; otherwise it records the run as out_of_memory."
        )
    if SCHEDULED in os.environ and note.exists():
        earlier_mb = disk.read_json(note)["limit_mb"]
        killed_at_mb = earlier_mb if limit_mb() <= earlier_mb else None
    if killed_at_mb is None:
        return None
    return f"The kernel killed the training for memory; its limit was {killed_at_mb:.0f} MB."


def _number(path: Path, name: str) -> int | None:
    """Return a number of the kernel's; None if the file or line is missing, or says `max`."""
    with contextlib.suppress(OSError, ValueError, KeyError):
        text = path.read_text(encoding="utf-8")
        return int(dict(map(str.split, text.splitlines()))[name] if name else text)
    return None
