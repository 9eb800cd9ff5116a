"""The machine that a number was made on, as it is recorded beside the number."""

from __future__ import annotations

import os
import platform
from importlib import metadata
from pathlib import Path
from typing import Any

import psutil

PACKAGES = (
    *("tensorflow", "keras", "numpy", "scipy", "snakemake"),
    *("torch", "mxnet", "jax", "jaxlib"),
)


def versions() -> dict[str, str]:
    """Returns the versions of Python and of the packages that numbers depend on."""
    found = {"python": platform.python_version()}
    for package in PACKAGES:
        try:
            found[package] = metadata.version(package)
        except metadata.PackageNotFoundError:
            continue
    return found


def describe() -> dict[str, Any]:
    """Returns what this machine is: CPU, cores, memory, GPU, system."""
    return {
        "cpu": _cpu(),
        "cores": psutil.cpu_count(logical=False),
        "logical_cores": psutil.cpu_count(logical=True),
        "usable_cores": len(os.sched_getaffinity(0)),
        "memory_gb": round(psutil.virtual_memory().total / 2**30, 1),
        "gpu": gpus(),
        "platform": platform.platform(),
    }


def load() -> dict[str, float | None]:
    """Returns how busy the machine is: 1-minute load average and CPU frequency in MHz."""
    frequency = psutil.cpu_freq()
    return {
        "load_average": os.getloadavg()[0],
        "cpu_mhz": frequency.current if frequency else None,
    }


def _cpu() -> str:
    try:
        for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    except OSError:
        pass
    return platform.processor() or platform.machine()


def gpus() -> list[str]:
    """Returns the names of the NVIDIA GPUs, through NVML; empty where there is none."""
    import pynvml

    try:
        pynvml.nvmlInit()
    except pynvml.NVMLError:
        return []
    try:
        handles = [
            pynvml.nvmlDeviceGetHandleByIndex(index) for index in range(pynvml.nvmlDeviceGetCount())
        ]
        return [str(pynvml.nvmlDeviceGetName(handle)) for handle in handles]
    except pynvml.NVMLError:
        return []
    finally:
        pynvml.nvmlShutdown()
