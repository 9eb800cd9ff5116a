"""What a process may take: what is asked for, what is free, and what control groups leave."""

from __future__ import annotations

from pathlib import Path

import psutil
import pytest

from batchscope.host import control_groups
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


@pytest.fixture
def left(tmp_path, monkeypatch):
    """What groups leave in MB, for the text of /proc/PID/cgroup."""

    def found(text: str) -> list[float]:
        (tmp_path / "own").write_text(text)
        monkeypatch.setattr(control_groups, "OWN", tmp_path / "own")
        monkeypatch.setattr(control_groups, "ROOT", tmp_path / "root")
        limited = [group.left() for group in control_groups.own()]
        limited = [most / 10**6 for most in limited if most is not None]
        assert memory_limits.free_mb() == min(limited)
        return limited

    return found


def test_control_groups_of_version_2(tmp_path, left):
    root = tmp_path / "root"
    files = ("memory.max", "memory.current")
    group(root / "job", files, 1000 * 10**6, 300 * 10**6, f"anon 1\ninactive_file {100 * 10**6}")
    group(root / "job" / "step", files, "max", 10**6, "inactive_file 0")
    assert left("0::/job/step\n") == [800]
    group(root / "job" / "step", files, 500 * 10**6, 10**6, "inactive_file 0")
    assert left("0::/job/step\n") == [499, 800]
    # Full is none, never less; a path that is not there (a container's) leaves the root.
    group(root, files, 10 * 10**6, 11 * 10**6, "inactive_file 0")
    assert left("0::/not/here\n") == [0]


def test_control_groups_of_version_1(tmp_path, left):
    files = ("memory.limit_in_bytes", "memory.usage_in_bytes")
    stat = f"inactive_file 7\ntotal_inactive_file {50 * 10**6}"
    group(tmp_path / "root" / "memory" / "job", files, 400 * 10**6, 150 * 10**6, stat)
    assert left("9:name=systemd:/x\n4:cpu,memory:/job\n1:cpu:/\n0::/\n") == [300]
