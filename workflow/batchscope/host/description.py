"""Describe this machine and the versions of packages, for the records."""

import contextlib
import platform
from importlib import metadata
from pathlib import Path
from typing import Any

import psutil

from batchscope.host import requirements

PACKAGES = ("tensorflow", "keras", "numpy", "scipy", "snakemake")


def versions() -> dict[str, str]:
    numbers = {"python": platform.python_version()}
    for package in PACKAGES:
        with contextlib.suppress(metadata.PackageNotFoundError):
            numbers[package] = metadata.version(package)
    return numbers


def describe() -> dict[str, Any]:
    """Return the CPU, cores, memory in GiB, NVIDIA GPUs and system of this machine."""
    cpu = platform.processor() or platform.machine()
    with contextlib.suppress(OSError):
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
        models = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
        cpu = models[0] if models else cpu
    return {
        "cpu": cpu,
        "cores": psutil.cpu_count(logical=False),
        "usable_cores": requirements.usable_cores(),
        "memory_gb": round(psutil.virtual_memory().total / 2**30, 1),
        "gpu": _gpu_names(),
        "platform": platform.platform(),
    }


def _gpu_names() -> list[str]:
    import pynvml as nvml

    with contextlib.suppress(nvml.NVMLError):
        nvml.nvmlInit()
        handles = map(nvml.nvmlDeviceGetHandleByIndex, range(nvml.nvmlDeviceGetCount()))
        return [str(nvml.nvmlDeviceGetName(handle)) for handle in handles]
    return []
