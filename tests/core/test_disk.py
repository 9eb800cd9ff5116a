"""Files: atomic writes, also on a full disk, and locks that one process at a time holds."""

import contextlib
import errno
import math
import os
import resource
import socket
from pathlib import Path
from unittest.mock import Mock

import numpy as np
import pytest

import project
from batchscope.core import disk
from batchscope.core.errors import UserError


@contextlib.contextmanager
def full(size=1000):
    """Let no file grow beyond a size. An import in the block would leave half a file behind."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


@pytest.mark.parametrize("function", [disk.write_text, disk.write_arrays, disk.atomic_folder])
def test_an_error_names_the_file_and_nothing_is_left(function, tmp_path):
    path = tmp_path / "file"
    with pytest.raises(OSError, match="File too large") as raised, full():
        if function is disk.atomic_folder:
            with function(path) as folder:
                (folder / "a.txt").write_text("a" * 2000)
        else:
            function(path, "a" * 2000 if function is disk.write_text else {"a": np.zeros(2000)})
    assert (raised.value.errno, raised.value.filename) == (errno.EFBIG, str(path))
    assert list(tmp_path.iterdir()) == []


def test_a_folder_is_replaced_as_a_whole_or_not_at_all(tmp_path):
    path = tmp_path / "folder"
    with disk.atomic_folder(path) as new:
        (new / "a").touch()
        assert not disk.is_abandoned(new) and not disk.is_abandoned(path)
    with pytest.raises(OSError, match="'none'"), disk.atomic_folder(path) as new:
        (new / "b").touch()
        os.stat("none")
    assert [each.name for each in path.iterdir()] == ["a"]
    with disk.atomic_folder(path) as new:
        (new / "b").touch()
    assert [each.name for each in tmp_path.rglob("*")] == ["folder", "b"]


def test_records_and_arrays_are_read_as_they_were_written(tmp_path):
    numbers = {"a": np.float32(0.1), "b": [math.nan, -math.inf, np.int64(3)], "c": "ü"}
    disk.write_json(tmp_path / "a.json", numbers)
    expected = {"a": float(np.float32(0.1)), "b": [None, None, 3], "c": "ü"}
    assert disk.read_json(tmp_path / "a.json", "a") == expected
    with pytest.raises(UserError, match="without d, e"):
        disk.read_json(tmp_path / "a.json", "a", "d", "e")
    disk.write_rows(tmp_path / "a.csv", ("x", "y"), [{"x": 0.1, "y": None}])
    assert (tmp_path / "a.csv").read_text() == "x,y\n0.1,\n"
    assert disk.read_rows(tmp_path / "a.csv", "x") == [{"x": "0.1", "y": ""}]
    np.save(tmp_path / "a.npy", np.arange(6).reshape(2, 3))
    assert disk.map_array(tmp_path / "a.npy", (2, 3)).sum() == 15
    with pytest.raises(UserError, match=r"of shape \(2, 3\)\); an array of shape \(3, 2\)"):
        disk.map_array(tmp_path / "a.npy", (3, 2))
    disk.check_sha256(tmp_path / "a.csv", disk.file_sha256(tmp_path / "a.csv"))
    with pytest.raises(UserError, match="received SHA-256 [0-9a-f]{64}; 00 is expected"):
        disk.check_sha256(tmp_path / "a.csv", "00")


def test_a_link_is_a_copy_where_links_are_not_to_be_had(tmp_path, monkeypatch):
    source = tmp_path / "a"
    source.write_text("text")
    disk.link(source, tmp_path / "b")
    assert (tmp_path / "b").samefile(source)
    monkeypatch.setattr(os, "link", lambda *_: os.stat(tmp_path / "none"))
    disk.link(source, tmp_path / "c")
    assert (tmp_path / "c").read_text() == "text" and not (tmp_path / "c").samefile(source)
    assert (tmp_path / "c").stat().st_mode & 0o777 == source.stat().st_mode & 0o777


HOLDING = """
import sys
from pathlib import Path
from batchscope.core import disk
with disk.lock(Path(sys.argv[1]), "do this"):
    print("held", flush=True)
    sys.stdin.read()
"""


@pytest.fixture
def path(tmp_path) -> Path:
    return tmp_path / "run" / "file"


@pytest.fixture
def holder(path):
    process = project.start("-c", HOLDING, path)
    assert process.stdout.readline() == "held\n"
    yield process
    process.kill()
    process.communicate()


def test_a_second_process_learns_who_holds_it(holder, path, monkeypatch):
    monkeypatch.setattr(disk, "LOCK_SECONDS", 0)
    with pytest.raises(UserError) as caught, disk.lock(path, "do this"):
        pass
    assert str(caught.value).startswith(f"{path.parent}: received ")
    assert f"process {holder.pid} on {socket.gethostname()}" in str(caught.value)


def test_who_is_killed_holds_nothing(holder, path):
    holder.kill()
    with disk.lock(path, "do this"):  # it may take a moment to end
        assert path.read_text().startswith(f"process {os.getpid()} on ")
    assert not path.exists()


def test_a_file_system_without_locks_is_no_error(path, monkeypatch, capsys):
    refusal = OSError(errno.ENOLCK, "Refused")
    monkeypatch.setattr(disk.fcntl, "lockf", Mock(side_effect=refusal))
    with disk.lock(path, "train this run"):
        assert "Refused" in capsys.readouterr().err
    assert not path.exists()
