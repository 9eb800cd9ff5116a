"""Trainings on the digits through the door, and what they leave behind."""

import functools
import json
import os
import subprocess
import time
from pathlib import Path

import numpy as np

from project import ROOT, start

DIGITS = {"source": "digits", "split": {"train": 0.6, "validation": 0.2, "test": 0.2, "seed": 0}}


def run_name(**factors) -> str:
    from batchscope.study import dataset_definitions, names

    every = {
        "dataset": dataset_definitions.read(DIGITS).token("digits"),
        "model": "small_cnn",
        "batch_size": 100,
        "learning_rate": 0.05,
        "optimizer": "sgd",
        "epochs": 3,
        "seed": 0,
        **factors,
    }
    return names.run_name(every)


@functools.cache
def _warm() -> dict[str, str]:
    """One process with TensorFlow imported, which what these tests train forks from."""
    from batchscope.host import fork_server

    fork_server.launch(ROOT / "workflow")
    # Not in this process's environment: Snakemake, started by other tests, has its own.
    return {fork_server.SNAKEMAKE_PID: os.environ.pop(fork_server.SNAKEMAKE_PID)}


def door(*arguments: str, **options) -> subprocess.Popen:
    """Starts a step; a fork of the server runs it, where the step may share one."""
    return start("workflow/run.py", *arguments, environment=_warm(), **options)


def step(*arguments: str) -> tuple[int, str]:
    """Runs a step; returns its exit status and its whole output."""
    process = door(*arguments, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    output, _ = process.communicate(timeout=600)
    return process.returncode, output


def wait_for_checkpoints(process: subprocess.Popen, folder: Path, count: int) -> None:
    """Waits until a training has written so many checkpoints, or ends, or ten minutes."""
    path, seen, last, limit = folder / "checkpoint.npz", 0, None, time.monotonic() + 600
    while process.poll() is None and seen < count and time.monotonic() < limit:
        now = os.stat(path).st_mtime_ns if path.exists() else None
        if now is not None and now != last:
            seen, last = seen + 1, now
        time.sleep(0.001)


def with_digits(digits: Path, results: Path) -> Path:
    """Lets a folder of results have the digits of another, which are not written to."""
    results.mkdir(parents=True, exist_ok=True)
    (results / "data").symlink_to(digits / "data")
    return results


def train(results: Path, run: str, *arguments: str) -> dict:
    status, output = step("train", "--results", str(results), "--run", run, *arguments)
    assert status == 0, output
    return record(results, run)


def record(results: Path, run: str) -> dict:
    return json.loads((results / "runs" / run / "record.json").read_text())


def arrays(path: Path) -> dict[str, np.ndarray]:
    with np.load(path, allow_pickle=False) as archive:
        return {name: archive[name] for name in archive.files}


def keep(results: Path, run: str, *epochs: int | str) -> None:
    """Lets a run keep its weights after epochs, as where a study reads them."""
    path = results / "epochs_read.json"
    noted = json.loads(path.read_text()) if path.exists() else {}
    path.write_text(json.dumps({**noted, run: epochs}))


def assert_same_bits(one: Path, other: Path) -> None:
    for name in ("final.npz", "best.npz", "initial.npz", "updates.npz"):
        left, right = arrays(one / name), arrays(other / name)
        assert list(left) == list(right)
        for key in left:
            assert left[key].tobytes() == right[key].tobytes(), f"{name}: {key}"
