"""Describe this machine, its current load and the versions of packages, for the records."""

import contextlib
import os
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
    """Return the CPU, cores, memory in GiB, GPUs, clocks in MHz and system of this machine."""
    cpu, frequency = platform.processor() or platform.machine(), psutil.cpu_freq()
    with contextlib.suppress(OSError):
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
        models = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
        cpu = models[0] if models else cpu
    return {
        "cpu": cpu,
        # A virtual machine may not report the highest clock.
        **({"cpu_max_mhz": frequency.max} if frequency and frequency.max else {}),
        "cores": psutil.cpu_count(logical=False),
        "logical_cores": psutil.cpu_count(logical=True),
        "usable_cores": requirements.usable_cores(),
        "memory_gb": round(psutil.virtual_memory().total / 2**30, 1),
        **_describe_gpus(),
        "platform": platform.platform(),
    }


def current_load() -> dict[str, float | None]:
    """Return the 1-minute load average and the CPU frequency in MHz."""
    frequency = psutil.cpu_freq()
    return {
        "load_average": os.getloadavg()[0],
        "cpu_mhz": frequency.current if frequency else None,
    }


def _describe_gpus() -> dict[str, list]:
    """Return the names, cores and highest clocks in MHz of the NVIDIA GPUs, through NVML.

    Each list has one item per GPU, None if the driver does not report the value.
    """
    import pynvml as nvml

    with contextlib.suppress(nvml.NVMLError), contextlib.ExitStack() as opened:
        nvml.nvmlInit()
        opened.callback(nvml.nvmlShutdown)
        handles = [nvml.nvmlDeviceGetHandleByIndex(i) for i in range(nvml.nvmlDeviceGetCount())]
        gpus: dict[str, list] = {"gpu": [str(nvml.nvmlDeviceGetName(gpu)) for gpu in handles]}
        for name, query, arguments in (
            ("gpu_cores", nvml.nvmlDeviceGetNumGpuCores, ()),
            ("gpu_max_mhz", nvml.nvmlDeviceGetMaxClockInfo, (nvml.NVML_CLOCK_SM,)),
        ):
            gpus[name] = [None] * len(handles)
            for index, handle in enumerate(handles):
                with contextlib.suppress(nvml.NVMLError):
                    gpus[name][index] = query(handle, *arguments)
        return gpus
    return {"gpu": []}
