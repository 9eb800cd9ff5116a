"""Memory limits of this process, kills by the kernel, and refusals of memory by an allocator.

The kernel counts its kills for memory per control group, or else for the whole machine. If this
count rose while a process ended by SIGKILL, the process counts as killed for memory, although
another may have been. The limit is the smallest one of the control groups and the machine.

Such a kill is a result, the status `out_of_memory`. A scheduler sets a limit per job: there the
first kill fails the job and leaves a note in the run's folder. The next job records the result if
it has no more memory; otherwise it trains.

Sources: the kernel's documentation, admin-guide/cgroup-v2.rst and cgroup-v1/memory.rst.
"""

import contextlib
import os
import re
from pathlib import Path
from typing import NamedTuple

from batchscope.core.errors import UserError

MESSAGE_LENGTH = 300  # largest number of characters of a message in a record
_ALLOCATOR_REFUSAL = re.compile(
    r"std::bad_alloc|MemoryError|ResourceExhausted|RESOURCE_EXHAUSTED|OOM when allocating"
    r"|CUDA_ERROR_OUT_OF_MEMORY|CUDNN_STATUS_ALLOC_FAILED|CUBLAS_STATUS_ALLOC_FAILED"
    r"|([Cc]an't|[Cc]annot) allocate memory|([Uu]nable|[Ff]ailed) to allocate"
    r"|out of memory|Memory allocation failed"
    r"|Operation received an exception:Status: 1, "  # oneDNN's dnnl_out_of_memory
)
_LOG_PREFIX = re.compile(r"^[IWEF]\d{4} [\d:.]+ +\d+ \S+\] |\{\{.*?\}\} ?")

KILL_NOTE = "memory_kill.json"
SCHEDULED_VARIABLE = "BATCHSCOPE_SCHEDULED"  # set in the jobs that a scheduler starts
GROUPS_FILE, CONTROLLERS_FOLDER = Path("/proc/self/cgroup"), Path("/sys/fs/cgroup")
VMSTAT_FILE = Path("/proc/vmstat")
_ARRAY_SHARE = 0.25  # maximum share of the memory; other processes need some too
# Version of control groups -> a file of a group, and the name of a line `name number` in it.
_LIMIT_FILES = {1: ("memory.limit_in_bytes", ""), 2: ("memory.max", "")}
_USAGE_FILES = {1: ("memory.usage_in_bytes", ""), 2: ("memory.current", "")}
_CACHE_FILES = {1: ("memory.stat", "total_inactive_file"), 2: ("memory.stat", "inactive_file")}
_KILL_COUNT_FILES = {1: ("memory.oom_control", "oom_kill"), 2: ("memory.events", "oom_kill")}


class ControlGroup(NamedTuple):
    """A control group of processes, which may limit memory."""

    folder: Path
    version: int

    def read(self, files: dict[int, tuple[str, str]]) -> int | None:
        file, name = files[self.version]
        return _read_number(self.folder / file, name)

    @property
    def limit(self) -> int | None:
        limit = self.read(_LIMIT_FILES)
        return None if limit is None or limit >= 1 << 60 else limit  # no limit in version 1

    @property
    def free(self) -> int | None:
        """Bytes up to the limit, including the cache that the kernel releases first."""
        limit, used = self.limit, self.read(_USAGE_FILES)
        if limit is None or used is None:
            return None
        return max(0, limit - max(0, used - (self.read(_CACHE_FILES) or 0)))


def control_groups() -> list[ControlGroup]:
    """Return the control groups of this process, innermost first."""
    groups = []
    with contextlib.suppress(OSError):
        for line in GROUPS_FILE.read_text(encoding="utf-8").splitlines():
            _, controllers, path = line.split(":", 2)
            if controllers and "memory" not in controllers.split(","):
                continue
            top = CONTROLLERS_FOLDER / "memory" if controllers else CONTROLLERS_FOLDER
            group = top / path.strip("/")
            parents = [group, *group.parents]
            # In a container the path may not exist, because the root is the container's group.
            folders = [folder for folder in parents[: parents.index(top) + 1] if folder.is_dir()]
            groups += [ControlGroup(folder, 1 if controllers else 2) for folder in folders]
    return groups


def kill_count() -> int | None:
    counts = [group.read(_KILL_COUNT_FILES) for group in control_groups()]
    counts.append(_read_number(VMSTAT_FILE, "oom_kill"))
    return next((count for count in counts if count is not None), None)


def limit_after_kill(earlier_count: int | None) -> float | None:
    """Return the limit in MB if the kernel has killed for memory since an earlier count."""
    count = kill_count()
    if earlier_count is None or count is None or count <= earlier_count:
        return None
    return limit_mb()


def limit_mb() -> float:
    total = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    return min(total, *(group.limit or total for group in control_groups()), total) / 10**6


def max_array_bytes() -> float:
    """Return the size in bytes above which an array stays on the disk."""
    return _ARRAY_SHARE * limit_mb() * 10**6


def record_or_retry(folder: Path, killed_at_mb: float | None) -> str | None:
    """Return the message for the record of a killed run; None if the run is to be trained.

    Args:
        folder: The run's folder.
        killed_at_mb: Memory limit of the training, if the kernel has just killed it for memory.

    Raises:
        UserError: If the training was just killed and a later job may have more memory.
    """
    from batchscope.core import disk

    note = folder / KILL_NOTE
    if SCHEDULED_VARIABLE in os.environ and killed_at_mb is not None:
        disk.write_json(note, {"limit_mb": killed_at_mb})
        raise UserError(
            f"{folder}: the kernel killed the training for memory (received at most "
            f"{killed_at_mb:.0f} MB). The next call of snakemake resumes from the checkpoint if "
            "its job has more memory; otherwise it records the run as out_of_memory."
        )
    if SCHEDULED_VARIABLE in os.environ and note.exists():
        earlier_mb = disk.read_json(note)["limit_mb"]
        killed_at_mb = earlier_mb if limit_mb() <= earlier_mb else None
    if killed_at_mb is None:
        return None
    return f"The kernel killed the training for memory; its limit was {killed_at_mb:.0f} MB."


def _read_number(path: Path, name: str) -> int | None:
    """Return the number in a file of the kernel, or in its line `name number`; None without it."""
    with contextlib.suppress(OSError, ValueError, KeyError):
        text = path.read_text(encoding="utf-8")
        return int(dict(map(str.split, text.splitlines()))[name] if name else text)
    return None


def error_refusal(error: BaseException | None) -> str | None:
    """Return the line of an error with an allocator's refusal; None without a refusal.

    While TensorFlow describes a refusal, a second refusal may raise an error of another kind. The
    first refusal is then the context of that error.
    """
    if error is None:
        return None
    # Some errors have no message, so the name of the type is part of the text.
    line = text_refusal(f"{error}\n{type(error).__name__}: {error}")
    return error_refusal(error.__context__) or line


def text_refusal(text: str) -> str | None:
    """Return the first line of a text with an allocator's refusal; None without a refusal."""
    for line in text.splitlines():
        # TensorFlow logs "not a failure" if another allocation then succeeded.
        if _ALLOCATOR_REFUSAL.search(line) and "not a failure" not in line:
            return _LOG_PREFIX.sub("", line).strip()[:MESSAGE_LENGTH]
    return None
