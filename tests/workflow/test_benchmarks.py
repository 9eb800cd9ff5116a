"""Every benchmark runs at its smallest size and prints a ratio, or a share of simulated studies."""

import importlib.util
import re
import subprocess
import sys
from pathlib import Path

import pytest

BENCHMARKS = Path(__file__).resolve().parents[2] / "benchmarks"
SHARED = "side_by_side"
TORCH = importlib.util.find_spec("torch") is not None
STUDY = """\
study: small
defaults: {dataset: digits, model: small_cnn, optimizer: sgd, learning_rate: 0.1, epochs: 1}
experiments:
  grid:
    question: Does it run?
    vary: {batch_size: [256]}
    seeds: 1
    measure: {evaluate: {}, time_epoch: {blocks: 3, block_seconds: 0.1}}
"""
# Script -> its smallest sizes, and the ratios or shares that they print.
SMALLEST = {
    "accumulation": ("--batch-size 512 --micro-batches 256 --blocks 1", 4),
    "coverage": ("--studies 2", 36),
    "dag": ("--runs 5 --blocks 1", 1),
    "error_rates": ("--studies 40", 78),
    "grid": ("--config study.yaml --blocks 1", 1),
    "large": ("--runs 10", 0),
    "speedups": ("--cases imports adam_mini_batches2025 --blocks 1", 2),
    "training": ("--networks campbell_cnn --batch-sizes 128 256 --blocks 1", 2 * (3 + TORCH)),
}
RATIO = re.compile(r"\d+\.\d\d; CPU \d+\.\d\d")
SHARE = re.compile(r"\d+\.\d+% ± \d+\.\d+%")


def test_every_script_is_run():
    assert {path.stem for path in BENCHMARKS.glob("*.py")} == {*SMALLEST, SHARED}


@pytest.mark.slow
@pytest.mark.parametrize("name", SMALLEST)
def test_a_benchmark_prints_its_ratios(name, tmp_path):
    (tmp_path / "study.yaml").write_text(STUDY)
    words, expected = SMALLEST[name]
    command = [sys.executable, BENCHMARKS / f"{name}.py", *words.split()]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert len(RATIO.findall(done.stdout) or SHARE.findall(done.stdout)) == expected
    assert name != "large" or len(re.findall(r"^\|.*\| [\d.]+ GB \|$", done.stdout, re.M)) == 9


def test_a_ratio_is_the_median_with_the_interval_of_its_logarithm(monkeypatch):
    monkeypatch.syspath_prepend(BENCHMARKS)
    import numpy as np
    import side_by_side

    taken = side_by_side.ratio(np.array([[2.0, 6.0], [4.0, 6.0], [8.0, 6.0]]), np.array([[2.0]]))
    # t(0.975, 2) = 4.303 standard errors of log 2 / sqrt(3) around log 2
    low, high = (2 * np.exp(way * 4.3027 * np.log(2) / np.sqrt(3)) for way in (-1, 1))
    assert taken == f"2.00 [{low:.2f}, {high:.2f}]; CPU 3.00 [3.00, 3.00]"
