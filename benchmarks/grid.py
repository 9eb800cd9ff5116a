"""Wall time of the default study beside one process that does the same work in a loop.

    python benchmarks/grid.py [--repeats 1] [--cores 2]

The other side is what one would write by hand: a single process that imports TensorFlow once and
prepares the data, trains, evaluates, measures and times, one run after the other, with the same
functions and the same files. Both start without any result; they take turns. The workflow's
time includes its tables, figures and report. Printed is where its own time went, too: seconds of
jobs by rule, from their benchmark of start and end in Snakemake's log.
"""

from __future__ import annotations

import argparse
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections import Counter
from datetime import datetime
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
COPIED = ("Snakefile", "config.yaml", "workflow", "profiles", "envs")

LOOP = """
import sys
from pathlib import Path
sys.path.insert(0, "workflow")
from batchscope.catalogue import measure_settings, run_names
from batchscope.host import tensorflow_start
from batchscope.store import records
from batchscope.study import config

tensorflow_start.start(threads=1)
from batchscope import datasets, measures, timing
from batchscope.training import trainer

results = Path("results")
study = config.study("config.yaml")
for token, definition in study.datasets.items():
    datasets.prepare(token, definition, results)
timed = set()
for experiment in study.experiments.values():
    for run in experiment.trainings.runs:
        trainer.train(run, results)
        for measure, settings in experiment.trainings.measures.items():
            name = measure_settings.settings_name(measure, settings)
            if measure != "time_epoch":
                output = records.measure_path(results, run, measure, name)
                measures.write(measure, [measures.FinishedRun(results, run)], name, output)
                continue
            subject = run_names.configuration(run_names.timing_name(study.runs[run].factors))
            if subject.name not in timed:
                output = records.timing_path(results, study.machine, subject.name, name, measure)
                timing.write(measure, results, study.machine, subject, name, output)
                timed.add(subject.name)
"""


def clone(folder: Path) -> None:
    for name in COPIED:
        source = ROOT / name
        if source.is_dir():
            shutil.copytree(source, folder / name, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy(source, folder / name)


def wall(command: list[str]) -> tuple[float, str]:
    with tempfile.TemporaryDirectory() as name:
        clone(Path(name))
        begun = time.perf_counter()
        done = subprocess.run(command, cwd=name, capture_output=True, text=True)
        seconds = time.perf_counter() - begun
        if done.returncode:
            sys.exit(done.stdout + done.stderr)
        return seconds, done.stdout + done.stderr


def by_rule(log: str) -> Counter:
    """Returns seconds of jobs by rule: from its start in the log to its end."""
    spent: Counter = Counter()
    begun: dict[str, tuple[str, datetime]] = {}
    stamp, rule = None, ""
    for line in log.splitlines():
        if match := re.match(r"\[(.*)\]$", line):
            stamp = datetime.strptime(match[1], "%a %b %d %H:%M:%S %Y")
        elif match := re.match(r"(?:local)?rule (\w+):", line):
            rule = match[1]
        elif match := re.match(r" +jobid: (\d+)", line):
            begun.setdefault(match[1], (rule, stamp))
        elif match := re.match(r"Finished jobid: (\d+)", line):
            name, start = begun[match[1]]
            spent[name] += (stamp - start).total_seconds()
    return spent


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--repeats", type=int, default=1)
    parser.add_argument("--cores", type=int, default=2)
    arguments = parser.parse_args()
    for _ in range(arguments.repeats):
        workflow = [sys.executable, "-m", "snakemake", "--cores", str(arguments.cores)]
        ours, log = wall(workflow)
        theirs, _ = wall([sys.executable, "-c", LOOP])
        print(
            f"workflow {ours:.0f} s, one process {theirs:.0f} s, ratio {ours / theirs:.2f}",
            flush=True,
        )
        spent = ", ".join(f"{rule} {seconds:.0f}" for rule, seconds in by_rule(log).most_common())
        print(f"seconds of jobs, {arguments.cores} at a time: {spent}", flush=True)


if __name__ == "__main__":
    main()
