"""The GPU that is meant, and NVML at its boundary."""

from __future__ import annotations

import numpy as np
import pynvml
import pytest

from batchscope.timing.instruments import nvml, samples
from batchscope.timing.instruments.sampler import Sampler
from fake_nvml import UUIDS, Nvml


@pytest.mark.parametrize(
    ("visible", "gpu", "expected"),
    [
        (None, 2, 2),
        (None, 3, None),
        ("", 0, None),
        ("2,0", 0, 2),
        ("2, 0", 1, 0),
        ("2,0", 2, None),
        ("0,-1,1", 0, 0),
        ("0,-1,1", 1, None),  # CUDA stops at the first that is none
        ("7,1", 0, None),
        ("GPU-bb33-2,GPU-aa11-0", 1, 0),
        ("GPU-bb", 0, 2),
        ("GPU-aa", 0, None),  # two begin so
        ("1,,2", 1, None),
        ("NoDevFiles", 0, None),
        ("MIG-5f", 0, "MIG-5f"),
    ],
)
def test_the_index_among_the_visible_gpus(visible, gpu, expected):
    assert nvml.physical_gpu(visible, gpu, UUIDS) == expected


def sampled(samples: int = 3, **given) -> tuple[Sampler, dict[str, np.ndarray]]:
    with Sampler(interval=60, **given) as running:
        for _ in range(samples - 2):
            running.sample()
    return running, running.series()


def test_nvml_readings_have_their_units(monkeypatch):
    nvml = Nvml().install(monkeypatch, "GPU-bb33,0")
    running, found = sampled(gpu=0)
    assert running.gpu_device == {"name": "NVIDIA Test", "uuid": UUIDS[2]}
    assert {handle for _, handle in nvml.asked} == {"handle 2"}
    assert set(found["gpu_percent"]) == {63} and set(found["gpu_bandwidth_percent"]) == {41}
    assert set(found["gpu_memory_mb"]) == {12_345}  # bytes
    assert set(found["gpu_power_watts"]) == {250.5}  # mW
    assert list(found["gpu_energy_joules"]) == [0, 20, 40]  # mJ, and from the start
    assert nvml.open == 0


@pytest.mark.parametrize(
    ("name", "columns"),
    [
        ("rates", ["gpu_percent", "gpu_bandwidth_percent"]),
        ("memory", ["gpu_memory_mb"]),
        ("power", ["gpu_power_watts"]),
        ("energy", ["gpu_energy_joules"]),
    ],
)
def test_what_nvml_does_not_support_is_unknown_alone(monkeypatch, name, columns):
    nvml = Nvml(missing=[name]).install(monkeypatch)
    found = sampled(samples=5, gpu=1)[1]
    for column in samples.GPU_COLUMNS:
        assert np.isnan(found[column]).all() == (column in columns)
        assert np.isfinite(found[column]).all() == (column not in columns)
    assert [asked for asked, _ in nvml.asked].count(name) == 1
    assert samples.summary(found)["gpu_energy_source"] == (
        "power" if name == "energy" else "counter"
    )


def test_a_passing_failure_of_nvml_costs_its_samples_alone(monkeypatch):
    nvml = Nvml(failing=["energy", "power"]).install(monkeypatch)
    with Sampler(interval=60, gpu=0) as running:
        nvml.failing.clear()
        running.sample()
    found = running.series()
    assert np.isnan(found["gpu_power_watts"][0])
    assert list(found["gpu_energy_joules"][1:]) == [0, 20]


def test_a_mig_device_is_found_by_its_uuid(monkeypatch):
    nvml = Nvml(missing=["rates"]).install(monkeypatch, "MIG-5f")
    running, found = sampled(gpu=0)
    assert running.gpu_device["uuid"] == "MIG-5f"
    assert {handle for _, handle in nvml.asked} == {"handle MIG-5f"}
    assert found["gpu_memory_mb"][0] == 12_345


def test_a_gpu_that_is_not_there_stops_nothing(monkeypatch):
    nvml = Nvml().install(monkeypatch, "0")
    running, found = sampled(gpu=1)
    assert "received 1" in running.gpu_device["problem"] and nvml.open == 0

    def no_library():
        raise pynvml.NVMLError(pynvml.NVML_ERROR_LIBRARY_NOT_FOUND)

    monkeypatch.setattr(pynvml, "nvmlInit", no_library)
    running, found = sampled(gpu=0)
    assert "Not Found" in running.gpu_device["problem"]
    summary = samples.summary(found)
    for column in samples.GPU_COLUMNS:
        assert np.isnan(found[column]).all()
    assert summary["gpu_percent"] is None and summary["gpu_energy_joules"] is None
    assert summary["memory_peak_mb"] > 1
