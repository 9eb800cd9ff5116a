"""The description of a machine in records."""

import pynvml

from batchscope.store import records


def test_the_gpus_of_a_machine(monkeypatch):
    names = ["NVIDIA One", "NVIDIA Two"]
    monkeypatch.setattr(pynvml, "nvmlInit", lambda: None)
    monkeypatch.setattr(pynvml, "nvmlDeviceGetCount", lambda: len(names))
    monkeypatch.setattr(pynvml, "nvmlDeviceGetHandleByIndex", lambda index: index)
    monkeypatch.setattr(pynvml, "nvmlDeviceGetName", names.__getitem__)
    assert records.machine_description()["gpu"] == names
