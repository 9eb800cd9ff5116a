"""Time of a dry-run by the number of runs, beside a bare Snakefile of the same shape.

    python benchmarks/dag.py [--runs 1000 5000] [--repeats 3]

The bare Snakefile has the same rules, files and number of jobs, named by one wildcard, without
a config, a plan or input functions. Each pair is run in turn; printed are the medians, their
ratio and the time per run.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]

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


def dry_run(folder: Path, *arguments: str) -> tuple[float, int]:
    command = [sys.executable, "-m", "snakemake", "-n", "--quiet", "rules", "--cores", "2"]
    begun = time.perf_counter()
    done = subprocess.run(
        [*command, *arguments], cwd=folder, capture_output=True, text=True, check=True
    )
    seconds = time.perf_counter() - begun
    jobs = re.search(r"^total +(\d+)$", done.stdout + done.stderr, re.M)
    return seconds, int(jobs[1])


def clone(folder: Path) -> None:
    for name in ("Snakefile", "workflow", "profiles", "envs"):
        source = ROOT / name
        if source.is_dir():
            shutil.copytree(source, folder / name, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy(source, folder / name)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int, nargs="+", default=[1000, 5000])
    parser.add_argument("--repeats", type=int, default=3)
    arguments = parser.parse_args()
    print("| runs | jobs, ours / bare | ours | bare | ratio | ours per run |")
    print("|---|---|---|---|---|---|")
    for runs in arguments.runs:
        with tempfile.TemporaryDirectory() as one, tempfile.TemporaryDirectory() as other:
            ours, plain = Path(one), Path(other)
            clone(ours)
            (ours / "config.yaml").write_text(CONFIG.format(runs=runs, seeds=runs // 5))
            (plain / "Snakefile").write_text(bare(runs))
            taken: dict[str, list[float]] = {"ours": [], "bare": []}
            for _ in range(arguments.repeats):
                seconds, jobs = dry_run(ours)
                taken["ours"].append(seconds)
                seconds, bare_jobs = dry_run(plain, "--scheduler", "greedy")
                taken["bare"].append(seconds)
            middle = {name: sorted(found)[len(found) // 2] for name, found in taken.items()}
            print(
                f"| {runs} | {jobs} / {bare_jobs} | {middle['ours']:.1f} s "
                f"| {middle['bare']:.1f} s | {middle['ours'] / middle['bare']:.2f} "
                f"| {1000 * middle['ours'] / runs:.2f} ms |",
                flush=True,
            )


if __name__ == "__main__":
    os.environ.pop("SNAKEMAKE_PROFILE", None)
    main()
