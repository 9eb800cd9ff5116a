"""Data parallelism: a batch divided among devices is the batch."""

import subprocess
import sys
from pathlib import Path

import pytest

from digit_runs import arrays, run_name, train
from project import ROOT

pytestmark = pytest.mark.slow


def test_a_batch_divided_among_devices_is_the_batch():
    """Logical devices must exist before TensorFlow runs."""
    checks = str(Path(__file__).with_name("replica_checks.py"))
    command = [sys.executable, "-m", "pytest", "-q", "-n0", checks]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout


def test_a_training_has_the_same_weights_to_rounding(digit_results):
    runs = [run_name(epochs=1, batch_size=101, replicas=count) for count in (1, 2)]
    alone, divided = (train(digit_results, run) for run in runs)
    assert alone["sha256"]["initial.npz"] == divided["sha256"]["initial.npz"]
    one, two = (arrays(digit_results / "runs" / run / "final.npz") for run in runs)
    for path, value in one.items():
        assert two[path] == pytest.approx(value, rel=1e-4, abs=1e-5)
