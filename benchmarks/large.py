"""Measure time and memory of each step of a study with very many finished runs.

    python benchmarks/large.py [--runs 20000]

One seed of a small study is trained, measured and timed. Its records are copied for all other
seeds, with random changes of their numbers.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
from side_by_side import clone, header, parser, row

from batchscope.core import disk

CONFIG = """\
study: many
max_runs: {runs}
defaults: {{dataset: digits, model: small_cnn, optimizer: sgd, learning_rate: 0.05, epochs: 2}}
experiments:
  grid:
    question: What does the number of runs cost?
    vary: {{batch_size: [16, 32, 64, 128, 256]}}
    seeds: {seeds}
    measure:
      evaluate:
      sharpness: {{starts: 1, iterations: 2, dimensions: 5, examples: 200}}
      weight_distance:
      time_epoch: {{blocks: 3, block_seconds: 0.05}}
"""
SPREAD = 0.05  # of a number over seeds
# Run a command; print its seconds and the peak memory of its largest process in MB.
MEASURED = """
import resource, subprocess, sys, time
start = time.monotonic()
done = subprocess.run(sys.argv[1:], stdout=subprocess.DEVNULL)
used = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1024
print(time.monotonic() - start, used, done.returncode)
"""


def varied(value: Any, generator: np.random.Generator) -> Any:
    """Return the value of a record with changed numbers. Shares stay below 1."""
    if isinstance(value, dict):
        return {key: varied(item, generator) for key, item in value.items()}
    if isinstance(value, float):
        return value * float(np.exp(generator.normal(0.0, SPREAD) - 3 * SPREAD))
    return value


def copied(source: Path, target: Path, seed: int, generator: np.random.Generator) -> None:
    """Write a record of another seed, or link a file that no table reads."""
    target.parent.mkdir(parents=True, exist_ok=True)
    if source.suffix != ".json":
        os.link(source, target)
        return
    text = source.read_text(encoding="utf-8").replace("+seed=0", f"+seed={seed}")
    record = json.loads(text)
    for key in ("values", "best_validation_loss", "contended_seconds"):
        if key in record:
            record[key] = varied(record[key], generator)
    if "seed" in record.get("factors", {}):
        record["factors"]["seed"] = seed
    disk.write_json(target, record)


def multiply(results: Path, seeds: int) -> None:
    """Copy the records of seed 0 for the other seeds."""
    generator = np.random.default_rng(0)
    runs = [path for path in results.glob("runs/*+seed=0/**/*") if path.is_file()]
    runs.sort(key=lambda path: path.name != "record.json")  # measures are no older than runs
    times = [path for path in results.glob("timing/*/*/time_epoch/*.json")]
    for seed in range(1, seeds):
        for path in runs:
            other = Path(str(path).replace("+seed=0", f"+seed={seed}"))
            copied(path, other, seed, generator)
        for path in times:
            copied(path, path.with_name(f"{path.stem}+rep={seed + 1}.json"), seed, generator)


def measured(folder: Path, *words: str) -> tuple[float, float]:
    command = [sys.executable, "-c", MEASURED, sys.executable, *words]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True)
    seconds, memory, status = done.stdout.split()
    if status != "0":
        sys.exit(done.stderr)
    return float(seconds), float(memory)


def main() -> None:
    arguments = parser(__doc__, blocks=1)
    arguments.add_argument("--runs", type=int, default=20_000)
    options = arguments.parse_args()
    seeds = options.runs // 5
    snakemake = ("-m", "snakemake", "--quiet", "all", "--cores", "2")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        clone(folder)
        config = folder / "config.yaml"
        config.write_text(CONFIG.format(runs=options.runs, seeds=1))
        measured(folder, *snakemake)
        config.write_text(CONFIG.format(runs=options.runs, seeds=seeds))
        header("of " + str(options.runs) + " runs", "seconds", "most memory of a process")

        def show(what: str, *words: str) -> None:
            seconds, memory = measured(folder, *words)
            row(what, f"{seconds:.0f}", f"{memory / 1000:.1f} GB")

        show("plan, one seed made", "workflow/run.py", "plan")
        show("dry-run, one seed made", *snakemake, "-n")
        start = time.monotonic()
        multiply(folder / "results", seeds)
        print(f"(records of the other seeds written in {time.monotonic() - start:.0f} s)")
        show("plan, all made", "workflow/run.py", "plan")
        show("dry-run, all made", *snakemake, "-n")
        study = ("--config", "config.yaml", "--scale", "full")
        tables = ("--experiment", "grid", "--output", "results/studies/many/grid")
        show("tabulate", "workflow/run.py", "tabulate", *study, *tables)
        drawn = ("--experiment", "grid", "--tables", "results/studies/many/grid")
        to = ("--output", "results/studies/many/grid/figures")
        show("figures", "workflow/run.py", "figures", *study, *drawn, *to)
        show("report", "workflow/run.py", "report", *study, "--output", "results/report.html")
        show("snakemake, to its report", *snakemake)
        show("snakemake, nothing to be done", *snakemake)
        size = (folder / "results" / "report.html").stat().st_size
        print(f"report.html: {size / 1e6:.1f} MB")


if __name__ == "__main__":
    main()
