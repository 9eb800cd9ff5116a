"""Trainings on the digits through the door, and what they leave behind."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import numpy as np

from project import ROOT

DIGITS = {
    "source": "digits",
    "split": {"train": 0.6, "validation": 0.2, "test": 0.2, "seed": 0},
}


def run_name(**factors) -> str:
    from batchscope.catalogue import dataset_definitions, run_names

    every = {
        "dataset": dataset_definitions.token("digits", DIGITS),
        "model": "small_cnn",
        "batch_size": 100,
        "learning_rate": 0.05,
        "optimizer": "sgd",
        "epochs": 3,
        "seed": 0,
        **factors,
    }
    return run_names.run_name(every)


def door(*arguments: str, **options) -> subprocess.Popen:
    command = [sys.executable, str(ROOT / "workflow" / "run.py"), *arguments]
    return subprocess.Popen(command, cwd=ROOT, text=True, **options)


def train(results: Path, run: str, *arguments: str) -> dict:
    process = door(
        "train",
        "--results",
        str(results),
        "--run",
        run,
        *arguments,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    )
    output, _ = process.communicate(timeout=300)
    assert process.returncode == 0, output
    return record(results, run)


def record(results: Path, run: str) -> dict:
    return json.loads((results / "runs" / run / "record.json").read_text())


def arrays(path: Path) -> dict[str, np.ndarray]:
    with np.load(path, allow_pickle=False) as archive:
        return {name: archive[name] for name in archive.files}


def assert_same_bits(one: Path, other: Path) -> None:
    for name in ("final.npz", "best.npz", "initial.npz", "updates.npz"):
        left, right = arrays(one / name), arrays(other / name)
        assert list(left) == list(right)
        for key in left:
            assert left[key].tobytes() == right[key].tobytes(), f"{name}: {key}"
