"""Compare the time of a dry-run with a bare Snakefile of the same shape, by number of runs.

    python benchmarks/dag.py [--runs 1000 5000] [--blocks 3]

The bare Snakefile has the same files, and a job for each training and each measure, named by one
wildcard, without a config, a plan or input functions.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
from side_by_side import clone, header, interleave, parser, ratio, row

CONFIG = """\
study: many
max_runs: {runs}
defaults: {{dataset: digits, model: small_cnn, optimizer: sgd, learning_rate: 0.05, epochs: 1}}
experiments:
  grid:
    question: How long does planning take?
    vary: {{batch_size: [16, 32, 64, 128, 256]}}
    seeds: {seeds}
    measure: [evaluate, sharpness, weight_distance, time_epoch]
"""

BARE = """\
RUNS = range({runs})


rule report:
    input:
        expand("{{run}}.{{measure}}", run=RUNS, measure=["evaluate", "sharpness", "distance"]),
        expand("{{run}}.record", run=RUNS),
        expand("{{size}}.time", size=range(5)),
    output:
        "report",
    shell:
        "true"


rule data:
    output:
        "data",
    shell:
        "true"


rule train:
    input:
        "data",
    output:
        record="{{run}}.record",
        history="{{run}}.history",
        final="{{run}}.final",
        best="{{run}}.best",
    shell:
        "true"


rule time:
    input:
        "data",
    output:
        "{{size}}.time",
    shell:
        "true"
"""

MEASURE = """

rule {measure}:
    input:
        "{{run}}.record",
        "{{run}}.final",
        "{{run}}.best",
        "data",
    output:
        "{{run}}.{measure}",
    shell:
        "true"
"""


def bare(runs: int) -> str:
    measures = ("evaluate", "sharpness", "distance")
    return BARE.format(runs=runs) + "".join(MEASURE.format(measure=name) for name in measures)


def dry_run(folder: Path, *arguments: str) -> int:
    """Return the number of jobs."""
    command = [sys.executable, "-m", "snakemake", "-n", "--quiet", "rules", "--cores", "2"]
    done = subprocess.run(
        [*command, *arguments], cwd=folder, capture_output=True, text=True, check=True
    )
    return int(re.search(r"^total +(\d+)$", done.stdout + done.stderr, re.M)[1])


def compare(runs: int, blocks: int) -> None:
    """Print the row of a number of runs."""
    with tempfile.TemporaryDirectory() as one, tempfile.TemporaryDirectory() as other:
        ours, plain = Path(one), Path(other)
        clone(ours)
        (ours / "config.yaml").write_text(CONFIG.format(runs=runs, seeds=runs // 5))
        (plain / "Snakefile").write_text(bare(runs))
        jobs = {}

        def counted(name: str, folder: Path, *arguments: str) -> None:
            jobs[name] = dry_run(folder, *arguments)

        contenders = {
            "ours": lambda: counted("ours", ours),
            "bare": lambda: counted("bare", plain, "--scheduler", "greedy"),
        }
        timings = interleave(contenders, blocks)
    middle = {name: np.median(seconds[:, 0]) for name, seconds in timings.items()}
    row(
        *(runs, f"{jobs['ours']} / {jobs['bare']}"),
        *(f"{middle[name]:.1f} s" for name in contenders),
        *(ratio(timings["ours"], timings["bare"]), f"{1000 * middle['ours'] / runs:.2f} ms"),
    )


def main() -> None:
    arguments = parser(__doc__, blocks=3)
    arguments.add_argument("--runs", type=int, nargs="+", default=[1000, 5000])
    options = arguments.parse_args()
    os.environ.pop("SNAKEMAKE_PROFILE", None)
    header("runs", "jobs, ours / bare", "ours", "bare", "ours / bare", "ours per run")
    for runs in options.runs:
        compare(runs, options.blocks)


if __name__ == "__main__":
    main()
