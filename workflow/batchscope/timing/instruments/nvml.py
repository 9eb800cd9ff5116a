"""Readings of a GPU through NVML.

Source: NVML API Reference Guide; CUDA C++ Programming Guide, CUDA_VISIBLE_DEVICES.
"""

import contextlib
import math
import os
from collections.abc import Callable
from typing import Any

import pynvml

from batchscope.timing.instruments.processes import MEGABYTE
from batchscope.timing.instruments.samples import GPU_COLUMNS


def physical_gpu(visible: str | None, gpu: int, count: int) -> int | None:
    """Return the machine's index of a GPU that this process sees under an index.

    Args:
        visible: CUDA_VISIBLE_DEVICES, indices separated by commas.
        count: GPUs of the machine.
    """
    indices = range(count)
    if visible is not None:
        indices = [int(entry) for entry in visible.split(",") if entry.strip().isdecimal()]
    return indices[gpu] if gpu < len(indices) and indices[gpu] < count else None


# Function of NVML -> conversion of its result to columns.
_READINGS: dict[str, Callable[[Any], dict[str, float]]] = {
    "nvmlDeviceGetUtilizationRates": lambda rates: {
        "gpu_percent": float(rates.gpu),
        "gpu_bandwidth_percent": float(rates.memory),
    },
    "nvmlDeviceGetMemoryInfo": lambda memory: {"gpu_memory_mb": memory.used / MEGABYTE},
    "nvmlDeviceGetPowerUsage": lambda milliwatts: {"gpu_power_watts": milliwatts / 1000},
    "nvmlDeviceGetTotalEnergyConsumption": lambda mj: {"gpu_energy_joules": mj / 1000},
}


class Gpu:
    """One GPU, by its index among the GPUs that the process sees.

    Readings that the GPU does not support are NaN. NVML closes when the process ends.

    Raises:
        pynvml.NVMLError: If NVML does not work.
        LookupError: If the process sees no GPU of this index.
    """

    def __init__(self, gpu: int) -> None:
        pynvml.nvmlInit()
        count, visible = pynvml.nvmlDeviceGetCount(), os.environ.get("CUDA_VISIBLE_DEVICES")
        index = physical_gpu(visible, gpu, count)
        if index is None:
            raise LookupError(
                f"gpu: received {gpu}; an index of the GPUs that this process sees is expected: "
                f"CUDA_VISIBLE_DEVICES is {visible!r}, and the machine has {count}."
            )
        self._handle = handle = pynvml.nvmlDeviceGetHandleByIndex(index)
        name, uuid = pynvml.nvmlDeviceGetName(handle), pynvml.nvmlDeviceGetUUID(handle)
        self.device = {"name": str(name), "uuid": str(uuid)}

    def read(self) -> list[float]:
        """Return the values of `samples.GPU_COLUMNS` now, NaN if unknown."""
        readings = dict.fromkeys(GPU_COLUMNS, math.nan)
        for name, columns in _READINGS.items():
            # An error, such as a timeout, costs one sample and not the training.
            with contextlib.suppress(pynvml.NVMLError):
                readings |= columns(getattr(pynvml, name)(self._handle))
        return list(readings.values())
