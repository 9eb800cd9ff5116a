"""Files from the network: checked, kept, and what a failed download leaves and says."""

import hashlib
import http.client
import urllib.error
import urllib.request
from unittest.mock import Mock

import numpy as np
import pytest

from batchscope.datasets.sources import mnist
from prepared_data import fault, little_mnist, prepared

MNIST = {"source": "mnist", "split": {"validation": 10}}
PAGE = b"<!DOCTYPE html><title>Sign in</title>"


def test_a_download_is_checked_and_kept(tmp_path, monkeypatch):
    served = tmp_path / "served" / "mnist.npz"
    served.parent.mkdir()
    np.savez(served, **little_mnist())
    data = served.read_bytes()
    monkeypatch.setattr(mnist, "URL", served.as_uri())
    message = fault(tmp_path, MNIST, "mnist")
    assert f"{mnist.URL}: received SHA-256 " in message and mnist.SHA256 in message
    kept = tmp_path / "results" / "downloads" / "mnist.npz"
    assert list(kept.parent.iterdir()) == []

    monkeypatch.setattr(mnist, "SHA256", hashlib.sha256(data).hexdigest())
    record = prepared(tmp_path, MNIST, "mnist").record
    assert record["source"] == mnist.URL
    assert record["source_sha256"] == {"mnist.npz": hashlib.sha256(data).hexdigest()}
    assert kept.read_bytes() == data
    served.unlink()
    prepared(tmp_path, MNIST, "mnist")  # of the kept file
    kept.write_bytes(PAGE)
    message = fault(tmp_path, MNIST, "damaged")
    assert message.startswith(f"datasets.damaged: {kept}: received SHA-256 ")
    assert message.endswith("Delete it to download it again.")


@pytest.mark.parametrize(
    "error",
    [
        urllib.error.HTTPError(mnist.URL, 404, "File not found", None, None),
        http.client.BadStatusLine("<html>"),  # what a broken proxy may send
    ],
)
def test_a_failed_download_names_the_address_and_the_key(error, tmp_path, monkeypatch):
    monkeypatch.setattr(urllib.request, "urlopen", Mock(side_effect=error))
    message = fault(tmp_path, MNIST, "mnist")
    reason = f"{mnist.URL} cannot be downloaded ({error!r});"
    assert message.startswith(f"datasets.mnist: {reason}")
    assert "datasets.mnist.path" in message
    assert not list((tmp_path / "results" / "downloads").iterdir())


def test_a_file_of_the_users_is_the_one_that_is_pinned(tmp_path):
    path = tmp_path / "own.npz"
    np.savez(path, **little_mnist())
    sha256 = hashlib.sha256(path.read_bytes()).hexdigest()
    own = MNIST | {"path": str(path)}
    wrong = fault(tmp_path, own | {"sha256": "0" * 64})
    assert wrong.startswith(f"datasets.own.path: {path}: received SHA-256 {sha256};")
    folder = fault(tmp_path, own | {"path": str(tmp_path), "sha256": sha256})
    assert folder.startswith(f"datasets.own.path: received the folder {tmp_path}")
    assert prepared(tmp_path, own | {"sha256": sha256}).record["source"] == str(path)
