"""NVML at its boundary: a fake that gives scripted readings."""

from __future__ import annotations

import itertools
import types

import pynvml

UUIDS = ["GPU-aa11-0", "GPU-aa22-1", "GPU-bb33-2"]
NAMES = ["NVIDIA Test", "NVIDIA Two", "NVIDIA Three"]


class Nvml:
    """Three GPUs whose readings are scripted; those in `failing` time out."""

    def __init__(self, failing=()) -> None:
        self.failing = set(failing)
        self.asked = []
        self.energy = itertools.count(5_000_000_000, 20_000)

    def reading(self, name, handle, value):
        self.asked.append((name, handle))
        if name in self.failing:
            raise pynvml.NVMLError(pynvml.NVML_ERROR_TIMEOUT)
        return value() if callable(value) else value

    def by_uuid(self, uuid: str) -> str:
        if uuid not in UUIDS:
            raise pynvml.NVMLError(pynvml.NVML_ERROR_NOT_FOUND)
        return f"handle {UUIDS.index(uuid)}"

    def install(self, monkeypatch, visible: str | None = None) -> Nvml:
        """Puts itself in NVML's place; `visible` is CUDA_VISIBLE_DEVICES."""
        if visible is None:
            monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
        else:
            monkeypatch.setenv("CUDA_VISIBLE_DEVICES", visible)

        rates = types.SimpleNamespace(gpu=63, memory=41)
        memory = types.SimpleNamespace(used=12_345_000_000)
        fakes = {
            "nvmlInit": lambda: None,
            "nvmlDeviceGetHandleByIndex": lambda index: f"handle {index}",
            "nvmlDeviceGetHandleByUUID": self.by_uuid,
            "nvmlDeviceGetUUID": lambda handle: UUIDS[int(handle.split()[1])],
            "nvmlDeviceGetName": lambda handle: NAMES[int(handle.split()[1])],
            "nvmlDeviceGetCount": lambda: len(NAMES),
            "nvmlDeviceGetUtilizationRates": lambda h: self.reading("rates", h, rates),
            "nvmlDeviceGetMemoryInfo": lambda h: self.reading("memory", h, memory),
            "nvmlDeviceGetTotalEnergyConsumption": lambda h: self.reading(
                "energy", h, lambda: next(self.energy)
            ),
        }
        for name, fake in fakes.items():
            monkeypatch.setattr(pynvml, name, fake)
        return self
