"""Headers of an npz file, which planning reads whatever the file holds, and mapped arrays."""

import io
import zipfile

import numpy as np
import pytest

from batchscope.study.dataset_definitions import read

LABELS = np.zeros(6, int)


def written(path, content, compression=zipfile.ZIP_STORED):
    with zipfile.ZipFile(path, "w", compression) as archive:
        archive.writestr("images.npy", content)
    return path


def kind_of(path, **keys):
    return read({"source": "npz", "path": str(path), **keys}).kind_of_examples()


@pytest.mark.parametrize(
    ("arrays", "kind"),
    [
        ({"images": np.zeros((6, 8, 8), np.uint8), "labels": LABELS}, "images"),
        ({"inputs": np.zeros((6, 8, 8, 3)), "labels": LABELS}, "images"),
        ({"x_train": np.zeros((6, 4)), "y_train": LABELS}, "rows"),
        ({"x_train": np.zeros((6, 4), int)}, "tokens"),
        ({"x_train": np.zeros((6, 4), int), "y_train": np.zeros((6, 4), int)}, "tokens"),
        ({"x_train": np.zeros((6, 4), np.uint8), "y_train": np.zeros((6, 1), int)}, "sequences"),
        ({"images": np.zeros((6, 1), int), "labels": np.zeros((6, 1), int)}, "tokens"),
        ({"images": np.zeros((6, 4), bool), "labels": LABELS}, None),
        ({"images": LABELS, "labels": LABELS}, None),
        ({"other": np.zeros((6, 4))}, None),
    ],
)
def test_kind_of_arrays(arrays, kind, tmp_path):
    np.savez(tmp_path / "x.npz", **arrays)
    assert kind_of(tmp_path / "x.npz") == kind
    assert kind_of(tmp_path / "x.npz", kind="rows") == "rows"


def test_an_array_that_is_cut_or_damaged(tmp_path):
    assert kind_of(written(tmp_path / "a.npz", b"\x93NUMPY")) is None
    member = io.BytesIO()
    np.save(member, np.zeros((3, 8, 8)))
    path = written(tmp_path / "b.npz", member.getvalue(), zipfile.ZIP_DEFLATED)
    content = path.read_bytes()
    assert kind_of(path) == "images"
    path.write_bytes(content[:40] + b"\xff" + content[41:])  # where its deflated bytes begin
    assert kind_of(path) is None
