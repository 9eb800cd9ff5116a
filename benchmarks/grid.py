"""Compare a study with a pool of processes that does the same work.

    python benchmarks/grid.py [--config config.yaml] [--blocks 3] [--cores 2]

The pool has one process per core. Each imports TensorFlow once, and trains and measures one run
after the other with the same functions and files; then one process makes the timings, exclusively.
Supported are studies of trainings with measures and timings, without sweeps, pairs of runs or
measures after early epochs. Both start without results. The time of the workflow includes tables,
figures and report, which the pool does not make. CPU seconds include all child processes.
"""

from __future__ import annotations

import ctypes
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
from side_by_side import ROOT, clone, header, interleave, parser, ratio, row

SUBREAPER = 36  # PR_SET_CHILD_SUBREAPER of Linux: this process adopts orphaned descendants

POOL = """
import multiprocessing
import logging
import sys
from pathlib import Path

sys.path.insert(0, "workflow")
from batchscope.study import names
from batchscope.study.registry import TIMINGS
from batchscope.host import tensorflow_start
from batchscope.store import jobs
from batchscope.study import config

RESULTS = Path("results")


def start():
    tensorflow_start.start(threads=1)
    # Each run has a model of its own, so many graphs are expected.
    logging.getLogger("tensorflow").addFilter(
        lambda record: "triggered tf.function retracing" not in record.getMessage()
    )


def train_and_measure(job):
    from batchscope.measures import measure_job
    from batchscope.training import trainer

    run, measures = job
    trainer.train(trainer.TrainingRun(RESULTS, run))
    for path, measure in measures.items():
        measure_job.write(measure, [measure_job.FinishedRun(RESULTS, run)], path.stem, path)


def main(path, cores):
    from batchscope import datasets
    from batchscope.timing import timing_job

    study = config.study(path)
    for token, definition in study.datasets.items():
        datasets.prepare(token, definition, RESULTS)
    runs, times = {}, {}
    for experiment in study.experiments.values():
        if experiment.timings or experiment.pairs or experiment.at_epochs:
            sys.exit("Expected measures of single trainings and their times alone.")
        for run in experiment.runs:
            runs.setdefault(run, {})  # trained, also where it is only timed
        for job in jobs.measure_jobs(experiment, RESULTS, study.machine):
            outputs = times if job.measure in TIMINGS else runs[job.runs[0]]
            outputs[job.path] = job if job.measure in TIMINGS else job.measure
    pool = multiprocessing.get_context("spawn").Pool(cores, start)
    for _ in pool.imap_unordered(train_and_measure, runs.items()):
        pass
    pool.close()  # leaving a block of the pool sends SIGTERM, which a training takes over
    pool.join()
    start()
    for path, job in times.items():
        subject = names.configuration(names.timing_name(study.runs[job.runs[0]]))
        timed = timing_job.TimingJob(RESULTS, subject, output=path)
        timing_job.time_and_write(job.measure, timed, study.machine, path.stem)


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
"""


def run(config: Path, command: list[str]) -> None:
    """Run a command in a fresh copy of the project, and wait for all its descendants."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        clone(folder)
        shutil.copy(config, folder / "study.yaml")
        (folder / "pool.py").write_text(POOL, encoding="utf-8")
        words = [sys.executable, *command]
        done = subprocess.run(words, cwd=folder, capture_output=True, text=True)
        while True:  # the process that jobs fork from ends after Snakemake
            try:
                os.wait()
            except ChildProcessError:
                break
        if done.returncode:
            sys.exit(done.stdout + done.stderr)


def main() -> None:
    arguments = parser(__doc__, blocks=3)
    arguments.add_argument("--config", type=Path, default=ROOT / "config.yaml")
    arguments.add_argument("--cores", type=int, default=2)
    options = arguments.parse_args()
    ctypes.CDLL(None).prctl(SUBREAPER, 1, 0, 0, 0)
    cores = str(options.cores)
    snakemake = ["-m", "snakemake", "--cores", cores, "--configfile", "study.yaml"]
    contenders = {
        "workflow": lambda: run(options.config, snakemake),
        "pool": lambda: run(options.config, ["pool.py", "study.yaml", cores]),
    }
    timings = interleave(contenders, options.blocks, warm_up=False)
    seconds = [f"{np.median(timings[name][:, 0]):.0f} s" for name in contenders]
    header("study", *contenders, "workflow / pool")
    row(options.config.name, *seconds, ratio(timings["workflow"], timings["pool"]))


if __name__ == "__main__":
    main()
