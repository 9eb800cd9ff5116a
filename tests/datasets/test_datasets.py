"""Data sets: sources, splits, faults of the user's files, and what a crash leaves behind.

Tests of the real MNIST and Cats vs Dogs read the folder that the environment variable
BATCHSCOPE_DATA names: `mnist/` with the four idx files, `cats_vs_dogs/` with a zip file.
"""

from __future__ import annotations

import gzip
import hashlib
import http.server
import io
import json
import os
import struct
import subprocess
import sys
import threading
import zipfile
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from batchscope import datasets, disk, project_files
from batchscope.catalogue import dataset_definitions
from batchscope.datasets import arrays, patches, photographs, splits
from batchscope.errors import ConfigError, UserError
from batchscope.store import estimates, records
from batchscope.study import config

DATA = os.environ.get("BATCHSCOPE_DATA")
real = pytest.mark.skipif(
    not DATA, reason="BATCHSCOPE_DATA does not name a folder with mnist/ and cats_vs_dogs/"
)
SPLIT = {"train": 0.6, "validation": 0.2, "test": 0.2, "seed": 0}
THIRDS = {"train": 2, "validation": 1, "test": 1, "seed": 0}


def prepared(tmp_path, definition, name="own"):
    token = dataset_definitions.token(name, definition)
    datasets.prepare(token, definition, tmp_path / "results")
    return datasets.load(tmp_path / "results", token)


def fault(tmp_path, definition, name="own"):
    with pytest.raises(UserError) as caught:
        prepared(tmp_path, definition, name)
    token = dataset_definitions.token(name, definition)
    assert not (records.dataset_folder(tmp_path / "results", token) / "record.json").exists()
    assert list((tmp_path / "results" / "data").glob(".*")) == []  # no scratch folder
    assert "\n" not in str(caught.value)
    return str(caught.value)


# Splits.


def test_sizes_are_those_of_the_plan():
    drawn = ("validation", "test")
    for split in (SPLIT, {**SPLIT, "train": 0.5}, {"train": 7, "validation": 2, "test": 1}):
        for members in (10, 11, 174, 183):
            received = splits.sizes("here", members, split, drawn)
            assert tuple(received) == dataset_definitions.split_counts(split, members)


@pytest.mark.parametrize(
    ("split", "drawn", "expected"),
    [
        ({"validation": 0.2, "test": 0.1}, ("validation", "test"), [7, 2, 1]),
        ({"validation": 3}, ("validation",), [7, 3, 0]),
        # What the source itself gives for testing leaves its share to train.
        ({"train": 0.6, "validation": 0.2, "test": 0.2}, ("validation",), [8, 2, 0]),
        ({"train": 0.4, "validation": 0.2, "test": 0.2}, ("validation",), [6, 2, 0]),
        ({"train": 5, "validation": 2, "test": 9}, ("validation",), [5, 2, 0]),
        ({"train": 0.6, "validation": 0.2, "test": 0.2}, (), [10, 0, 0]),
    ],
)
def test_sizes_where_parts_are_missing_or_given(split, drawn, expected):
    assert splits.sizes("here", 10, split, drawn) == expected


@pytest.mark.parametrize(
    ("split", "message"),
    [
        (
            {"train": 8, "validation": 2, "test": 1},
            "received train 8, validation 2, test 1, for 10",
        ),
        ({"validation": 9, "test": 1}, "received validation 9, test 1, for 10 examples"),
        ({"train": 0.6, "test": 0.2}, r"split.validation: received None; a positive fraction"),
        ({"train": 5, "validation": -1, "test": 1}, "split.validation: received -1"),
        ({"train": 5, "validation": "2", "test": 1}, "split.validation: received '2'"),
    ],
)
def test_numbers_that_do_not_fit_are_refused(split, message):
    with pytest.raises(UserError, match=message):
        splits.sizes("here", 10, split, ("validation", "test"))


def test_a_stratified_split_by_hand():
    labels = np.array([0, 1] * 10)
    rows = splits.assign("here", labels, 2, SPLIT | {"seed": 7}, ("validation", "test"), True)
    zeros = np.random.default_rng([7, 0]).permutation(np.arange(0, 20, 2))
    ones = np.random.default_rng([7, 1]).permutation(np.arange(1, 20, 2))
    dealt = np.concatenate([zeros[:6], ones[:6]])
    order = np.random.default_rng([7, 10**6]).permutation(dealt)
    assert rows["train"].tolist() == order.tolist()
    assert set(rows["validation"]) == {*zeros[6:8], *ones[6:8]}
    assert set(rows["test"]) == {*zeros[8:], *ones[8:]}


def test_a_split_without_test_or_class_is_refused():
    labels = np.array([0, 1] * 2)
    with pytest.raises(UserError, match="split.validation: received 0.2, which leaves none of 4"):
        splits.assign("here", labels, 2, SPLIT, ("validation", "test"), True)
    with pytest.raises(UserError, match="class 2 has no example"):
        splits.assign("here", np.array([0, 1] * 9), 3, {"validation": 2}, ("validation",), False)


# Digits.


def test_digits(tmp_path):
    data = prepared(tmp_path, dataset_definitions.resolve({"source": "digits"}), "digits")
    assert data.scale == 1 / 16 and data.classes == 10 and data.input_shape == (8, 8, 1)
    assert data.record["counts"] == {"train": 1087, "validation": 355, "test": 355}
    assert data.record["class_names"] == list("0123456789")
    images = data.images("train")
    assert isinstance(images, np.memmap) and not images.flags.writeable
    assert images.dtype == np.uint8 and images.max() == 16
    assert data.labels("train").dtype == np.int32
    for split in records.SPLITS:
        counts = np.bincount(data.labels(split), minlength=10).tolist()
        assert data.record["class_counts"][split] == counts
    for file, sha256 in data.record["sha256"].items():
        assert disk.file_sha256(data.folder / file) == sha256
    assert data.record["bytes"] == 1797 * 64
    assert sorted(path.name for path in data.folder.iterdir()) == sorted(
        [*data.record["sha256"], "record.json", "verified.json"]
    )


def test_digits_are_all_of_scikit_learns(tmp_path):
    from sklearn.datasets import load_digits

    data = prepared(tmp_path, {"source": "digits", "split": SPLIT}, "digits")
    images = np.concatenate([data.images(split) for split in records.SPLITS])
    labels = np.concatenate([data.labels(split) for split in records.SPLITS])
    bunch = load_digits()
    received = sorted((label, image.tobytes()) for image, label in zip(images, labels, strict=True))
    expected = sorted(
        (label, image.astype(np.uint8).tobytes())
        for image, label in zip(bunch.images, bunch.target, strict=True)
    )
    assert received == expected


def test_the_same_definition_gives_the_same_bytes_and_another_seed_others(tmp_path):
    definition = {"source": "digits", "split": SPLIT}
    first = prepared(tmp_path, definition).record["sha256"]
    assert prepared(tmp_path, definition).record["sha256"] == first
    other = {"source": "digits", "split": SPLIT | {"seed": 1}}
    assert prepared(tmp_path, other).record["sha256"] != first


# MNIST.


def little_mnist(train=50, test=20):
    random = np.random.default_rng(0)
    result = {}
    for name, count in (("train", train), ("test", test)):
        result[f"x_{name}"] = random.integers(0, 256, (count, 6, 5), np.uint8)
        result[f"y_{name}"] = (np.arange(count) % 10).astype(np.uint8)
    return result


def write_idx(folder, values, ending="", dot="-"):
    folder.mkdir(exist_ok=True)
    for name, prefix in (("train", "train"), ("test", "t10k")):
        for what, array in (("images", values[f"x_{name}"]), ("labels", values[f"y_{name}"])):
            header = struct.pack(f">{1 + array.ndim}I", 0x0800 + array.ndim, *array.shape)
            data = header + array.tobytes()
            path = folder / f"{prefix}-{what}{dot}idx{array.ndim}-ubyte{ending}"
            path.write_bytes(gzip.compress(data) if ending else data)
    return folder


def mnist(path, validation=10):
    return {"source": "mnist", "path": str(path), "split": {"validation": validation, "seed": 0}}


def test_mnist_is_the_same_from_npz_and_from_idx_files(tmp_path):
    values = little_mnist()
    np.savez(tmp_path / "mnist.npz", **values)
    plain = write_idx(tmp_path / "plain", values, dot=".")
    packed = write_idx(tmp_path / "packed", values, ".gz")
    paths = (tmp_path / "mnist.npz", plain, packed)
    first, *others = (prepared(tmp_path, mnist(path), "mnist") for path in paths)
    assert first.record["counts"] == {"train": 40, "validation": 10, "test": 20}
    assert (first.images("test")[..., 0] == values["x_test"]).all()  # untouched, in order
    assert (first.labels("test") == values["y_test"]).all()
    assert first.scale == 1 / 255 and first.input_shape == (6, 5, 1)
    order = np.random.default_rng([0, 0]).permutation(50)
    assert set(first.images("train")[:, 0, 0, 0]) == set(values["x_train"][order[:40], 0, 0])
    for other in others:
        assert other.record["sha256"] == first.record["sha256"]
    assert len(others[1].record["source_sha256"]) == 4


def test_mnist_is_validated_with_test_images_where_all_others_are_to_train_on(tmp_path):
    values = little_mnist()
    definition = mnist(npz(tmp_path, values), validation=8)
    definition["split"]["validation_from"] = "test"
    data = prepared(tmp_path, definition)
    assert data.record["counts"] == {"train": 50, "validation": 8, "test": 12}

    def rows(*sets):
        pairs = (pair for found in sets for pair in zip(*found, strict=True))
        return sorted((image.tobytes(), label) for image, label in pairs)

    def pair(split):
        return data.images(split)[..., 0], data.labels(split)

    assert rows(pair("train")) == rows((values["x_train"], values["y_train"]))
    assert rows(pair("validation"), pair("test")) == rows((values["x_test"], values["y_test"]))
    assert (pair("validation")[0] != values["x_test"][:8]).any()  # drawn, not the first ones
    definition["split"]["validation"] = 20
    message = fault(tmp_path, definition)
    assert "split.validation: received 20, for 20 test examples; fewer are expected" in message


def test_mnist_of_so_many_training_images_per_class(tmp_path):
    values = little_mnist(train=53)  # six of the classes 0 to 2, five of the others
    definition = mnist(npz(tmp_path, values), validation=10) | {"per_class": 4}
    data = prepared(tmp_path, definition)
    assert data.record["counts"] == {"train": 30, "validation": 10, "test": 20}

    def rows(images):
        return sorted(image.tobytes() for image in images)

    kept = np.concatenate([data.images("train"), data.images("validation")])
    assert rows(kept) == rows(values["x_train"][:40])  # the first four of each class
    assert (data.images("test")[..., 0] == values["x_test"]).all()
    assert fault(tmp_path, definition | {"per_class": 6}) == (
        "datasets.own.per_class: received 6, but 3 has only 5 training images."
    )


def test_mnist_faults(tmp_path):
    values = little_mnist()
    folder = write_idx(tmp_path / "idx", values)
    assert "missing y_test" in fault(tmp_path, mnist(npz(tmp_path, values, without="y_test")))
    assert "(50,) is expected" in fault(
        tmp_path, mnist(npz(tmp_path, values | {"y_train": values["y_train"][:-1]}))
    )
    pinned = mnist(folder) | {"sha256": "0" * 64}
    assert "is a folder; a file is expected, or no sha256" in fault(tmp_path, pinned)
    path = folder / "train-images-idx3-ubyte"
    path.write_bytes(path.read_bytes()[:-1])
    assert "a whole idx file" in fault(tmp_path, mnist(folder))
    path.unlink()
    assert "has no train-images-idx3-ubyte (or .gz)" in fault(tmp_path, mnist(folder))
    path.with_suffix(".gz").write_bytes(b"no gzip")
    assert "train-images-idx3-ubyte.gz: cannot be read" in fault(tmp_path, mnist(folder))
    message = fault(tmp_path, mnist(tmp_path / "nowhere"))
    assert message.startswith("datasets.own.path: received") and "does not exist" in message
    pinned = mnist(npz(tmp_path, values)) | {"sha256": "0" * 64}
    assert f"; {'0' * 64} is expected" in fault(tmp_path, pinned)
    too_many = fault(tmp_path, mnist(npz(tmp_path, values), 50))
    assert "received validation 50, for 50 examples" in too_many


# Downloads.


@pytest.fixture
def server(tmp_path):
    """Serves a folder on this machine; yields the folder, its address and what was asked."""
    folder, asked = tmp_path / "served", []
    folder.mkdir()

    class Handler(http.server.SimpleHTTPRequestHandler):
        def __init__(self, *args):
            super().__init__(*args, directory=str(folder))

        def do_GET(self):
            asked.append(self.path)
            if "short" not in self.path:
                super().do_GET()
                return
            self.send_response(200)
            self.send_header("Content-Length", "1000")
            self.end_headers()
            self.wfile.write(b"cut off")

        def log_message(self, *args):
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as service:
        thread = threading.Thread(target=service.serve_forever)
        thread.start()
        yield folder, f"http://127.0.0.1:{service.server_port}", asked
        service.shutdown()
        thread.join()


def test_a_download_is_checked_and_kept(tmp_path, server, monkeypatch):
    folder, url, asked = server
    np.savez(folder / "mnist.npz", **little_mnist())
    data = (folder / "mnist.npz").read_bytes()
    monkeypatch.setattr(arrays, "MNIST_URL", f"{url}/mnist.npz")
    definition = {"source": "mnist", "split": {"validation": 10, "seed": 0}}
    message = fault(tmp_path, definition, "mnist")
    assert f"{url}/mnist.npz: received SHA-256 " in message and arrays.MNIST_SHA256 in message
    assert list((tmp_path / "results" / "downloads").iterdir()) == []

    monkeypatch.setattr(arrays, "MNIST_SHA256", hashlib.sha256(data).hexdigest())
    record = prepared(tmp_path, definition, "mnist").record
    assert record["source"] == f"{url}/mnist.npz"
    assert record["source_sha256"] == {"mnist.npz": hashlib.sha256(data).hexdigest()}
    assert (tmp_path / "results" / "downloads" / "mnist.npz").read_bytes() == data
    asked.clear()
    definition["split"]["seed"] = 1
    prepared(tmp_path, definition, "mnist")
    assert asked == []  # the kept file was used


@pytest.mark.parametrize("file", ["absent.npz", "short.npz"])
def test_a_failed_download_says_how_to_go_on(tmp_path, server, monkeypatch, file):
    monkeypatch.setattr(arrays, "MNIST_URL", f"{server[1]}/{file}")
    message = fault(tmp_path, {"source": "mnist", "split": {"validation": 10}}, "mnist")
    assert message.startswith("datasets.mnist: http://127.0.0.1")
    assert message.endswith("download it yourself and name the file as datasets.mnist.path.")
    assert not list((tmp_path / "results" / "downloads").iterdir())


def test_without_a_network(tmp_path, monkeypatch):
    monkeypatch.setattr(photographs, "CATS_URL", "http://127.0.0.1:9/cats.zip")
    definition = {"source": "cats_vs_dogs", "image_size": 8, "split": THIRDS}
    message = fault(tmp_path, definition, "cats")
    assert "cats.zip cannot be downloaded (" in message and "datasets.cats.path" in message


# The user's arrays.


def npz(tmp_path, values, without=None):
    path = tmp_path / "own.npz"
    np.savez(path, **{key: value for key, value in values.items() if key != without})
    return path


def own(path, **more):
    return {"source": "npz", "path": str(path), "split": SPLIT, **more}


def test_npz_is_split_class_by_class(tmp_path):
    images = np.arange(40 * 12, dtype=np.float64).reshape(40, 2, 2, 3)
    path = npz(tmp_path, {"images": images, "labels": np.arange(40)[:, None] % 2})
    data = prepared(tmp_path, own(path))
    assert data.scale == 1.0 and data.images("train").dtype == np.float32
    assert data.record["class_counts"] == {
        "train": [12, 12],
        "validation": [4, 4],
        "test": [4, 4],
    }
    for split in records.SPLITS:  # every image still has its own label
        numbers = data.images(split)[:, 0, 0, 0] // 12
        assert (numbers % 2 == data.labels(split)).all()
    assert prepared(tmp_path, own(path, scale=0.5)).scale == 0.5


def test_npz_keeps_the_splits_that_it_has(tmp_path):
    values = little_mnist()
    data = prepared(tmp_path, own(npz(tmp_path, values)))
    assert data.record["counts"] == {"train": 40, "validation": 10, "test": 20}
    assert (data.images("test")[..., 0] == values["x_test"]).all()
    values |= {"x_validation": values["x_test"], "y_validation": values["y_test"]}
    data = prepared(tmp_path, own(npz(tmp_path, values), split=None))
    assert data.record["counts"] == {"train": 50, "validation": 20, "test": 20}
    assert data.images("train").dtype == np.uint8 and data.scale == 1 / 255
    assert sorted(data.images("train").sum((1, 2, 3))) == sorted(values["x_train"].sum((1, 2)))


IMAGES = np.zeros((40, 4, 4, 1), np.uint8)
LABELS = np.arange(40) % 2


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"x": IMAGES}, "received x; expected images (or inputs) and labels, or x_train and y_"),
        ({"images": IMAGES}, "images has no labels; both are expected"),
        ({"images": IMAGES, "labels": LABELS, "x_train": IMAGES}, "received images and x_train"),
        (
            {"images": IMAGES[0, 0, 0], "labels": LABELS},
            "images: received uint8 of shape (1,); images of shape (n, height",
        ),
        ({"images": IMAGES, "labels": LABELS[:9]}, "labels: received labels of shape (9,); (40,)"),
        ({"images": IMAGES, "labels": LABELS / 2}, "labels: received 0.5 in row 1; whole numbers"),
        ({"images": IMAGES, "labels": LABELS * 0}, "labels: received one class; at least two"),
        ({"images": IMAGES * np.nan, "labels": LABELS}, "images: received NaN or infinity"),
        (
            {"images": IMAGES + np.float64(1e39), "labels": LABELS},
            "images: received numbers beyond float32",
        ),
        (
            {"images": IMAGES + np.int32(300), "labels": LABELS},
            "images: received integers 300 to 300; bytes",
        ),
        ({"images": IMAGES > 0, "labels": LABELS}, "images: received bool; bytes or floats"),
        ({"images": IMAGES[:2], "labels": LABELS[:2]}, "for 1 examples"),
        (
            {"images": IMAGES[:4], "labels": LABELS[:4]},
            "split.validation: received 0.2, which leaves none of 4 examples",
        ),
        (
            {"x_train": IMAGES, "y_train": LABELS, "x_test": IMAGES[:, :2], "y_test": LABELS},
            "x_test: received uint8 (2, 4, 1); expected the look of x_train, uint8 (4, 4, 1)",
        ),
        (
            {"x_train": IMAGES, "y_train": LABELS, "x_test": IMAGES, "y_test": LABELS + 1},
            "y_test: received 2 in row 1, a class of no training example",
        ),
        (
            {"images": IMAGES, "labels": np.array(["a"] * 40, object)},
            "cannot be read (Object arrays cannot be loaded when allow_pickle=False)",
        ),
    ],
)
def test_npz_faults_name_file_and_key(tmp_path, values, message):
    split = {"train": 1, "validation": 1, "test": 1} if len(values.get("labels", ())) == 2 else None
    received = fault(tmp_path, own(npz(tmp_path, values), **({"split": split} if split else {})))
    assert message in received
    assert received.startswith("datasets.own")


def test_a_file_that_is_no_npz_is_refused(tmp_path):
    (tmp_path / "own.npz").write_text("text")
    assert "an npz of plain arrays is expected" in fault(tmp_path, own(tmp_path / "own.npz"))
    np.save(tmp_path / "own.npy", IMAGES)
    assert "an npz of plain arrays is expected" in fault(tmp_path, own(tmp_path / "own.npy"))
    assert (
        fault(tmp_path, {"source": "npz"}) == "datasets.own.path: missing; an npz file is expected."
    )


@pytest.mark.parametrize("claimed", [None, 10**15 + 128])
def test_an_array_that_claims_more_than_its_file_holds_is_refused(claimed, tmp_path, monkeypatch):
    """Its header's shape is checked, and the size that the archive's directory claims for it."""
    path, header = tmp_path / "own.npz", io.BytesIO()
    np.lib.format.write_array_header_1_0(
        header, {"descr": "|u1", "fortran_order": False, "shape": (10**15, 1, 1)}
    )
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("images.npy", header.getvalue())
    if claimed:
        infolist = zipfile.ZipFile.infolist

        def lying(archive):
            for info in infolist(archive):
                info.file_size = claimed
            return infolist(archive)

        monkeypatch.setattr(zipfile.ZipFile, "infolist", lying)
    message = fault(tmp_path, own(path))
    assert (
        "cannot be read (images.npy claims 1000000000000000 bytes and has fewer); an npz" in message
    )


# Photographs.


def picture(grey, size=(10, 6), mode="RGB", kind="JPEG"):
    file = io.BytesIO()
    Image.new(mode, size, grey if mode == "L" else (grey,) * len(mode)).save(file, kind)
    return file.getvalue()


def write_zip(path, members):
    with zipfile.ZipFile(path, "w") as archive:
        for name, data in members.items():
            archive.writestr(name, data)
    return path


def cats(path, **more):
    return {"source": "cats_vs_dogs", "path": str(path), "image_size": 4, "split": THIRDS, **more}


def members(count=12):
    """Returns a little archive whose pictures are as bright as their number."""
    return {
        f"PetImages/{name}/{number}.jpg": picture(base + number)
        for base, name in ((0, "Cat"), (100, "Dog"))
        for number in range(count)
    }


def test_cats_take_the_first_readable_of_each_class_in_numeric_order(tmp_path):
    damaged = {
        "PetImages/Cat/2.jpg": b"",
        "PetImages/Dog/1.jpg": picture(0)[:200],
        "PetImages/Dog/Thumbs.db": b"x",
        "readme[1].txt": b"x",
    }
    path = write_zip(tmp_path / "cats.zip", members() | damaged)
    data = prepared(tmp_path, cats(path, per_class=4))
    assert data.record["class_names"] == ["Cat", "Dog"] and data.input_shape == (4, 4, 3)
    assert data.record["class_counts"] == {"train": [2, 2], "validation": [1, 1], "test": [1, 1]}
    assert data.record["skipped_count"] == 2
    assert [entry["file"] for entry in data.record["skipped"]] == ["Cat/2.jpg", "Dog/1.jpg"]
    assert data.record["skipped"][0]["reason"] == "cannot identify image file"
    assert data.record["source_sha256"] == {"cats.zip": disk.file_sha256(path)}
    found = {0: set(), 1: set()}
    for split in records.SPLITS:
        for image, label in zip(data.images(split), data.labels(split), strict=True):
            found[int(label)].add(int(image.max()))
    assert found == {0: {0, 1, 3, 4}, 1: {100, 102, 103, 104}}


def test_all_that_is_skipped_is_counted_though_not_all_is_named(tmp_path, monkeypatch):
    monkeypatch.setattr(datasets, "SKIPPED_LISTED", 3)
    broken = {f"PetImages/Cat/9{number}.jpg": b"?" for number in range(7)}
    record = prepared(tmp_path, cats(write_zip(tmp_path / "a.zip", members() | broken))).record
    assert record["skipped_count"] == 7 and len(record["skipped"]) == 3


def test_nothing_of_an_archive_leaves_its_folder(tmp_path):
    evil = {
        "../evil.txt": b"x",
        "/evil.txt": b"x",
        "PetImages/Cat/../../../evil.jpg": picture(1),
        "PetImages/Cat/sub/evil.jpg": picture(1),
    }
    before = {path.name for path in tmp_path.iterdir()}
    record = prepared(tmp_path, cats(write_zip(tmp_path / "a.zip", members(4) | evil))).record
    assert {path.name for path in tmp_path.iterdir()} - before == {"a.zip", "results"}
    assert record["counts"] == {"train": 4, "validation": 2, "test": 2}
    assert not [path for path in tmp_path.parent.rglob("*evil*")]


def test_faults_of_an_archive(tmp_path):
    path = write_zip(tmp_path / "a.zip", members(3))
    assert "received train 2, validation 1, test 1, for 3 examples" in fault(tmp_path, cats(path))
    message = fault(tmp_path, cats(path, per_class=9))
    assert message == "datasets.own.per_class: received 9, but Cat has only 3 readable images."
    assert "Cat has no readable image" in fault(
        tmp_path, cats(write_zip(tmp_path / "b.zip", {"x.txt": b""}))
    )
    (tmp_path / "c.zip").write_bytes(b"no zip")
    assert "a zip file is expected" in fault(tmp_path, cats(tmp_path / "c.zip"))
    assert "is a folder; the zip file is expected" in fault(tmp_path, cats(tmp_path))
    (tmp_path / "d.zip").write_bytes(path.read_bytes()[:-9])
    assert "a zip file is expected" in fault(tmp_path, cats(tmp_path / "d.zip"))
    assert "image_size: received 0" in fault(tmp_path, cats(path, image_size=0))


def test_photographs_are_stretched_to_the_square():
    half = Image.new("RGB", (40, 10))
    half.paste((200, 100, 50), (20, 0, 40, 10))
    file = io.BytesIO()
    half.save(file, "PNG")
    pixels = photographs.decode(file.getvalue(), 8)
    assert pixels.shape == (8, 8, 3) and pixels.dtype == np.uint8
    assert (pixels[:, :3] == 0).all() and (pixels[:, 5:] == (200, 100, 50)).all()


@pytest.mark.parametrize(
    ("mode", "kind"), [("L", "PNG"), ("RGBA", "PNG"), ("CMYK", "JPEG"), ("RGB", "GIF")]
)
def test_every_kind_of_image_becomes_rgb(mode, kind):
    assert photographs.decode(picture(7, mode=mode, kind=kind), 4).shape == (4, 4, 3)
    assert photographs.decode(picture(7, mode=mode, kind=kind), 4, 1).shape == (4, 4, 1)


def write_folder(folder, names=("b", "a"), count=4):
    for base, name in enumerate(names):
        (folder / name).mkdir(parents=True)
        for number in range(count):
            data = picture(50 * base + number, mode="L", kind="PNG")
            (folder / name / f"img{number}.png").write_bytes(data)
    return folder


def test_image_folder(tmp_path):
    folder = write_folder(tmp_path / "mine")
    (folder / "a" / "notes.txt").write_text("no image")
    (folder / "a" / ".hidden").write_text("not looked at")
    (folder / ".git").mkdir()
    definition = {
        "source": "image_folder",
        "path": str(folder),
        "image_size": 4,
        "channels": 1,
        "split": THIRDS,
    }
    data = prepared(tmp_path, definition)
    assert data.record["class_names"] == ["a", "b"] and data.input_shape == (4, 4, 1)
    assert data.record["skipped"] == [
        {"file": "a/notes.txt", "reason": "cannot identify image file"}
    ]
    assert {int(image.max()) for image in data.images("train")} <= set(range(60))
    bright = [int(image.max()) >= 50 for image in data.images("train")]
    assert bright == [label == 0 for label in data.labels("train")]
    empty = tmp_path / "empty"
    empty.mkdir()
    assert "has 0 folder(s)" in fault(tmp_path, definition | {"path": str(empty)})
    assert "is a file; a folder is expected" in fault(
        tmp_path, definition | {"path": str(folder / "a" / "notes.txt")}
    )


def test_numeric_order():
    names = ["10.jpg", "9.jpg", "a2", "a10", "a", "1.jpg"]
    assert sorted(names, key=photographs.numeric_order) == [
        *["1.jpg", "9.jpg", "10.jpg"],
        *["a", "a2", "a10"],
    ]


# Files.


def test_an_unknown_source_lists_the_known_ones(tmp_path):
    with pytest.raises(UserError, match="received 'digit'; expected one of digits, mnist"):
        datasets.prepare("own-00000000", {"source": "digit"}, tmp_path)


def test_an_incomplete_folder_is_overwritten_and_others_files_stay(tmp_path):
    folder = records.dataset_folder(tmp_path / "results", "own-00000000")
    folder.mkdir(parents=True)
    (folder / "train_images.npy").write_bytes(b"half of i")
    (folder / "prepare.log").write_text("kept")
    definition = {"source": "digits", "split": SPLIT}
    datasets.prepare("own-00000000", definition, tmp_path / "results")
    assert len(datasets.load(tmp_path / "results", "own-00000000").images("train")) == 1087
    assert (folder / "prepare.log").read_text() == "kept"


@pytest.mark.parametrize("moment", [1, 4, 12, 13, 14])
def test_a_crash_leaves_nothing_that_looks_prepared(tmp_path, moment):
    # The process dies at its n-th rename, as if it had been killed there.
    code = (
        "import os, sys; from batchscope import datasets; count = 0\n"
        "real = os.replace\n"
        "def dying(*args):\n"
        "    global count\n"
        "    count += 1\n"
        f"    if count == {moment}: os._exit(9)\n"
        "    real(*args)\n"
        "os.replace = dying\n"
        "datasets.prepare('digits-00000000', {'source': 'digits'}, sys.argv[1])\n"
    )
    environment = {**os.environ, "PYTHONPATH": str(project_files.WORKFLOW)}
    done = subprocess.run([sys.executable, "-c", code, str(tmp_path)], env=environment)
    assert done.returncode == 9
    with pytest.raises(UserError, match="record.json: missing; run snakemake"):
        datasets.load(tmp_path, "digits-00000000")
    datasets.prepare("digits-00000000", {"source": "digits"}, tmp_path)
    assert datasets.load(tmp_path, "digits-00000000").classes == 10


def test_a_full_disk_is_an_error_and_no_signal(tmp_path):
    code = (
        "import resource, signal, sys; from batchscope import datasets, errors\n"
        "signal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (20000, 20000))\n"
        "try: datasets.prepare('digits-00000000', {'source': 'digits'}, sys.argv[1])\n"
        "except errors.UserError as error: print(error)\n"
    )
    environment = {**os.environ, "PYTHONPATH": str(project_files.WORKFLOW)}
    done = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path)], env=environment, capture_output=True, text=True
    )
    assert done.stdout.strip() == "datasets.digits: File too large.", done.stderr
    assert list((tmp_path / "data").iterdir()) == []


def test_load_checks_the_files_against_the_record(tmp_path):
    definition = {"source": "digits", "split": SPLIT}
    data = prepared(tmp_path, definition)
    results, token = tmp_path / "results", data.folder.name
    file = data.folder / "test_images.npy"
    whole = file.read_bytes()
    for content, message in (
        (whole[:-8], r"test_images.npy: received a damaged file \(mmap length is greater"),
        (b"", "test_images.npy: received an empty file"),
        ((data.folder / "train_images.npy").read_bytes(), r"array of shape \(1087, 8, 8, 1\)"),
        (whole[:-8] + bytes(8), "test_images.npy: received SHA-256"),
    ):
        file.write_bytes(content)
        with pytest.raises(UserError, match=message):
            datasets.load(results, token)
    file.write_bytes(whole)
    record = json.loads((data.folder / "record.json").read_text())
    del record["scale"]
    (data.folder / "record.json").write_text(json.dumps(record))
    with pytest.raises(UserError, match=r"record.json: received a damaged file \(without scale\)"):
        datasets.load(results, token)


# Patches.


def cut(size, **more):
    return dataset_definitions.resolve({"source": "patches", "image_size": size, **more})


def test_patches_of_each_photograph(tmp_path):
    definition = cut(256, per_class=10)
    data = prepared(tmp_path, definition, "patches")
    assert data.input_shape == (256, 256, 3) and data.scale == 1 / 255
    assert data.images("train").dtype == np.uint8
    assert data.images("train").shape == (12, 256, 256, 3)
    assert data.record["class_names"] == ["china", "flower"]
    assert data.record["class_counts"] == {"train": [6, 6], "validation": [2, 2], "test": [2, 2]}
    assert sorted(data.record["source_sha256"]) == ["china.jpg", "flower.jpg"]
    assert "danielbuechele" in data.record["source"] and "vultilion" in data.record["source"]
    assert data.record["source"].endswith("CC BY 2.0")
    assert dataset_definitions.training_size(definition) == 12
    assert estimates.data_bytes(definition) == data.record["bytes"]


def test_patches_have_their_defaults():
    written = cut(64, per_class=500, split={"train": 0.6, "validation": 0.2, "test": 0.2})
    assert cut(64) == written and written["split"]["seed"] == 0
    assert dataset_definitions.training_size(written) == 600
    assert dataset_definitions.TIMING_ONLY_SOURCES == ("patches",)


def test_every_patch_is_a_square_of_its_photograph(tmp_path):
    from sklearn.datasets import load_sample_image

    data = prepared(tmp_path, cut(40, per_class=15), "patches")
    squares = [
        np.lib.stride_tricks.sliding_window_view(load_sample_image(f"{name}.jpg"), (40, 40), (0, 1))
        for name in data.record["class_names"]
    ]
    places, ends = set(), [0, 20, 39]
    for split in records.SPLITS:
        for image, label in zip(data.images(split), data.labels(split), strict=True):
            views = squares[label].transpose(0, 1, 3, 4, 2)
            tops, lefts = np.nonzero((views[:, :, ends, ends] == image[ends, ends]).all((2, 3)))
            found = [
                (int(label), int(top), int(left))
                for top, left in zip(tops, lefts, strict=True)
                if (views[top, left] == image).all()
            ]
            assert found
            places.update(found[:1])
    assert len(places) == 30  # all distinct
    assert len({top for _, top, _ in places}) > 15 and len({left for *_, left in places}) > 15


def test_patches_follow_from_the_seed_alone(tmp_path):
    def patched(folder, seed):
        split = {"train": 0.6, "validation": 0.2, "test": 0.2, "seed": seed}
        return prepared(tmp_path / folder, cut(32, per_class=20, split=split), "patches")

    def all_patches(data):
        return {image.tobytes() for split in records.SPLITS for image in data.images(split)}

    first, again, other = patched("a", 0), patched("b", 0), patched("c", 1)
    assert first.record["sha256"] == again.record["sha256"]
    assert len(all_patches(first)) == 40
    # Other places, not the same patches dealt otherwise.
    assert not all_patches(first) & all_patches(other)


def test_positions_of_patches_are_distinct_where_possible():
    def draw(count, seed=0):
        corners = patches.corners(np.random.default_rng(seed), (6, 9), 4, count)
        assert corners.shape == (count, 2)
        return [tuple(corner) for corner in corners.tolist()]

    everywhere = {(top, left) for top in range(3) for left in range(6)}
    assert set(draw(18)) == everywhere
    assert sorted(draw(36)) == sorted([*everywhere, *everywhere])
    assert len(set(draw(17))) == 17
    assert draw(5) == draw(18)[:5] != draw(5, seed=1)
    assert patches.corners(np.random.default_rng(0), (4, 4), 4, 3).tolist() == [[0, 0]] * 3


def test_the_largest_patch_has_the_height_of_the_photographs(tmp_path):
    data = prepared(tmp_path, cut(427, per_class=5), "patches")
    assert data.images("test").shape == (2, 427, 427, 3)


@pytest.mark.parametrize("size", [500, 15, 428])
def test_patches_that_do_not_fit_are_refused(tmp_path, size):
    message = f"image_size: received {size}; a whole number from 16 to 427 is expected."
    assert fault(tmp_path, cut(size), "big") == f"datasets.big.{message}"
    path = tmp_path / "config.yaml"
    path.write_text(
        "study: s\n"
        f"datasets: {{big: {{source: patches, image_size: {size}}}}}\n"
        "defaults: {dataset: digits, model: small_cnn, optimizer: sgd, learning_rate: 0.1}\n"
        "experiments: {a: {set: {epochs: 1, batch_size: 8}, seeds: 1}}\n"
    )
    with pytest.raises(ConfigError) as caught:
        config.study(path)
    assert str(caught.value) == f"datasets.big.{message}"


def test_patches_without_their_photographs(tmp_path, monkeypatch):
    monkeypatch.setattr(patches, "scikit_learn_data", lambda: tmp_path)
    message = fault(tmp_path, cut(16), "patches")
    assert message.startswith("datasets.patches: scikit-learn's china.jpg cannot be read (")
    assert message.endswith("install the project's dependencies again.")


# The real ones.


@real
def test_the_real_mnist(tmp_path):
    data = prepared(tmp_path, mnist(Path(DATA) / "mnist", 10000), "mnist")
    assert data.record["counts"] == {"train": 50000, "validation": 10000, "test": 10000}
    # The official labels: their counts by digit, in the training file and in the test file.
    counts = data.record["class_counts"]
    assert [sum(pair) for pair in zip(counts["train"], counts["validation"], strict=True)] == [
        *[5923, 6742, 5958, 6131, 5842],
        *[5421, 5918, 6265, 5851, 5949],
    ]
    assert counts["test"] == [980, 1135, 1032, 1010, 982, 892, 958, 1028, 974, 1009]
    assert data.labels("test")[:10].tolist() == [7, 2, 1, 0, 4, 1, 4, 9, 5, 9]
    everything = np.concatenate([data.images("train"), data.images("validation")])
    assert abs(everything.mean() / 255 - 0.1307) < 1e-4


@real
def test_a_part_of_the_real_mnist(tmp_path):
    definition = mnist(Path(DATA) / "mnist", 5000) | {"per_class": 5421}  # all fives
    definition["split"]["validation_from"] = "test"
    data = prepared(tmp_path, definition, "mnist")
    assert data.record["counts"] == {"train": 54210, "validation": 5000, "test": 5000}
    assert data.record["class_counts"]["train"] == [5421] * 10


@real
def test_the_real_cats_and_dogs(tmp_path):
    path = max((Path(DATA) / "cats_vs_dogs").glob("*.zip"), key=lambda path: path.stat().st_size)
    split = {"train": 600, "validation": 200, "test": 200, "seed": 0}
    data = prepared(tmp_path, cats(path, image_size=32, per_class=1000, split=split))
    assert data.record["class_counts"] == {
        "train": [600, 600],
        "validation": [200, 200],
        "test": [200, 200],
    }
    assert [entry["file"] for entry in data.record["skipped"]] == ["Cat/666.jpg"]
    means = data.images("train").mean((0, 1, 2))
    assert ((means > 100) & (means < 140)).all()
