"""Prepared folders: their arrays and record, fitted features, crashes and changed files."""

import itertools
import json
import multiprocessing
import os
import resource
import signal

import numpy as np
import pandas
import pytest

from batchscope import datasets
from batchscope.core import disk
from batchscope.core.errors import UserError
from batchscope.datasets import preparation
from batchscope.datasets.prepared import input_and_size_from_definition
from batchscope.store import paths
from batchscope.study import dataset_definitions
from prepared_data import all_parts, csv, fault, npz, prepared, read
from project import ROOT

TOKEN = "digits-00000000"


def alter(path):
    """Changes one byte, and neither length nor time of modification."""
    before = path.stat()
    complete = bytearray(path.read_bytes())
    complete[-1] ^= 1
    path.write_bytes(bytes(complete))
    while path.stat().st_ctime_ns == before.st_ctime_ns:  # clocks of file systems are coarse
        os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))


def test_a_folder_holds_its_arrays_and_their_record(tmp_path):
    data = read(tmp_path, {"source": "digits"})
    assert data.model_input[:4] == ((8, 8, 1), 10, "images", 1)
    assert data.record["counts"] == {"train": 1087, "validation": 355, "test": 355}
    images = data.images("train")
    assert isinstance(images, np.memmap) and not images.flags.writeable
    assert images.dtype == np.uint8 and data.labels("train").dtype == np.int32
    for split in paths.SPLITS:
        counts = np.bincount(data.labels(split), minlength=10).tolist()
        assert data.record["class_counts"][split] == counts
    for file, sha256 in data.record["sha256"].items():
        assert disk.file_sha256(data.folder / file) == sha256
    assert data.record["bytes"] == 1797 * 64
    assert sorted(path.name for path in data.folder.iterdir()) == sorted(
        [*data.record["sha256"], "record.json", "verified.json"]
    )
    assert read(tmp_path / "again", {"source": "digits"}).record["sha256"] == data.record["sha256"]
    few = data.examples("train").rows(np.array([3, 1]))
    assert (few.images == images[[3, 1]]).all() and few.scale == 1 / 16
    assert few.labels.tolist() == data.labels("train")[[3, 1]].tolist()


def test_a_class_that_nothing_trains_is_refused(tmp_path):
    values = {"x_train": np.zeros((9, 2, 2), np.uint8), "y_train": np.array([0, 1] * 4 + [2])}
    definition = npz(tmp_path, values, split={"validation": 1, "test": 1})
    assert "split: received validation 1, test 1, for 1 examples;" in fault(tmp_path, definition)
    path, split = str(tmp_path / "own.npz"), {"validation": 8}
    np.savez(path, **values, x_test=values["x_train"], y_test=values["y_train"])
    message = fault(tmp_path, {"source": "mnist", "path": path, "split": split})
    assert message.startswith("datasets.own: received no example of ")


def exit_status(work):
    """Call a function in a process of its own; return the exit status."""
    process = multiprocessing.get_context("fork").Process(target=work)
    process.start()
    process.join()
    return process.exitcode


@pytest.mark.parametrize("moment", [1, 2])
def test_a_crash_leaves_nothing_that_looks_prepared(tmp_path, moment):
    def crash():
        count, replace = itertools.count(1), os.replace
        os.replace = lambda *paths: os._exit(9) if next(count) == moment else replace(*paths)
        datasets.prepare(TOKEN, {"source": "digits"}, tmp_path)

    assert exit_status(crash) == 9
    with pytest.raises(UserError, match="record.json: missing; run snakemake"):
        datasets.load(tmp_path, TOKEN)
    datasets.prepare(TOKEN, {"source": "digits"}, tmp_path)
    assert datasets.load(tmp_path, TOKEN).classes == 10


def test_a_full_disk_is_an_error_and_no_signal(tmp_path):
    def fill():
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (20000, 20000))
        with pytest.raises(UserError, match="^datasets.digits: File too large "):
            datasets.prepare(TOKEN, {"source": "digits"}, tmp_path)

    assert exit_status(fill) == 0
    assert list((tmp_path / "data").iterdir()) == []


def test_arrays_that_come_out_otherwise_than_before_are_reported(tmp_path):
    definition = {"source": "digits"}
    datasets.prepare(TOKEN, definition, tmp_path)
    disk.write_json(paths.run_folder(tmp_path, f"{TOKEN}+x") / "record.json", {})
    assert datasets.prepare(TOKEN, definition, tmp_path) == []
    # As an earlier version might have written it.
    alter(paths.dataset_folder(tmp_path, TOKEN) / "train_images.npy")
    (warning,) = datasets.prepare(TOKEN, definition, tmp_path)
    assert "1 run(s)" in warning and f"delete {tmp_path}/runs/{TOKEN}+* " in warning


@pytest.fixture
def folder(tmp_path):
    datasets.prepare(TOKEN, {"source": "digits"}, tmp_path)
    return paths.dataset_folder(tmp_path, TOKEN)


def load(folder):
    return datasets.load(folder.parents[1], folder.name)


def test_an_altered_array_of_the_same_length_is_refused(folder):
    load(folder)
    path = folder / "test_labels.npy"
    alter(path)
    for _ in range(2):  # and not only the first time
        with pytest.raises(UserError) as caught:
            load(folder)
    received = f"{path}: received SHA-256 {disk.file_sha256(path)};"
    assert str(caught.value).startswith(received) and f"Delete {folder} " in str(caught.value)
    path.unlink()
    with pytest.raises(UserError, match=f"{path}: missing; delete {folder} "):
        load(folder)


def test_arrays_are_hashed_once_per_change(folder, monkeypatch):
    load(folder)
    hashed = []
    real = disk.file_sha256
    monkeypatch.setattr(disk, "file_sha256", lambda path: hashed.append(path.name) or real(path))
    os.utime(folder / "test_labels.npy", (0, 0))
    load(folder)
    load(folder)
    assert hashed == ["test_labels.npy"]


PAGE = (ROOT / "docs" / "data_and_models.md").read_text(encoding="utf-8")
CODE = PAGE[PAGE.index("import json\n") :].partition("```")[0]
NAN = np.nan
TRAIN = pandas.DataFrame({"x": [1, NAN, 4, 7], "k": ["a", "c", NAN, "a"], "z": 5.0})
OTHERS = pandas.DataFrame({"x": [NAN, 10, 1], "k": ["b", "c", "b"], "z": [6.0, 5, 5]})


def test_features_by_hand():
    transformer = preparation.fit_features("own", TRAIN)
    deviation = np.std([1, 4, 4, 7])  # the median is 4, and so is the mean
    expected = [[0, 0, 0, 1], [6 / deviation, 0, 1, 0], [-3 / deviation, 0, 0, 0]]
    assert transformer.transform(OTHERS) == pytest.approx(np.array(expected))
    assert transformer.transform(TRAIN)[:, 1:3].tolist() == [[1, 0], [0, 1], [0, 0], [1, 0]]
    assert preparation.features_record(transformer) == {
        "feature_means": [4, 0, 0, 5],
        "feature_deviations": [pytest.approx(deviation), 1, 1, 1],
        "feature_names": ["x", "k=a", "k=c", "z"],
        "feature_medians": {"x": 4, "z": 5},
        "categories": {"k": ["a", "c"]},
    }


def lines(rows=40):
    """A number with gaps, words (one is rare), a truth, a code, and a label that they tell."""
    yield "x,job,member,code,note,label"
    for row in range(rows):
        x, job = row * row, "rare" if row == 7 else ("nurse", " chef ")[row % 2]
        told = "no" if row % 4 else "yes"
        yield f"{'' if row % 8 == 5 else x},{job},{row % 3 == 0},{row % 2},n{row},{told}"


def test_the_code_of_the_page_repeats_a_table_of_words_and_gaps(tmp_path):
    text = "\n".join(lines())
    options = {"ignore": ["note"], "missing": "median", "categorical": ["code"]}
    data = prepared(tmp_path, csv(tmp_path, text, **options))
    record, seen = data.record, data.record["categories"]["job"]
    jobs = [f"job={word}" for word in seen]
    assert record["feature_names"] == ["x", *jobs, "member", "code=0", "code=1"]
    assert {"chef", "nurse"} <= {*seen} <= {"chef", "nurse", "rare"}
    (tmp_path / "record.json").write_text(json.dumps(record))
    code = CODE.replace("results/data/table-12345678", str(tmp_path))
    exec(code.replace("new.csv", str(tmp_path / "own.csv")), variables := {})
    repeated = variables["features"].to_numpy(float)
    stored, _ = all_parts(data)
    order = [np.lexsort(item.T.round(4)) for item in (repeated, stored)]
    assert repeated[order[0]] == pytest.approx(stored[order[1]], abs=1e-5)
    assert data.images("train")[:, -3].astype(float).mean() == pytest.approx(0, abs=1e-6)
    # The input of a model is known before the data are prepared.
    definition = dataset_definitions.read(csv(tmp_path, text, **options)).resolved()
    assert input_and_size_from_definition("own", definition)[0] == data.model_input


def test_the_best_labels_for_every_example_are_chosen_by_the_training_part():
    train = np.array([[1, 1, 0], [1, 0, 0], [1, 1, 0], [1, 0, 1]])
    # Naming the first: 2*4 / (4 + 7); the first two: 2*6 / (8 + 7); all: 2*7 / (12 + 7).
    other = np.array([[1, 0, 0], [0, 1, 1]])
    labels = {"train": train, "validation": train, "test": other}
    result = preparation.baselines("multi_label", labels)
    assert result["validation"]["f1"] == pytest.approx(12 / 15)
    assert result["test"]["f1"] == pytest.approx(2 * 2 / (4 + 3))
