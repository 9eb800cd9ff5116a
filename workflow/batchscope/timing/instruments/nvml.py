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
    """Returns which of the machine's GPUs a process sees under an index; None if there is none.

    Args:
        visible: CUDA_VISIBLE_DEVICES: indices, or UUIDs or their unambiguous beginnings, up to
            the first that is none; None where it is not set.

    Returns:
        Index of the GPU on the machine, or the UUID of a MIG device.
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


class Gpu:
    """One GPU, by its index among those that the process sees; what it does not support is NaN.

    Raises:
        LookupError: If the process sees no such GPU.
        pynvml.NVMLError: If NVML is not to be had.
    """

    def __init__(self, gpu: int) -> None:
        import pynvml as nvml

        self._nvml = nvml
        nvml.nvmlInit()
        try:
            handle, self.name, self.uuid = self._find(gpu)
        except BaseException:
            nvml.nvmlShutdown()
            raise

        def utilisation() -> tuple[float, ...]:
            rates = nvml.nvmlDeviceGetUtilizationRates(handle)
            return float(rates.gpu), float(rates.memory)

        self._queries: dict[tuple[str, ...], Callable[[], tuple[float, ...]]] = {
            ("gpu_percent", "gpu_bandwidth_percent"): utilisation,
            ("gpu_memory_mb",): lambda: (nvml.nvmlDeviceGetMemoryInfo(handle).used / MEGABYTE,),
            ("gpu_power_watts",): lambda: (nvml.nvmlDeviceGetPowerUsage(handle) / 1000,),
            ("gpu_energy_joules",): lambda: (
                nvml.nvmlDeviceGetTotalEnergyConsumption(handle) / 1000,
            ),
        }

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
        for columns, query in list(self._queries.items()):
            try:
                found.update(zip(columns, query(), strict=True))
            except (self._nvml.NVMLError_NotSupported, self._nvml.NVMLError_FunctionNotFound):
                del self._queries[columns]
            except self._nvml.NVMLError:
                # A passing refusal, such as a timeout, costs one sample and not the training.
                continue
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
