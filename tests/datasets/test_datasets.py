"""Data sets: splits, digits, the user's arrays and their faults, and what a crash leaves behind."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
import zipfile

import numpy as np
import pytest

from batchscope import datasets, disk, project_files
from batchscope.catalogue import dataset_definitions
from batchscope.datasets import splits
from batchscope.errors import UserError
from batchscope.store import records
from costs import first
from prepared_data import SPLIT, fault, little_mnist, npz, prepared


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
        ({"train": 8, "validation": 2, "test": 1}, "train 8, validation 2, test 1, for 10"),
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


def own(path, **more):
    return {"source": "npz", "path": str(path), "split": SPLIT, **more}


def test_npz_is_split_class_by_class(tmp_path):
    images = np.arange(40 * 12, dtype=np.float64).reshape(40, 2, 2, 3)
    path = npz(tmp_path, {"images": images, "labels": np.arange(40)[:, None] % 2})
    data = prepared(tmp_path, own(path))
    assert data.scale == 1.0 and data.images("train").dtype == np.float32
    counts = {"train": [12, 12], "validation": [4, 4], "test": [4, 4]}
    assert data.record["class_counts"] == counts
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
    np.save(tmp_path / "own.npy", IMAGES)
    for name in ("own.npz", "own.npy"):
        assert "an npz of plain arrays is expected" in fault(tmp_path, own(tmp_path / name))


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
    text = "cannot be read (images.npy claims 1000000000000000 bytes and has fewer); an npz"
    assert text in fault(tmp_path, own(path))


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


def run(code, folder):
    environment = {**os.environ, "PYTHONPATH": str(project_files.WORKFLOW)}
    command = [sys.executable, "-c", code, str(folder)]
    return subprocess.run(command, env=environment, capture_output=True, text=True)


@pytest.mark.parametrize("moment", first([1, 4, 12, 13, 14]))
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
    assert run(code, tmp_path).returncode == 9
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
    done = run(code, tmp_path)
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
