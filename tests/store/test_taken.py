"""What a study took: core-seconds, seconds of a GPU and of the machine alone, bytes."""

from __future__ import annotations

import os

import pytest

import small_study
from batchscope import disk
from batchscope.host import absence
from batchscope.store import paths, states, taken
from batchscope.study import planner

MACHINE = {"usable_cores": 4}


def written(tmp_path, **factors):
    """Returns a plan, its results and its trainings' records: two runs, measured and timed."""
    experiment = {"set": factors, "vary": {"batch_size": [16, 64]}, "seeds": 1}
    experiment["measure"] = ["evaluate", "time_epoch"]
    study = planner.make(small_study.config(experiment=experiment))
    trained = {}
    for number, run in enumerate(study.runs, 1):
        trained[run] = {"contended_seconds": 100.0 * number, "machine": MACHINE}
        folder = paths.run_folder(tmp_path, run)
        folder.mkdir(parents=True)
        (folder / "final.npz").write_bytes(bytes(1000))
        os.link(folder / "final.npz", folder / "best.npz")
    table = states.Table(study, tmp_path)
    every = list(table.here())
    for job in every:
        disk.write_json(job.path, {})
    return table, trained, every


def note(tmp_path, jobs, seconds):
    with open(tmp_path / "job_seconds.csv", "a") as file:
        file.writelines(",".join((*job.kind, f"{seconds}\n")) for job in jobs)


@pytest.fixture(autouse=True)
def here(monkeypatch):
    """Lets every job be made here: no GPU is asked for."""
    monkeypatch.setattr(absence, "of", lambda _: None)


def test_cores_are_summed_and_each_file_counts_once(tmp_path):
    table, trained, jobs = written(tmp_path, threads=2)
    measures = [job for job in jobs if job.noun == "measure"]
    timings = [job for job in jobs if job.noun == "timing"]
    note(tmp_path, measures, 6)
    note(tmp_path, timings, 30)
    found = taken.find(table, trained)
    records_of_measures = sum(job.path.stat().st_size for job in measures)
    assert (found.training, found.gpu, found.cores, found.unknown) == (2 * 300, 0, 4, ())
    assert (found.measures, found.timings) == (12, 30 * len(timings))
    assert found.run_bytes == 2 * 1000 + records_of_measures


def test_gpus_count_by_replica_and_what_nobody_noted_is_unknown(tmp_path):
    table, trained, jobs = written(tmp_path, device="gpu", replicas=2)
    note(tmp_path, [job for job in jobs if job.measure == "evaluate"], 6)
    found = taken.find(table, trained)
    assert found.gpu == 2 * 300 + 2 * 6 and found.timings == 0
    assert {job.measure for job in found.unknown} == {"time_epoch"}
    first, *_ = trained
    found = taken.find(table, {first: {}})
    assert found.unknown[0].noun == "training" and found.gpu == 12
