"""Prepared arrays are what their records say, or it is said which file is not."""

import os

import pytest

from batchscope import datasets
from batchscope.core import disk
from batchscope.core.errors import UserError
from batchscope.store import paths

TOKEN = "digits-00000000"


@pytest.fixture
def folder(tmp_path):
    datasets.prepare(TOKEN, {"source": "digits"}, tmp_path)
    return paths.dataset_folder(tmp_path, TOKEN)


def load(folder):
    return datasets.load(folder.parents[1], folder.name)


def alter(path):
    """Changes one byte, and neither length nor time of modification."""
    before = path.stat()
    complete = bytearray(path.read_bytes())
    complete[-1] ^= 1
    path.write_bytes(bytes(complete))
    while path.stat().st_ctime_ns == before.st_ctime_ns:  # clocks of file systems are coarse
        os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))


@pytest.mark.parametrize("file", ["train_images.npy", "test_labels.npy"])
def test_an_altered_array_of_the_same_length_is_refused(folder, file):
    load(folder)
    alter(folder / file)
    for _ in range(2):  # and not only the first time
        with pytest.raises(UserError) as caught:
            load(folder)
    received = f"{folder / file}: received SHA-256 {disk.file_sha256(folder / file)};"
    assert str(caught.value).startswith(received) and f"Delete {folder} " in str(caught.value)


def test_arrays_are_hashed_once_per_change(folder, monkeypatch):
    hashed = []
    real = disk.file_sha256
    monkeypatch.setattr(disk, "file_sha256", lambda path: hashed.append(path.name) or real(path))
    load(folder)
    assert hashed == []  # they were hashed when they were prepared
    os.utime(folder / "test_labels.npy", (0, 0))
    load(folder)
    load(folder)
    assert hashed == ["test_labels.npy"]


@pytest.mark.parametrize(
    ("change", "received"),
    [
        (lambda complete: complete[:-8], "a damaged file (mmap"),
        (lambda complete: b"", "an empty file"),
        (
            lambda complete: complete.replace(b"355, 8, 8", b"354, 8, 8"),
            "a damaged file (an array of",
        ),
        (None, ""),
    ],
)
def test_an_array_that_does_not_fit_the_record_is_refused(change, received, folder):
    path = folder / "test_images.npy"
    content = change and change(path.read_bytes())
    path.unlink()
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(UserError) as caught:
        load(folder)
    place = f"{path}: received {received}" if change else f"{path}: missing;"
    assert str(caught.value).startswith(place) and f"elete {folder} " in str(caught.value)
