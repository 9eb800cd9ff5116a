"""What a cluster accounts for."""

from __future__ import annotations

import dataclasses
from collections import Counter

import pytest

import small_study
from batchscope.store import bundles, job_files, status, submit_cost
from batchscope.study import planner


def costs(tmp_path, monkeypatch, seconds, **experiment):
    """The cost of a study of whose jobs each takes so long."""
    monkeypatch.setenv("BATCHSCOPE_GPUS", "true")
    study = planner.make(small_study.config(experiment={"seeds": 3, **experiment}))
    left = status.overview(study, tmp_path)
    timed = [(job, seconds[job.noun]) for job, _ in left.jobs]
    left = dataclasses.replace(left, jobs=timed)
    return left, submit_cost.cost(study, tmp_path, left)


SECONDS = {job_files.TRAINING: 3600.0, job_files.MEASURE: 360.0, job_files.TIMING: 36.0}


@pytest.mark.parametrize(
    ("given", "cores", "gpus"),
    [
        ({}, 1, 0),
        ({"threads": 4}, 4, 0),
        ({"device": "gpu"}, 1, 1),
        ({"device": "gpu", "replicas": 2}, 1, 2),
    ],
)
def test_hours(tmp_path, monkeypatch, given, cores, gpus):
    left, found = costs(
        tmp_path, monkeypatch, SECONDS, set=given, measure=["evaluate", "time_epoch"]
    )
    counts = Counter(job.noun for job, _ in left.jobs)
    assert counts == {job_files.TRAINING: 6, job_files.MEASURE: 6, job_files.TIMING: 6}
    assert found.core_hours == pytest.approx(cores * 6.6)
    assert found.gpu_hours == pytest.approx(gpus * (6.6 + 0.06))
    assert found.node_hours == pytest.approx(0.06)
    # A run of an hour each, and all times together.
    assert (found.jobs, found.untimed) == (7, 0)


def test_what_is_unknown_is_counted(tmp_path, monkeypatch):
    unknown = {**SECONDS, job_files.MEASURE: None}
    _, found = costs(tmp_path, monkeypatch, unknown, measure=["evaluate"])
    assert (found.jobs, found.untimed) == (bundles.SIDE_BY_SIDE, bundles.SIDE_BY_SIDE)
    assert found.core_hours == 0.0 and "at least" in found.line
