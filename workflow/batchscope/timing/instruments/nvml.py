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

    Readings that the GPU does not support are NaN.

    Raises:
        pynvml.NVMLError: If NVML does not work.
        LookupError: If the process sees no GPU of this index.
    """

    def __init__(self, gpu: int) -> None:
        pynvml.nvmlInit()
        try:
            self._handle, uuid = self._find(gpu)
            self.device = {"name": str(pynvml.nvmlDeviceGetName(self._handle)), "uuid": uuid}
        except BaseException:
            pynvml.nvmlShutdown()
            raise
        self._supported = list(_READINGS)

    @staticmethod
    def _find(gpu: int) -> tuple[Any, str]:
        count, visible = pynvml.nvmlDeviceGetCount(), os.environ.get("CUDA_VISIBLE_DEVICES")
        index = physical_gpu(visible, gpu, count)
        if index is None:
            raise LookupError(
                f"gpu: received {gpu}; an index of the GPUs that this process sees is expected: "
                f"CUDA_VISIBLE_DEVICES is {visible!r}, and the machine has {count}."
            )
        handle = pynvml.nvmlDeviceGetHandleByIndex(index)
        return handle, str(pynvml.nvmlDeviceGetUUID(handle))

    def read(self) -> list[float]:
        """Return the values of `samples.GPU_COLUMNS` now, NaN if unknown."""
        readings = dict.fromkeys(GPU_COLUMNS, math.nan)
        for name in list(self._supported):
            # A temporary error, such as a timeout, costs one sample and not the training.
            with contextlib.suppress(pynvml.NVMLError):
                try:
                    readings |= _READINGS[name](getattr(pynvml, name)(self._handle))
                except (pynvml.NVMLError_NotSupported, pynvml.NVMLError_FunctionNotFound):
                    self._supported.remove(name)
        return list(readings.values())

    def close(self) -> None:
        with contextlib.suppress(pynvml.NVMLError):
            pynvml.nvmlShutdown()
