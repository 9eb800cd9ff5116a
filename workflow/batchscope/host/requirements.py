"""Check whether this machine has the files, GPU and cores that a training, timing or command needs.

A missing requirement is found when planning and shown with its fix. Jobs that need it are left out
without a record, so that the same command runs them once the requirement is met.
"""

import os
import shutil
from pathlib import Path
from typing import Any, NamedTuple

from batchscope.core.errors import UserError

# This variable is `true` if Snakemake's options include GPUs, as in a cluster's profile. Then other
# machines run the jobs.
REMOTE_GPUS_VARIABLE = "BATCHSCOPE_GPUS"

# Statuses of a job with a missing requirement, and their words.
NOT_INSTALLED = "not_installed"
NO_GPU = "no_gpu"
NO_CORES = "no_cores"
LABELS = {NOT_INSTALLED: "not installed", NO_GPU: "no GPU", NO_CORES: "too few cores"}


def label(status: str) -> str:
    return LABELS.get(status, status.replace("_", " "))


def label_count(status: str, count: int) -> str:
    """Return `18 left out (no GPU)`, or `2 diverged` for a status of a finished job."""
    text = f"left out ({LABELS[status]})" if status in LABELS else label(status)
    return f"{count} {text}"


class MissingRequirement(NamedTuple):
    """A requirement that this machine does not meet."""

    status: str  # status of the jobs that need it
    title: str
    fix: str


GPU = MissingRequirement(
    NO_GPU,
    "No NVIDIA GPU",
    "run it on a machine that has one, with its driver and tensorflow[and-cuda], or with --profile "
    "slurm; or set device: cpu (for a command, resources: {gpu: 0})",
)


def missing(factors: dict[str, Any]) -> MissingRequirement | None:
    """Return the first requirement that this machine does not meet.

    Args:
        factors: Factors of a training or a timing, or the `needs` of a command's run.
    """
    threads = factors["threads"]
    for path in factors.get("requires", ()):
        if not os.path.exists(path):
            title = f"Not installed: {os.path.relpath(path)}"
            return MissingRequirement(NOT_INSTALLED, title, "install or create it")
    if os.environ.get(REMOTE_GPUS_VARIABLE) == "true":
        return None
    if factors["device"] == "gpu" and not has_gpu():
        return GPU
    if threads > (cores := usable_cores()):
        received = f"received {threads}, more than the cores that may be used here ({cores})"
        fix = "run it on a machine that has as many, or with --profile slurm; or set fewer threads"
        return MissingRequirement(NO_CORES, f"threads: {received}", fix)
    return None


def usable_cores() -> int:
    return len(os.sched_getaffinity(0))


def check_threads(threads: int) -> None:
    """Raise `UserError` for more threads than the job's cores, where threads would take turns."""
    if threads > (cores := usable_cores()):
        raise UserError(
            f"threads: received {threads}; at most {cores} are expected, the cores that the job "
            "may use here."
        )


def has_gpu() -> bool:
    return Path("/proc/driver/nvidia/version").exists() or shutil.which("nvidia-smi") is not None
