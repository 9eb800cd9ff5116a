"""What one more seed takes: trainings, measures, and the timing jobs of its own."""

from __future__ import annotations

import math

import small_study
from batchscope.core import disk
from batchscope.store import jobs, paths
from batchscope.study import planner
from batchscope.tables import advice


def test_trainings_measures_and_timings_of_a_seed(tmp_path):
    experiment = {
        "vary": {"batch_size": [16, 64], "learning_rate": [0.1, 0.2]},
        "seeds": 3,
        "measure": ["evaluate", "time_epoch"],
    }
    study = planner.make(small_study.config(experiment=experiment))
    gap = study.experiments["a"]
    trainings, timings = advice.seed_cost_function(tmp_path, gap)(gap.runs)
    assert math.isnan(trainings) and timings == 0  # nothing is known yet
    for run, planned in study.runs.items():
        path = paths.run_folder(tmp_path, run) / "record.json"
        record = {"status": "finished", "contended_seconds": 10.0, "epochs_run": planned["epochs"]}
        disk.write_json(path, record)
    with open(tmp_path / "job_seconds.csv", "a") as file:
        for job in jobs.measure_jobs(gap, tmp_path, "local"):
            seconds = {"measure": 2, "timing": 5}[job.noun]
            file.write(",".join((*job.kind, f"{seconds}\n")))
    trainings, timings = advice.seed_cost_function(tmp_path, gap)(gap.runs)
    assert trainings == 4 * (10 + 2)  # two sizes at two rates
    assert timings == 2 * 5  # which rates share
    assert math.isnan(advice.seed_cost_function(tmp_path, gap)([])[0])
