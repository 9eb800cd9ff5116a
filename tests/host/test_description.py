"""The machine that a number was made on."""

import json

import pynvml
import pytest

from batchscope.host import description

NAMES = ["NVIDIA One", "NVIDIA Two"]


def nvml(monkeypatch, count=2, missing=()):
    """Puts GPUs behind NVML's functions; those in `missing` are not supported."""

    def answer(name, value):
        def function(handle, *arguments):
            if name in missing:
                raise pynvml.NVMLError(pynvml.NVML_ERROR_NOT_SUPPORTED)
            return value(handle, *arguments)

        monkeypatch.setattr(pynvml, name, function)

    closed = []
    monkeypatch.setattr(pynvml, "nvmlInit", lambda: None)
    monkeypatch.setattr(pynvml, "nvmlShutdown", lambda: closed.append(True))
    monkeypatch.setattr(pynvml, "nvmlDeviceGetCount", lambda: count)
    answer("nvmlDeviceGetHandleByIndex", lambda index: index)
    answer("nvmlDeviceGetName", NAMES.__getitem__)
    answer("nvmlDeviceGetNumGpuCores", [5120, 4608].__getitem__)
    answer("nvmlDeviceGetMaxClockInfo", lambda handle, clock: [[], [1380, 1825]][clock][handle])
    return closed


@pytest.mark.parametrize(
    ("missing", "cores"), [([], [5120, 4608]), (["nvmlDeviceGetNumGpuCores"], [None, None])]
)
def test_gpus_with_their_cores_and_clocks(monkeypatch, missing, cores):
    closed = nvml(monkeypatch, missing=missing)
    found = description.describe()
    assert (found["gpu"], found["gpu_cores"]) == (NAMES, cores)
    assert found["gpu_max_mhz"] == [1380, 1825]  # NVML_CLOCK_SM is 1
    assert closed == [True]
    json.dumps(found)
