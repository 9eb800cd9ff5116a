"""Files from the network: checked, kept, and what a failed download leaves and says."""

import hashlib
import http.server
import threading

import numpy as np
import pytest

from batchscope.datasets.sources import mnist
from prepared_data import fault, little_mnist, prepared

MNIST = {"source": "mnist", "split": {"validation": 10}}
PAGE = b"<!DOCTYPE html><title>Sign in</title>"


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
            if self.path == "/garbage.npz":  # what a broken proxy may send
                self.wfile.write(b"<html>\r\n")
            else:
                super().do_GET()

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
    monkeypatch.setattr(mnist, "URL", f"{url}/mnist.npz")
    message = fault(tmp_path, MNIST, "mnist")
    assert f"{url}/mnist.npz: received SHA-256 " in message and mnist.SHA256 in message
    kept = tmp_path / "results" / "downloads" / "mnist.npz"
    assert list(kept.parent.iterdir()) == []

    monkeypatch.setattr(mnist, "SHA256", hashlib.sha256(data).hexdigest())
    record = prepared(tmp_path, MNIST, "mnist").record
    assert record["source"] == f"{url}/mnist.npz"
    assert record["source_sha256"] == {"mnist.npz": hashlib.sha256(data).hexdigest()}
    assert kept.read_bytes() == data
    asked.clear()
    prepared(tmp_path, MNIST, "mnist")
    assert asked == []  # the kept file was used
    kept.write_bytes(PAGE)
    message = fault(tmp_path, MNIST, "damaged")
    assert message.startswith(f"datasets.damaged: {kept}: received SHA-256 ")
    assert message.endswith("Delete it to download it again.") and asked == []


@pytest.mark.parametrize(
    ("file", "error"),
    [
        ("absent.npz", "<HTTPError 404: 'File not found'>"),
        ("garbage.npz", "BadStatusLine('<html>\\r\\n')"),
    ],
)
def test_a_failed_download_names_the_address_and_the_key(
    file, error, tmp_path, server, monkeypatch
):
    monkeypatch.setattr(mnist, "URL", f"{server[1]}/{file}")
    message = fault(tmp_path, MNIST, "mnist")
    reason = f"{server[1]}/{file} cannot be downloaded ({error});"
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
