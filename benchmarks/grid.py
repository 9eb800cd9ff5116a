"""A study of trainings beside what one would write by hand: a pool of processes with the same work.

    python benchmarks/grid.py [--config config.yaml] [--repeats 3] [--cores 2]

The other side is a pool of as many processes as cores. Each imports TensorFlow once, and trains
and measures one run after the other, with the same functions and the same files; then one process
times what the study times, alone. It takes studies of trainings, their measures and times: no
sweeps, pairs of runs or measures after early epochs. Both start without any result; they take
turns. The workflow's time includes its tables, figures and report, which the pool does not make.
Printed are seconds of wall clock and of CPU, of every process that either started: on a machine
that is shared, the second is what can be compared. Printed is also where the workflow's time went:
seconds of jobs by rule, from their start and end in Snakemake's log.
"""

from __future__ import annotations

import argparse
import ctypes
import os
import re
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[1]
COPIED = ("Snakefile", "config.yaml", "workflow", "profiles", "envs")
SUBREAPER = 36  # PR_SET_CHILD_SUBREAPER of Linux's prctl: who outlives its parent is ours

POOL = """
import multiprocessing
import logging
import sys
from pathlib import Path

sys.path.insert(0, "workflow")
from batchscope.catalogue import run_names
from batchscope.catalogue.timings import TIMINGS
from batchscope.host import tensorflow_start
from batchscope.store import job_files
from batchscope.study import config

RESULTS = Path("results")


def start():
    tensorflow_start.start(threads=1)
    # Each graph is of another run's model: that they are many is no fault.
    logging.getLogger("tensorflow").addFilter(
        lambda record: "triggered tf.function retracing" not in record.getMessage()
    )


def train_and_measure(job):
    from batchscope import measures
    from batchscope.training import trainer

    run, wanted = job
    trainer.train(trainer.Run(RESULTS, run))
    for path, measure in wanted.items():
        measures.write(measure, [measures.FinishedRun(RESULTS, run)], path.stem, path)


def main(path, cores):
    from batchscope import datasets, timing

    study = config.study(path)
    for token, definition in study.datasets.items():
        datasets.prepare(token, definition, RESULTS)
    runs, times = {}, {}
    for experiment in study.experiments.values():
        if experiment.times.timings or experiment.trainings.pairs or experiment.at_epochs:
            sys.exit("Expected measures of single trainings and their times alone.")
        for run in experiment.trainings.runs:
            runs.setdefault(run, {})  # trained, also where it is only timed
        for job in job_files.measure_jobs(experiment, RESULTS):
            wanted = times if job.measure in TIMINGS else runs[job.runs[0]]
            wanted[job.path] = job if job.measure in TIMINGS else job.measure
    pool = multiprocessing.get_context("spawn").Pool(cores, start)
    for _ in pool.imap_unordered(train_and_measure, runs.items()):
        pass
    pool.close()  # leaving a block of the pool sends SIGTERM, which a training takes over
    pool.join()
    start()
    for path, job in times.items():
        subject = run_names.configuration(run_names.timing_name(study.runs[job.runs[0]]))
        timed = timing.TimingJob(RESULTS, subject, output=path)
        timing.write(job.measure, timed, study.machine, path.stem)


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
"""


class Taken(NamedTuple):
    """What one side took: seconds of wall clock, seconds of CPU, and its output."""

    wall: float
    cpu: float
    output: str


def clone(folder: Path) -> None:
    for name in COPIED:
        source = ROOT / name
        if source.is_dir():
            shutil.copytree(source, folder / name, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy(source, folder / name)


def taken(config: Path, command: Callable[[Path], list[str]]) -> Taken:
    """Runs a command in a fresh copy of the project, with every process that it leaves behind."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        clone(folder)
        shutil.copy(config, folder / "study.yaml")
        begun, before = time.perf_counter(), cpu_seconds()
        done = subprocess.run(command(folder), cwd=folder, capture_output=True, text=True)
        seconds = time.perf_counter() - begun
        while True:  # the process that jobs fork from ends after Snakemake
            try:
                os.wait()
            except ChildProcessError:
                break
        if done.returncode:
            sys.exit(done.stdout + done.stderr)
        return Taken(seconds, cpu_seconds() - before, done.stdout + done.stderr)


def cpu_seconds() -> float:
    """Returns the CPU time of all processes that ended below this one."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def workflow(config: Path, cores: int) -> Taken:
    # -p: a log by lines, in place of bars, says when each job began and ended.
    words = ["-m", "snakemake", "-p", "--cores", str(cores), "--configfile", "study.yaml"]
    return taken(config, lambda folder: [sys.executable, *words])


def pool(config: Path, cores: int) -> Taken:
    def command(folder: Path) -> list[str]:
        (folder / "pool.py").write_text(POOL, encoding="utf-8")
        return [sys.executable, "pool.py", "study.yaml", str(cores)]

    return taken(config, command)


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
    parser.add_argument("--config", type=Path, default=ROOT / "config.yaml")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--cores", type=int, default=2)
    given = parser.parse_args()
    ctypes.CDLL(None).prctl(SUBREAPER, 1, 0, 0, 0)
    ratios: dict[str, list[float]] = {"wall": [], "cpu": []}
    for repeat in range(given.repeats):
        sides = [workflow, pool] if repeat % 2 == 0 else [pool, workflow]
        found = {side: side(given.config, given.cores) for side in sides}
        ours, theirs = found[workflow], found[pool]
        for kind, values in ratios.items():
            values.append(getattr(ours, kind) / getattr(theirs, kind))
        print(
            f"workflow {ours.wall:.0f} s ({ours.cpu:.0f} s of CPU), pool {theirs.wall:.0f} s "
            f"({theirs.cpu:.0f} s of CPU), ratio {ratios['wall'][-1]:.2f} "
            f"({ratios['cpu'][-1]:.2f} of CPU)",
            flush=True,
        )
        spent = by_rule(ours.output)
        words = ", ".join(f"{rule} {seconds:.0f}" for rule, seconds in spent.most_common())
        print(f"seconds of jobs, {given.cores} at a time: {words}", flush=True)
    wall, cpu = (statistics.median(values) for values in ratios.values())
    print(f"median ratio, workflow over pool: {wall:.2f} ({cpu:.2f} of CPU)")


if __name__ == "__main__":
    main()
