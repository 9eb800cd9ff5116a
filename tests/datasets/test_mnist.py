"""MNIST from npz and idx files, its faults, and files that are downloaded and checked."""

from __future__ import annotations

import gzip
import hashlib
import http.server
import struct
import threading
from pathlib import Path

import numpy as np
import pytest

from batchscope.datasets import arrays, photographs
from prepared_data import DATA, THIRDS, fault, little_mnist, npz, prepared, real


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

    kept = np.concatenate([data.images("train"), data.images("validation")])
    first = values["x_train"][:40]  # four of each class
    assert sorted(map(bytes, kept)) == sorted(map(bytes, first))
    assert (data.images("test")[..., 0] == values["x_test"]).all()
    assert fault(tmp_path, definition | {"per_class": 6}) == (
        "datasets.own.per_class: received 6, but 3 has only 5 training images."
    )


def test_mnist_faults(tmp_path):
    values = little_mnist()
    folder = write_idx(tmp_path / "idx", values)
    assert "missing y_test" in fault(tmp_path, mnist(npz(tmp_path, values, without="y_test")))
    short = values | {"y_train": values["y_train"][:-1]}
    assert "(50,) is expected" in fault(tmp_path, mnist(npz(tmp_path, short)))
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


# What a broken proxy may send.
REPLIES = {
    "/garbage.npz": b"<html>\r\n",
    "/chunks.npz": b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n9\r\ncut",
    "/length.npz": b"HTTP/1.1 200 OK\r\nContent-Length: many\r\n\r\nx",
}


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
            if reply := REPLIES.get(self.path):
                self.wfile.write(reply)
                return
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
        thread = threading.Thread(target=service.serve_forever, args=[0.01])  # s between looks
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


@pytest.mark.parametrize(
    ("file", "reason"),
    [
        ("absent.npz", " cannot be downloaded (HTTP Error 404: File not found); "),
        ("short.npz", " ended after 7 of 1000 bytes; try again, or "),
        ("garbage.npz", " cannot be downloaded (BadStatusLine('<html>\\r\\n')); "),
        ("chunks.npz", " cannot be downloaded (IncompleteRead("),
        ("length.npz", ": received SHA-256 "),
    ],
)
def test_a_failed_download_says_how_to_go_on(tmp_path, server, monkeypatch, file, reason):
    monkeypatch.setattr(arrays, "MNIST_URL", f"{server[1]}/{file}")
    message = fault(tmp_path, {"source": "mnist", "split": {"validation": 10}}, "mnist")
    assert message.startswith(f"datasets.mnist: {server[1]}/{file}{reason}")
    assert message.endswith("download it yourself and name the file as datasets.mnist.path.")
    assert not list((tmp_path / "results" / "downloads").iterdir())


def test_without_a_network(tmp_path, monkeypatch):
    monkeypatch.setattr(photographs, "CATS_URL", "http://127.0.0.1:9/cats.zip")
    definition = {"source": "cats_vs_dogs", "image_size": 8, "split": THIRDS}
    message = fault(tmp_path, definition, "cats")
    assert "cats.zip cannot be downloaded (" in message and "datasets.cats.path" in message


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
