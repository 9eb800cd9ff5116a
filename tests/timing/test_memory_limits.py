"""What a process may take: what is asked for, what is free, and what control groups leave."""

from __future__ import annotations

from pathlib import Path

import psutil

from batchscope.timing.largest import memory_limits
from batchscope.timing.largest.memory_limits import Limits


def test_limits():
    assert Limits("cpu", 0, 900.0).memory_mb == Limits("cpu", 0, 900.0).host_mb == 900
    assert Limits("cpu", 200, 900.0).memory_mb == Limits("cpu", 200, 900.0).host_mb == 200
    # What is not free cannot be given.
    assert Limits("cpu", 5000, 900.0).memory_mb == 900
    assert (Limits("gpu", 0, 900.0).memory_mb, Limits("gpu", 0, 900.0).host_mb) == (None, 900)
    assert Limits("gpu", 5000, 900.0).memory_mb == 5000
    now = memory_limits.now("cpu", 123)
    assert now.memory_mb == 123
    assert 0 < now.free_mb <= 0.91 * psutil.virtual_memory().total / 10**6


def group(folder: Path, names: tuple[str, str], limit: object, used: int, stat: str) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for name, value in zip((*names, "memory.stat"), (limit, used, stat), strict=True):
        (folder / name).write_text(f"{value}\n")


def test_control_groups_of_version_2(tmp_path):
    files = ("memory.max", "memory.current")
    group(
        tmp_path / "job", files, 1000 * 10**6, 300 * 10**6, f"anon 1\ninactive_file {100 * 10**6}"
    )
    group(tmp_path / "job" / "step", files, "max", 10**6, "inactive_file 0")
    found = list(memory_limits._free_in_groups("0::/job/step\n", tmp_path))
    assert found == [800]
    group(tmp_path / "job" / "step", files, 500 * 10**6, 10**6, "inactive_file 0")
    assert sorted(memory_limits._free_in_groups("0::/job/step\n", tmp_path)) == [499, 800]
    # Full is none, never less; a path that is not there (a container's) leaves the root.
    group(tmp_path, files, 10 * 10**6, 11 * 10**6, "inactive_file 0")
    assert list(memory_limits._free_in_groups("0::/not/here\n", tmp_path)) == [0]


def test_control_groups_of_version_1(tmp_path):
    files = ("memory.limit_in_bytes", "memory.usage_in_bytes")
    stat = f"inactive_file 7\ntotal_inactive_file {50 * 10**6}"
    group(tmp_path / "memory" / "job", files, 400 * 10**6, 150 * 10**6, stat)
    text = "9:name=systemd:/x\n4:cpu,memory:/job\n1:cpu:/\n0::/\n"
    assert list(memory_limits._free_in_groups(text, tmp_path)) == [300]
