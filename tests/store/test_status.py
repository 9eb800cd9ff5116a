"""The table of a study's jobs: their status, and the seconds of those that are due."""

from collections import Counter
from dataclasses import replace

import pytest

from batchscope.core import disk
from batchscope.core.errors import UserError
from batchscope.host import requirements
from batchscope.store import estimates, jobs, paths, records, status
from batchscope.study import names, planner
from batchscope.study.registry import VERSIONS
from small_study import config, finish, finish_run

TIMED = {"vary": {"batch_size": [16, 32, 64]}, "seeds": 2, "measure": ["evaluate", "time_epoch"]}
AT_EPOCHS = TIMED | {"measure": ["evaluate"], "at_epochs": [1, 4, 8]}
MORE_SEEDS = {"set": {"batch_size": 16}, "seeds": 3, "measure": ["evaluate"]}


def planned(first=TIMED):
    return planner.make(config(defaults={"epochs": 8}, experiments={"a": first, "b": MORE_SEEDS}))


@pytest.fixture
def study():
    return planned()


def due(rows, noun=None):
    return [row for row in rows if row.due and noun in (None, row.job.noun)]


def seconds(rows, noun):
    return [row.seconds for row in due(rows, noun)]


def seconds_left(study, results):
    rows = due(status.rows(study, results))
    return status.wall_seconds(study, rows, 2)


def runs(rows):
    return Counter(row.status for row in rows if row.job.noun == jobs.TRAINING)


def missing(rows, experiment=None):
    """Return measure or timing -> number of its missing jobs, in one or all experiments."""
    lacking = [row for row in rows if row.status == records.MISSING]
    measures = Counter(row.job.measure for row in lacking if experiment in (None, *row.experiments))
    del measures["train"]
    return measures


def test_of_a_study_half_done(study, tmp_path):
    rows = status.rows(study, tmp_path / "nothing")
    assert runs(rows) == {"missing": 7} and len(due(rows)) == 20
    assert missing(rows, "b") == {"evaluate": 3}
    assert missing(rows) == {"evaluate": 7, "time_epoch": 6}
    assert {row.seconds for row in due(rows)} == {None}
    first, second, third, *_ = study.runs
    finish_run(tmp_path, first)  # batch 16
    finish_run(tmp_path, second, contended_seconds=16.0)
    finish_run(tmp_path, third, contended_seconds=1.0, status="diverged")  # batch 32
    disk.write_json(paths.measure_path(tmp_path, first, "evaluate", "default"), {})
    rows = status.rows(study, tmp_path)
    assert runs(rows) == {"finished": 2, "diverged": 1, "missing": 4}
    assert missing(rows)["evaluate"] == 6
    # As batch size 16; above it the same.
    assert seconds(rows, "training") == pytest.approx([12.0] * 4)
    disk.write_json(paths.run_folder(tmp_path, second) / paths.RECORD, {})
    with pytest.raises(UserError, match=r"record.json: received a damaged file \(without status\)"):
        status.rows(study, tmp_path)


def test_runs_without_the_weights_that_are_read_now_are_trained_again(tmp_path):
    study = planned(AT_EPOCHS)
    finish(tmp_path, study)
    first, second, third, *_ = study.experiments["a"].runs
    assert not due(status.rows(study, tmp_path))
    finish_run(tmp_path, third, status="diverged")  # training it again yields no weights
    for epoch in (1, 8):
        paths.measure_path(tmp_path, first, "evaluate", f"at={epoch}").unlink()
    paths.measure_path(tmp_path, second, "evaluate", "at=4").unlink()
    paths.snapshot_path(tmp_path, second, 4).parent.mkdir()
    paths.snapshot_path(tmp_path, second, 4).touch()  # kept by its training
    rows = status.rows(study, tmp_path)
    assert runs(rows) == {"finished": 6, "diverged": 1}
    assert missing(rows) == {"evaluate": 3 + 4, "snapshot": 1}
    (snapshot,) = (row for row in rows if row.job.measure == "snapshot")
    assert snapshot.seconds == pytest.approx(1.0)  # one epoch of eight that took 8 s
    assert snapshot.experiments[0] == "a"


def test_jobs_of_another_version_are_due_again(study, tmp_path, monkeypatch):
    def due_after(**versions):
        finish(tmp_path, study, **versions)
        return due(status.rows(study, tmp_path))

    assert not due_after(train=VERSIONS["train"], evaluate=VERSIONS["evaluate"])
    assert not due_after()  # without versions
    rows = due_after(train=VERSIONS["train"], evaluate="evaluate-v0")
    assert [(row.job.measure, row.version) for row in rows] == [("evaluate", "evaluate-v0")] * 7
    # Evaluations of a run follow it. Times of an epoch read no run.
    rows = due_after(train="train-v1")
    versions = Counter((row.job.measure, row.version) for row in rows)
    assert versions == {("train", "train-v1"): 7, ("evaluate", None): 7}
    assert seconds(rows, "training") == pytest.approx([8.0] * 7)
    # Jobs whose requirements are missing stay.
    monkeypatch.setattr(requirements, "missing", lambda factors: requirements.GPU)
    assert not due(status.rows(study, tmp_path))


def measured(results, study, run, measure, seconds, word="finished", settings="default"):
    """Write the record of a measure of a run, or of its timing job."""
    name, path = run, paths.measure_path(results, run, measure, settings)
    if measure == "time_epoch":
        factors, here = study.runs[run], next(jobs.machine_results(study, results))
        name = names.timing_name(factors)
        path = jobs.time_path(here, study.experiments["a"], factors, measure)
    disk.write_json(path, {"status": word})
    estimates.note_job(results, measure, name, path, seconds)


def test_measures_and_timings_take_as_long_as_finished_ones_of_their_kind(study, tmp_path):
    first, second, third, *_ = study.runs
    for run in study.runs:
        finish_run(tmp_path, run)
    measured(tmp_path, study, first, "evaluate", 2.0)
    measured(tmp_path, study, second, "evaluate", 4.0)
    measured(tmp_path, study, third, "evaluate", 0.1, "diverged")  # measured nothing
    measured(tmp_path, study, first, "evaluate", 9.0, settings="w=best")  # of another kind
    rows = status.rows(study, tmp_path)
    assert seconds(rows, "measure") == pytest.approx([3.0] * 4)  # of seven runs
    assert seconds(rows, "timing") == [None] * 6
    assert status.wall_seconds(study, rows, 2) == pytest.approx((4 * 3.0 + 4) / 2 + 6)
    measured(tmp_path, study, first, "time_epoch", 5.0)
    # Measures share the cores, timings run one after the other.
    assert seconds_left(study, tmp_path) == pytest.approx(4 * 4.0 / 2 + 5 * 6.0)
    note = paths.seconds_note(tmp_path)
    note.write_text(f"{note.read_text()}evaluate,default,digits,small_cnn,\nevalu")  # a full disk
    assert seconds_left(study, tmp_path) == pytest.approx(38.0)
    note.unlink()
    note.mkdir()  # a job must not fail without it
    measured(tmp_path, study, first, "evaluate", 2.0)


@pytest.mark.parametrize(
    ("given", "cores", "expected"),
    [
        ({}, 2, 3 * 3600.0),  # six hours of one core each
        ({}, 64, 3600.0),  # no run is divided
        ({"threads": 8}, 8, 6 * 3600.0),
        ({"device": "gpu"}, 8, 6 * 3600.0),  # one at a time
    ],
)
def test_the_time_left_depends_on_cores_and_gpus(given, cores, expected, monkeypatch):
    monkeypatch.setenv(requirements.REMOTE_GPUS_VARIABLE, "true")  # nothing is missing here
    study = planner.make(config(defaults=given, experiment={"seeds": 3}))
    monkeypatch.setattr(status, "START_SECONDS", 0.0)
    rows = [replace(row, seconds=3600.0) for row in status.rows(study, "nowhere")]
    assert status.wall_seconds(study, rows, cores) == expected


@pytest.mark.parametrize(
    ("known", "batch_size", "seconds"),
    [
        ({32: 4.0}, 16, 8.0),
        ({32: 4.0}, 64, 4.0),
        ({16: 8.0, 64: 2.0}, 32, 4.0),
        ({16: 9.0, 64: 3.0}, 32, 5.0),  # 0.6 s and 0.1 s per example of a batch
    ],
)
def test_an_epoch_at_another_batch_size(tmp_path, known, batch_size, seconds):
    study = planner.make(config())
    factors = next(iter(study.runs.values()))
    for size, value in known.items():
        estimates.note_epoch(tmp_path, {**factors, "batch_size": size}, value)
    times = estimates.Estimates(tmp_path, study)
    expected = pytest.approx(factors["epochs"] * seconds)
    assert times.training({**factors, "batch_size": batch_size}) == expected
    assert times.training({**factors, "optimizer": "adam"}) is None


def test_finished_runs_and_timed_steps_of_other_batch_sizes_count(tmp_path):
    study = planner.make(config(experiment={"vary": {"batch_size": [16, 64]}, "seeds": 1}))
    (small, factors), (large, _) = study.runs.items()
    estimates.note_epoch(tmp_path, {**factors, "batch_size": 16}, 8.0)
    epochs = factors["epochs"]
    record = {"contended_seconds": epochs * 1.5, "evaluation_seconds": epochs * 0.5}
    path = paths.run_record(paths.run_folder(tmp_path, large))
    disk.write_json(path, {**record, "status": "diverged", "epochs_run": epochs})
    assert estimates.Estimates(tmp_path, study).training(study.runs[large]) == 8.0 * epochs
    disk.write_json(path, {**record, "status": "finished", "epochs_run": epochs})
    times = estimates.Estimates(tmp_path, study)
    assert times.training(study.runs[large]) == pytest.approx(2.0 * epochs)
    assert times.training({**factors, "batch_size": 32}) == pytest.approx(4.0 * epochs)
    assert times.training(study.runs[small]) == pytest.approx(8.0 * epochs)
