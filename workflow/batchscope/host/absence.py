"""What this machine lacks for a training, a timing or a command: a required file, a GPU, or cores.

It is found when planning and shown with its remedy. What waits for it is left out in place of
failing, and no record is stored, so that the same command makes it once it is there.
"""

import os
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from batchscope.errors import UserError

# `true` where Snakemake was given GPUs, as by a cluster's profile: jobs go to other machines.
VARIABLE = "BATCHSCOPE_GPUS"

# What stands as the status of what needs something that is not here.
NOT_INSTALLED = "not_installed"
NO_GPU = "no_gpu"
NO_CORES = "no_cores"
# For people.
WORDS = {NOT_INSTALLED: "not installed", NO_GPU: "no GPU", NO_CORES: "too few cores"}


def word(status: str) -> str:
    return WORDS.get(status, status.replace("_", " "))


def counted(status: str, count: int) -> str:
    """Returns `18 left out (no GPU)`, or of a status that runs reach `2 diverged`."""
    return f"{count} left out ({WORDS[status]})" if status in WORDS else f"{count} {word(status)}"


@dataclass(frozen=True)
class Absence:
    """Something that is not here."""

    status: str  # of what needs it
    title: str  # what is wrong, for people
    mend: str  # what to do about it, for people


GPU = Absence(
    NO_GPU,
    "No NVIDIA GPU",
    "run it on a machine that has one, with its driver and tensorflow[and-cuda], or with --profile "
    "slurm; or set device: cpu, of a command resources: {gpu: 0}",
)


def of(factors: dict[str, Any]) -> Absence | None:
    """Returns what a training, a timing or a command lacks here; None if nothing.

    Args:
        factors: Factors of a training or a timing, or the `needs` of a command's run.
    """
    threads = factors["threads"]
    for path in factors.get("requires", ()):
        if not os.path.exists(path):
            title = f"Not installed: {os.path.relpath(path)}"
            return Absence(NOT_INSTALLED, title, "install or create it")
    if os.environ.get(VARIABLE) == "true":  # a node decides
        return None
    if factors["device"] == "gpu" and not gpu_present():
        return GPU
    if threads > cores():
        received = f"received {threads}, more than the cores that may be used here ({cores()})"
        mend = "run it on a machine that has as many, or with --profile slurm; or set fewer threads"
        return Absence(NO_CORES, f"threads: {received}", mend)
    return None


def cores() -> int:
    return len(os.sched_getaffinity(0))


def check_threads(threads: int) -> None:
    """Refuses more threads than there are cores where the job runs: they would take turns."""
    if threads > cores():
        raise UserError(
            f"threads: received {threads}; at most {cores()} are expected, the cores that the job "
            "may use here."
        )


def gpu_present() -> bool:
    """Whether this machine shows an NVIDIA GPU, without asking a framework."""
    return Path("/proc/driver/nvidia/version").exists() or shutil.which("nvidia-smi") is not None
