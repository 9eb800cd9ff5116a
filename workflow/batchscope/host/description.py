"""The machine that a number was made on, as it is recorded beside the number."""

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
    found = {"python": platform.python_version()}
    for package in PACKAGES:
        with contextlib.suppress(metadata.PackageNotFoundError):
            found[package] = metadata.version(package)
    return found


def describe() -> dict[str, Any]:
    """Returns what this machine is: CPU, cores, memory in GiB, GPUs, clocks in MHz, system."""
    cpu, frequency = platform.processor() or platform.machine(), psutil.cpu_freq()
    with contextlib.suppress(OSError):
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
        models = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
        cpu = models[0] if models else cpu
    return {
        "cpu": cpu,
        # A virtual machine may report no highest clock.
        **({"cpu_max_mhz": frequency.max} if frequency and frequency.max else {}),
        "cores": psutil.cpu_count(logical=False),
        "logical_cores": psutil.cpu_count(logical=True),
        "usable_cores": requirements.cores(),
        "memory_gb": round(psutil.virtual_memory().total / 2**30, 1),
        **_gpus(),
        "platform": platform.platform(),
    }


def load() -> dict[str, float | None]:
    """Returns how busy the machine is: 1-minute load average and CPU frequency in MHz."""
    frequency = psutil.cpu_freq()
    return {
        "load_average": os.getloadavg()[0],
        "cpu_mhz": frequency.current if frequency else None,
    }


def _gpus() -> dict[str, list]:
    """Returns the NVIDIA GPUs, through NVML: names, and where there are any cores and clocks.

    A list has an item for each GPU; None is what a driver does not report.
    """
    import pynvml as nvml

    with contextlib.suppress(nvml.NVMLError), contextlib.ExitStack() as opened:
        nvml.nvmlInit()
        opened.callback(nvml.nvmlShutdown)
        handles = [nvml.nvmlDeviceGetHandleByIndex(i) for i in range(nvml.nvmlDeviceGetCount())]
        found: dict[str, list] = {"gpu": [str(nvml.nvmlDeviceGetName(each)) for each in handles]}
        for handle in handles:
            for name, ask, arguments in (
                ("gpu_cores", nvml.nvmlDeviceGetNumGpuCores, ()),
                ("gpu_max_mhz", nvml.nvmlDeviceGetMaxClockInfo, (nvml.NVML_CLOCK_SM,)),
            ):
                answers = found.setdefault(name, [])
                answers.append(None)
                with contextlib.suppress(nvml.NVMLError):
                    answers[-1] = ask(handle, *arguments)
        return found
    return {"gpu": []}
