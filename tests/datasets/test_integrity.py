"""What is wrong with files is found and reported: images, prepared arrays, downloads, warnings."""

from __future__ import annotations

import email
import io
import json
import os
import shlex
import subprocess
import sys
import urllib.request
import urllib.response
from pathlib import Path

import numpy as np
import pytest
from PIL import ExifTags, Image
from test_datasets import LABELS, own
from test_mnist import server
from test_photographs import picture, write_folder

import report_example
from batchscope import datasets, disk
from batchscope.datasets import arrays, download, photographs, verification
from batchscope.errors import UserError
from batchscope.report import content, study_page
from batchscope.store import data_warnings, records, status
from batchscope.study import config
from digit_runs import DIGITS
from prepared_data import THIRDS, fault, little_mnist, npz, prepared

__all__ = ["server"]  # a fixture


def folder_of(tmp_path, **more):
    folder = write_folder(tmp_path / "mine")
    source = {"source": "image_folder", "path": str(folder), "image_size": 4, "channels": 1}
    return folder, {**source, "split": THIRDS, **more}


@pytest.mark.parametrize(
    ("array", "ending", "what"),
    [
        (np.array([[0, 65535]], np.uint16), "png", "uint16 (mode I;16)"),
        (np.array([[0, 65535]], np.uint16), "tif", "uint16 (mode I;16)"),
        (np.array([[0, 65535]], ">u2"), "tif", "uint16 (mode I;16B)"),
        (np.array([[0, 70000]], np.int32), "tif", "int32 (mode I)"),
        (np.array([[0, 0.5]], np.float32), "tif", "float32 (mode F)"),
    ],
    ids=lambda value: str(value) if isinstance(value, str) else "",
)
def test_images_that_bytes_cannot_hold_are_refused_by_name(tmp_path, array, ending, what):
    folder, definition = folder_of(tmp_path)
    Image.fromarray(array).save(folder / "a" / f"img0.{ending}")
    assert fault(tmp_path, definition) == (
        f"datasets.own: a/img0.{ending}: received pixels of {what}; 8 bits per channel are "
        "expected. Convert the images, or give their numbers as an npz of floats."
    )


@pytest.mark.parametrize("orientation", range(1, 9))
@pytest.mark.parametrize("kind", ["PNG", "TIFF", "JPEG"])
def test_images_are_turned_as_their_exif_says(orientation, kind):
    upright = np.zeros((16, 16), np.uint8)
    upright[:8, :8], upright[:8, 8:], upright[8:, :8] = 240, 160, 80
    stored = {  # what a camera writes that was held so
        1: upright,
        2: upright[:, ::-1],
        3: upright[::-1, ::-1],
        4: upright[::-1],
        5: upright.T,
        6: np.rot90(upright),
        7: upright[::-1, ::-1].T,
        8: np.rot90(upright, 3),
    }[orientation]
    exif = Image.Exif()
    exif[ExifTags.Base.Orientation] = orientation
    file = io.BytesIO()
    Image.fromarray(np.ascontiguousarray(stored)).save(file, kind, exif=exif, quality=100)
    pixels = photographs.decode(file.getvalue(), 16, 1)[..., 0].astype(int)
    assert np.abs(pixels - upright).max() < 8


def test_an_image_with_damaged_tags_is_read_as_it_lies():
    file = io.BytesIO()
    Image.new("L", (4, 4), 7).save(file, "JPEG", exif=b"Exif\0\0" + b"XX*\0\x08\0\0\0\xff\xff")
    assert photographs.decode(file.getvalue(), 4, 1).max() == 7


@pytest.mark.parametrize("key", ["labels", "y_test"])
def test_labels_are_checked_before_they_are_cut_to_32_bits(tmp_path, key):
    images = np.zeros((40, 4, 4, 1), np.uint8)
    values = {"images": images, "labels": LABELS + 2**32}
    if key == "y_test":
        values = {"x_train": images, "y_train": LABELS, "x_test": images, key: LABELS + 2**32}
        message = fault(tmp_path, own(npz(tmp_path, values)))
        assert "y_test: received 4294967296 in row 0, a class of no training example" in message
    else:
        data = prepared(tmp_path, own(npz(tmp_path, values)))
        assert data.record["class_names"] == ["4294967296", "4294967297"]
        assert set(data.labels("train").tolist()) == {0, 1}
    values[key] = LABELS.astype(np.uint64)  # any integers will do
    assert prepared(tmp_path, own(npz(tmp_path, values))).labels("test").dtype == np.int32


@pytest.fixture
def digits(tmp_path):
    datasets.prepare("digits-00000000", {"source": "digits"}, tmp_path)
    return records.dataset_folder(tmp_path, "digits-00000000")


def load(folder, **more):
    return datasets.load(folder.parents[1], folder.name, **more)


def alter(path):
    """Changes one byte, and neither length nor time of modification."""
    before = path.stat()
    whole = bytearray(path.read_bytes())
    whole[-1] ^= 1
    path.write_bytes(bytes(whole))
    while path.stat().st_ctime_ns == before.st_ctime_ns:  # clocks of file systems are coarse
        os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))


@pytest.mark.parametrize("file", ["train_images.npy", "test_labels.npy"])
def test_an_altered_array_of_the_same_length_is_refused(digits, file):
    load(digits)
    alter(digits / file)
    for _ in range(2):  # and not only the first time
        with pytest.raises(UserError) as caught:
            load(digits)
    expected = json.loads((digits / "record.json").read_text())["sha256"][file]
    assert str(caught.value) == (
        f"{digits / file}: received SHA-256 {disk.file_sha256(digits / file)}; {expected} is "
        f"expected. Delete {digits} and run snakemake again."
    )


def test_arrays_are_hashed_once_per_change(digits, monkeypatch):
    hashed = []
    real = disk.file_sha256
    monkeypatch.setattr(disk, "file_sha256", lambda path: hashed.append(path.name) or real(path))
    load(digits)
    assert hashed == []  # they were hashed when they were prepared
    os.utime(digits / "test_labels.npy", (0, 0))
    load(digits)
    load(digits)
    assert hashed == ["test_labels.npy"]
    (digits / "verified.json").write_text("{")  # states nothing
    load(digits)
    load(digits)
    assert len(hashed) == 7
    load(digits, verify=True)
    assert len(hashed) == 13


def test_arrays_that_can_only_be_read_are_hashed_every_time(digits, monkeypatch):
    (digits / "verified.json").unlink()

    def refuse(*_):
        raise PermissionError(30, "Read-only file system")

    monkeypatch.setattr(disk, "write_json", refuse)
    load(digits)
    alter(digits / "train_images.npy")
    with pytest.raises(UserError, match="received SHA-256"):
        load(digits)


def test_a_missing_array_is_made_again_with_its_folder(digits):
    (digits / "train_labels.npy").unlink()
    with pytest.raises(UserError) as caught:
        load(digits)
    path = digits / "train_labels.npy"
    assert str(caught.value) == f"{path}: missing; delete {digits} and run snakemake again."


def test_arrays_that_come_out_otherwise_than_before_are_reported(tmp_path, digits):
    disk.write_json(records.run_folder(tmp_path, "digits-00000000+x") / "record.json", {})
    again = {"source": "digits"}
    assert datasets.prepare("digits-00000000", again, tmp_path) == []
    alter(digits / "train_images.npy")  # as an earlier version might have written it
    assert datasets.prepare("digits-00000000", again, tmp_path) == [
        "datasets.digits: its arrays are no longer those that 1 run(s) in "
        f"{tmp_path}/runs may have read; delete {tmp_path}/runs/digits-00000000+* to train them "
        "again."
    ]


@pytest.fixture
def study(tmp_path):
    path = tmp_path / "config.yaml"
    path.write_text(
        "study: s\n"
        "defaults: {dataset: digits, model: small_cnn, optimizer: sgd, learning_rate: 0.1}\n"
        "experiments: {a: {set: {epochs: 1, batch_size: 8}, seeds: 1}}\n"
    )
    return config.study(path)


def test_verify_reads_every_byte_and_names_all_that_changed(tmp_path, study):
    results = tmp_path / "results"
    assert "0 data set(s)" in verification.verify(study, results)
    (token,), (run,) = study.datasets, study.runs
    datasets.prepare(token, DIGITS, results)
    folder, data = records.run_folder(results, run), records.dataset_folder(results, token)
    for name in ("initial", "final", "best"):
        records.write_weights(folder / f"{name}.npz", {name: np.ones(9)}, {})
    sha256 = {path.stem: disk.file_sha256(path) for path in folder.glob("*.npz")}
    disk.write_json(folder / "record.json", {"status": "finished", "weights": sha256})
    assert verification.verify(study, results) == (
        "Verified by SHA-256: the arrays of 1 data set(s), the weights of 1 run(s)."
    )
    alter(data / "train_images.npy")
    record = json.loads((data / "record.json").read_text())
    datasets.checksums.note(data, record["sha256"])  # as if neither size nor times had changed
    datasets.load(results, token)
    alter(folder / "best.npz")
    with pytest.raises(UserError) as caught:
        verification.verify(study, results)
    first, second = str(caught.value).splitlines()
    assert first.startswith(f"{data / 'train_images.npy'}: received SHA-256")
    assert second.startswith(f"{folder / 'best.npz'}: received SHA-256")
    assert second.endswith(f"Delete {folder / 'record.json'} and run snakemake again.")


PAGE = b"<!DOCTYPE html><title>Sign in</title>"


def test_a_page_in_place_of_the_archive_is_not_kept(tmp_path, server, monkeypatch):
    served, url, _ = server
    (served / "cats.html").write_bytes(PAGE)
    monkeypatch.setattr(photographs, "CATS_URL", f"{url}/cats.html")
    definition = {"source": "cats_vs_dogs", "image_size": 4, "split": THIRDS}
    message = fault(tmp_path, definition, "cats")
    assert message.startswith(f"datasets.cats: {url}/cats.html: received SHA-256 ")
    text = f"; {photographs.CATS_SHA256} is expected. The server sent 37 bytes of text/html; "
    assert text in message
    assert list((tmp_path / "results" / "downloads").iterdir()) == []


def test_a_bad_file_that_was_kept_is_removed_and_fetched_again(
    tmp_path, server, monkeypatch, capsys
):
    served, url, _ = server
    np.savez(served / "mnist.npz", **little_mnist())
    monkeypatch.setattr(arrays, "MNIST_URL", f"{url}/mnist.npz")
    monkeypatch.setattr(arrays, "MNIST_SHA256", disk.file_sha256(served / "mnist.npz"))
    kept = tmp_path / "results" / "downloads" / "mnist.npz"
    kept.parent.mkdir(parents=True)
    kept.write_bytes(PAGE)
    prepared(tmp_path, {"source": "mnist", "split": {"validation": 10}}, "mnist")
    assert kept.read_bytes() == (served / "mnist.npz").read_bytes()
    output = capsys.readouterr().out
    assert output.startswith(f"datasets.mnist: {kept}: received SHA-256 ")
    assert output.endswith("is expected. It is removed and downloaded again.\n")


def test_no_redirect_leaves_encryption(tmp_path, server, monkeypatch):
    served, url, asked = server
    np.savez(served / "mnist.npz", **little_mnist())

    class Redirecting(urllib.request.HTTPSHandler):
        def https_open(self, request):
            headers = email.message_from_string(f"Location: {url}/mnist.npz\n\n")
            answer = urllib.response.addinfourl(io.BytesIO(), headers, request.full_url, 302)
            answer.msg = "Found"
            return answer

    real = urllib.request.build_opener
    monkeypatch.setattr(
        urllib.request, "build_opener", lambda *handlers: real(Redirecting, *handlers)
    )
    monkeypatch.setattr(urllib.request, "_opener", None)  # what urlopen would go on with
    monkeypatch.setattr(arrays, "MNIST_URL", "https://example.org/mnist.npz")
    message = fault(tmp_path, {"source": "mnist", "split": {"validation": 10}}, "mnist")
    assert f"cannot be downloaded (redirected to {url}/mnist.npz, which is not" in message
    assert asked == []


def test_a_redirect_that_stays_encrypted_is_followed():
    handler = download._Redirects()
    request = urllib.request.Request("https://example.org/a")
    followed = handler.redirect_request(request, None, 302, "Found", {}, "https://example.org/b")
    assert followed.full_url == "https://example.org/b"


def warned(tmp_path):
    folder, definition = folder_of(tmp_path, split={"train": 0.6, "validation": 0.2, "test": 0.2})
    for number in range(4, 10):
        for name in "ab":
            (folder / name / f"img{number}.png").write_bytes(picture(number, mode="L", kind="PNG"))
    for number in range(5):
        (folder / "a" / f"bad{number}.jpg").write_bytes(b"no image")
    (folder / "rare").mkdir()
    (folder / "rare" / "one.png").write_bytes(picture(9, mode="L", kind="PNG"))
    results, token = tmp_path / "results", "own-00000000"
    return datasets.prepare(token, definition, results), results, token


SKIPPED = (
    "datasets.own: 5 unreadable files were skipped: a/bad0.jpg (cannot identify image "
    "file), a/bad1.jpg (cannot identify image file), a/bad2.jpg (cannot identify image file) and "
    "2 more."
)
RARE = (
    "datasets.own: 1 class has no example in the validation or test set: rare (train 1, "
    "validation 0, test 0)."
)


def test_skipped_files_and_classes_that_only_train_are_reported(tmp_path):
    messages, results, token = warned(tmp_path)
    assert messages == [SKIPPED, RARE]
    assert data_warnings.read(results, token) == messages
    assert data_warnings.read(results, "other-00000000") == []
    datasets.prepare("digits-00000000", DIGITS, results)
    assert data_warnings.read(results, "digits-00000000") == []


def test_the_plan_shows_them(tmp_path, study):
    _, results, token = warned(tmp_path)
    study.datasets[token] = next(iter(study.datasets.values()))
    found = status.overview(study, results)
    lines = status.describe(study, found, "config.yaml", 2).splitlines()
    assert lines[-2:] == [f"Warning: {SKIPPED}", f"Warning: {RARE}"]


@pytest.mark.slow
def test_the_report_shows_them(tmp_path):
    study, results, path = report_example.write(tmp_path, seeds=2, troubles=False)
    (token,) = study.datasets
    place = records.dataset_folder(results, token) / "record.json"
    record = json.loads(place.read_text())
    files = [{"file": f"<{number}>.jpg", "reason": "damaged"} for number in range(2)]
    record |= {"skipped": files, "skipped_count": 9}
    record |= {"class_names": ["rare", "many"]}
    record |= {"class_counts": {"train": [1, 6], "validation": [0, 2], "test": [0, 2]}}
    place.write_text(json.dumps(record))
    page = study_page.build(study, content.read(study, results, path))
    section = page[page.index('id="data"') : page.index('id="machine"')]
    assert "9 unreadable files were skipped: &lt;0&gt;.jpg (damaged)" in section
    assert "<li>and 7 more</li>" in section
    assert "rare (train 1, validation 0, test 0)" in section


def test_the_job_shows_them_on_the_terminal(tmp_path):
    """Its log holds nothing else, and the rule shows it when it is done."""
    rule = (Path(__file__).parents[2] / "workflow" / "rules" / "data.smk").read_text()
    shell = "".join(
        json.loads(line) for line in rule.partition("shell:")[2].splitlines() if line.strip()
    )
    folder, definition = folder_of(tmp_path)
    (folder / "a" / "bad.jpg").write_bytes(b"no image")
    command = (
        shell.replace("{wildcards.dataset:q}", "own-00000000")
        .replace("{params.definition:q}", shlex.quote(json.dumps(definition)))
        .replace("{log:q}", shlex.quote(str(tmp_path / "log")))
        .replace("workflow/run.py", str(Path(__file__).parents[2] / "workflow" / "run.py"))
    )
    environment = {**os.environ, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}
    done = subprocess.run(
        command, shell=True, cwd=tmp_path, capture_output=True, text=True, env=environment
    )
    assert done.returncode == 0
    assert done.stderr == (
        "Warning: datasets.own: 1 unreadable file was skipped: a/bad.jpg (cannot "
        "identify image file).\n"
    )
