"""Every benchmark runs at its smallest size and prints a ratio, or a share of simulated studies."""

import re

import pytest

import project

BENCHMARKS = project.ROOT / "benchmarks"
NAMES = sorted({path.stem for path in BENCHMARKS.glob("*.py")} - {"side_by_side"})
# Script -> its smallest sizes, and the least number of ratios or shares that they print. The others
# print their help: they run Snakemake, as other tests here do, or take a minute for the rates that
# tests/analysis/test_error_rates.py simulates too.
SMALLEST = {
    "accumulation": ("--batch-size 512 --micro-batches 256 --blocks 1", 4),
    "coverage": ("--studies 2", 36),
    "speedups": ("--cases adam_mini_batches2025 --blocks 1", 1),
    "training": ("--networks campbell_cnn --batch-sizes 128 --blocks 1", 3),
}
RATIO_OR_SHARE = re.compile(r"\d+\.\d\d; CPU \d+\.\d\d|\d+\.\d+% ± \d+\.\d+%")
PROGRAM = """
import runpy, sys
sys.path.insert(0, "benchmarks")
sys.argv = sys.argv[1:]
runpy.run_path(sys.argv[0], run_name="__main__")
"""


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_a_benchmark_runs(name):
    words, count = SMALLEST.get(name, ("--help", 0))
    done = project.forked(PROGRAM, f"benchmarks/{name}.py", *words.split())
    assert done.returncode == 0, done.stderr
    assert len(RATIO_OR_SHARE.findall(done.stdout)) >= count


def test_a_ratio_is_the_median_with_the_interval_of_its_logarithm(monkeypatch):
    monkeypatch.syspath_prepend(BENCHMARKS)
    import numpy as np
    import side_by_side

    ratio = side_by_side.ratio(np.array([[2.0, 6.0], [4.0, 6.0], [8.0, 6.0]]), np.array([[2.0]]))
    # t(0.975, 2) = 4.303 standard errors of log 2 / sqrt(3) around log 2
    low, high = (2 * np.exp(sign * 4.3027 * np.log(2) / np.sqrt(3)) for sign in (-1, 1))
    assert ratio == f"2.00 [{low:.2f}, {high:.2f}]; CPU 3.00 [3.00, 3.00]"
