"""What a prepared folder holds, what a crash leaves behind, and what people are told."""

import os
import subprocess
import sys

import numpy as np
import pytest
from test_arrays import npz
from test_verification import TOKEN, alter

from batchscope import datasets
from batchscope.core import disk, project_files
from batchscope.core.errors import UserError
from batchscope.store import paths
from costs import first
from prepared_data import fault, read


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


def run(code, folder):
    environment = {**os.environ, "PYTHONPATH": str(project_files.WORKFLOW)}
    command = [sys.executable, "-c", code, str(folder)]
    return subprocess.run(command, env=environment, capture_output=True, text=True)


@pytest.mark.parametrize("moment", first([1, 2, 3]))
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
        datasets.load(tmp_path, TOKEN)
    datasets.prepare(TOKEN, {"source": "digits"}, tmp_path)
    assert datasets.load(tmp_path, TOKEN).classes == 10


def test_a_full_disk_is_an_error_and_no_signal(tmp_path):
    code = (
        "import resource, signal, sys; from batchscope import datasets\n"
        "from batchscope.core import errors\n"
        "signal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (20000, 20000))\n"
        "try: datasets.prepare('digits-00000000', {'source': 'digits'}, sys.argv[1])\n"
        "except errors.UserError as error: print(error)\n"
    )
    done = run(code, tmp_path)
    assert done.stdout.startswith("datasets.digits: File too large "), done.stderr
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
