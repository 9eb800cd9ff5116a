"""Readings of a GPU through NVML.

Source: NVML API Reference Guide; CUDA C++ Programming Guide, CUDA_VISIBLE_DEVICES.
"""

from __future__ import annotations

import contextlib
import math
import os
from collections.abc import Callable
from typing import Any

from batchscope.timing.instruments.processes import MEGABYTE
from batchscope.timing.instruments.samples import GPU_COLUMNS


def physical_gpu(visible: str | None, gpu: int, uuids: list[str]) -> int | str | None:
    """Returns the machine's GPU that a process sees under an index: its index, or a MIG's UUID.

    CUDA_VISIBLE_DEVICES, here `visible`, has indices, UUIDs or their unambiguous beginnings, up
    to the first that is none.
    """
    if visible is None:
        return gpu if gpu < len(uuids) else None
    seen: list[int | str] = []
    for entry in (part.strip() for part in visible.split(",")):
        if entry.startswith("MIG-"):
            seen.append(entry)
            continue
        if entry.isdecimal():
            matches = [int(entry)] if int(entry) < len(uuids) else []
        else:
            begins = [uuid.startswith(entry) for uuid in uuids]
            matches = [index for index, found in enumerate(begins) if found and entry]
        if len(matches) != 1:
            break
        seen.append(matches[0])
    return seen[gpu] if gpu < len(seen) else None


# Function of NVML -> its reading, by column.
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
    """One GPU, by its index among those that the process sees; what it does not support is NaN."""

    def __init__(self, gpu: int) -> None:
        import pynvml as nvml

        self._nvml = nvml
        nvml.nvmlInit()
        try:
            handle, self.name, self.uuid = self._find(gpu)
        except BaseException:
            nvml.nvmlShutdown()
            raise
        self._handle = handle
        self._supported = list(_READINGS)

    def _find(self, gpu: int) -> tuple[Any, str, str]:
        nvml = self._nvml
        handles = [nvml.nvmlDeviceGetHandleByIndex(i) for i in range(nvml.nvmlDeviceGetCount())]
        uuids = [str(nvml.nvmlDeviceGetUUID(handle)) for handle in handles]
        visible = os.environ.get("CUDA_VISIBLE_DEVICES")
        found = physical_gpu(visible, gpu, uuids)
        if found is None:
            raise LookupError(
                f"gpu: received {gpu}; an index of the GPUs that this process sees is expected: "
                f"CUDA_VISIBLE_DEVICES is {visible!r}, and the machine has {len(uuids)}."
            )
        if isinstance(found, str):
            handle, uuid = nvml.nvmlDeviceGetHandleByUUID(found), found
        else:
            handle, uuid = handles[found], uuids[found]
        return handle, str(nvml.nvmlDeviceGetName(handle)), uuid

    def read(self) -> list[float]:
        """Returns the values of `samples.GPU_COLUMNS` now, NaN where unknown."""
        found = dict.fromkeys(GPU_COLUMNS, math.nan)
        for name in list(self._supported):
            try:
                reading = getattr(self._nvml, name)(self._handle)
            except (self._nvml.NVMLError_NotSupported, self._nvml.NVMLError_FunctionNotFound):
                self._supported.remove(name)
            except self._nvml.NVMLError:
                # A passing refusal, such as a timeout, costs one sample and not the training.
                continue
            else:
                found |= _READINGS[name](reading)
        return list(found.values())

    def close(self) -> None:
        """Gives NVML back."""
        with contextlib.suppress(self._nvml.NVMLError):
            self._nvml.nvmlShutdown()


def open_gpu(gpu: int) -> tuple[Gpu | None, dict[str, str]]:
    """Returns the GPU, or None, and its name and UUID, or why there is none."""
    import pynvml

    try:
        opened = Gpu(gpu)
    except (pynvml.NVMLError, LookupError) as error:
        return None, {"problem": str(error)}
    return opened, {"name": opened.name, "uuid": opened.uuid}
