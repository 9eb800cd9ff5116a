"""Atomic writes, where the disk is full."""

from __future__ import annotations

import contextlib
import errno
import os
import resource
import time

import numpy as np
import pytest

import run
from batchscope import disk
from batchscope.report import ledger_page


@contextlib.contextmanager
def full(size=1000):
    """Lets no file grow beyond a size inside the block, where nothing is to be imported.

    The interpreter would leave half a file of bytecode behind.
    """
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


def write_folder(path):
    with disk.atomic_folder(path) as folder:
        (folder / "a.txt").write_text("a" * 2000)


@pytest.mark.parametrize(
    "write",
    [
        lambda path: disk.write_text(path, "a" * 2000),
        lambda path: disk.write_arrays(path, {"a": np.zeros(2000)}),
        write_folder,
    ],
)
def test_an_error_names_the_file_and_nothing_is_left(write, tmp_path):
    path = tmp_path / "file"
    with pytest.raises(OSError, match="File too large") as raised, full():
        write(path)
    assert (raised.value.errno, raised.value.filename) == (errno.EFBIG, str(path))
    assert list(tmp_path.iterdir()) == []


def test_an_error_that_is_none_of_the_systems_names_no_file(tmp_path):
    with pytest.raises(OSError, match="image") as raised, disk.atomic_path(tmp_path / "file"):
        raise OSError("image file is truncated")
    assert raised.value.filename is None


def test_the_door_says_it_in_one_line(tmp_path, monkeypatch):
    path = tmp_path / "ledger.html"
    monkeypatch.setattr(ledger_page, "write", lambda *_: disk.write_text(path, "a" * 2000))
    with pytest.raises(SystemExit) as ended, full():
        run.main(["ledger"])
    assert ended.value.code == f"{path}: File too large."

    def fails(*_):
        raise OSError(errno.EBADF, "Bad file descriptor")

    monkeypatch.setattr(ledger_page, "write", fails)
    with pytest.raises(OSError, match="Bad file descriptor"):  # a traceback: nobody can mend it
        run.main(["ledger"])


def test_what_a_killed_process_left_beside_a_folder_goes_after_an_hour(tmp_path):
    old, new = tmp_path / ".figures.old", tmp_path / ".figures.new"
    for folder, age in ((old, 4000), (new, 10)):
        folder.mkdir()
        os.utime(folder, (time.time() - age,) * 2)
    write_folder(tmp_path / "figures")
    assert new.exists() and not old.exists() and (tmp_path / "figures" / "a.txt").exists()
