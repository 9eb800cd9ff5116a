"""The table of a study's jobs: their status, and the seconds of those that are due."""

from collections import Counter
from dataclasses import replace

import pytest

import small_study
from batchscope.core import disk
from batchscope.core.errors import UserError
from batchscope.host import requirements
from batchscope.store import estimates, jobs, paths, records, status
from batchscope.study import config, names, planner
from batchscope.study.versions import VERSIONS

CONFIG = """
study: s
defaults:
  {dataset: digits, model: small_cnn, optimizer: sgd, learning_rate: 0.1, epochs: 8}
experiments:
  a:
    vary: {batch_size: [16, 32, 64]}
    seeds: 2
    measure: [evaluate, time_epoch]
  b:
    set: {batch_size: 16}
    seeds: 3
    measure: [evaluate]
"""
EARLY = CONFIG.replace("[evaluate, time_epoch]", "[evaluate]\n    at_epochs: [1, 4, 8]")
DATA = "digits-065f9c58"


def planned(tmp_path, text):
    (tmp_path / "config.yaml").write_text(text)
    return config.study(tmp_path / "config.yaml")


@pytest.fixture
def study(tmp_path):
    return planned(tmp_path, CONFIG)


def due(rows, noun=None):
    return [row for row in rows if row.due and noun in (None, row.job.noun)]


def seconds(rows, noun):
    return [row.seconds for row in due(rows, noun)]


def seconds_left(study, results, cores):
    rows = due(status.rows(study, results))
    if any(row.seconds is None for row in rows):
        return None
    return status.wall_seconds(study, rows, cores)


def runs(rows):
    return Counter(row.status for row in rows if row.job.noun == jobs.TRAINING)


def missing(rows, experiment=None):
    others = [row for row in rows if row.job.noun != jobs.TRAINING]
    lacking = [row for row in others if row.status == records.MISSING]
    return Counter(row.job.measure for row in lacking if experiment in (None, *row.experiments))


def finish(results, run, seconds, word="finished"):
    """Writes a run's record, and the other files of a run."""
    folder, factors = paths.run_folder(results, run), names.parse_run(run)
    record = {"status": word, "contended_seconds": seconds, "epochs_run": factors["epochs"]}
    disk.write_json(folder / paths.RECORD, record)
    for name in paths.run_files(factors)[1:]:
        (folder / name).touch()


def complete(study, results, train=None, evaluate=None):
    """Writes every file of a study, of some version of the training and of evaluate."""
    for state in jobs.JobTable(study, results).by_record.values():
        if state.job.measure == "train":
            finish(results, state.job.runs[0], 8.0)
            record = disk.read_json(state.job.path)
            disk.write_json(state.job.path, {**record, "version": train})
        else:
            version = evaluate if state.job.measure == "evaluate" else None
            disk.write_json(state.job.path, {"version": version})


def test_of_a_study_half_done(study, tmp_path):
    rows = status.rows(study, tmp_path / "nothing")
    assert runs(rows) == {"missing": 7} and len(due(rows)) == 20
    assert missing(rows, "a") == {"evaluate": 6, "time_epoch": 6}
    assert missing(rows, "b") == {"evaluate": 3}
    assert missing(rows) == {"evaluate": 7, "time_epoch": 6}
    assert seconds_left(study, tmp_path / "nothing", 2) is None
    first, second, third, *_ = study.runs
    finish(tmp_path, first, 8.0)  # batch 16
    finish(tmp_path, second, 16.0)
    finish(tmp_path, third, 1.0, "diverged")  # batch 32
    disk.write_json(paths.measure_path(tmp_path, first, "evaluate", "default"), {})
    rows = status.rows(study, tmp_path)
    assert runs(rows) == {"finished": 2, "diverged": 1, "missing": 4}
    assert missing(rows)["evaluate"] == 6
    # As batch size 16; above it the same.
    assert seconds(rows, "training") == pytest.approx([12.0] * 4)
    folder = paths.run_folder(tmp_path, second)
    (folder / "history.csv").unlink()
    assert runs(status.rows(study, tmp_path))["missing"] == 5
    (folder / "history.csv").touch()
    disk.write_json(folder / paths.RECORD, {})
    with pytest.raises(UserError, match=r"record.json: received a damaged file \(without status\)"):
        status.rows(study, tmp_path)


def test_runs_without_the_weights_that_are_read_now_are_trained_again(tmp_path):
    study = planned(tmp_path, EARLY)
    complete(study, tmp_path)
    first, second, *_ = study.experiments["a"].runs
    assert not due(status.rows(study, tmp_path))
    for epoch in (1, 8):
        paths.measure_path(tmp_path, first, "evaluate", f"at={epoch}").unlink()
    paths.measure_path(tmp_path, second, "evaluate", "at=4").unlink()
    paths.snapshot_path(tmp_path, second, 4).parent.mkdir()
    paths.snapshot_path(tmp_path, second, 4).touch()  # kept by its training
    rows = status.rows(study, tmp_path)
    assert runs(rows) == {"finished": 7} and missing(rows) == {"evaluate": 3, "snapshot": 1}
    (snapshot,) = (row for row in rows if row.job.measure == "snapshot")
    assert snapshot.seconds == pytest.approx(1.0)  # one epoch of eight that took 8 s
    assert snapshot.experiments[0] == "a"


def test_jobs_of_another_version_are_due_again(study, tmp_path, monkeypatch):
    complete(study, tmp_path, VERSIONS["train"], VERSIONS["evaluate"])
    assert not due(status.rows(study, tmp_path))
    complete(study, tmp_path)  # without versions
    assert not due(status.rows(study, tmp_path))
    assert seconds_left(study, tmp_path, 2) == 0
    complete(study, tmp_path, VERSIONS["train"], "evaluate-v0")
    rows = due(status.rows(study, tmp_path))
    assert [(row.job.measure, row.version) for row in rows] == [("evaluate", "evaluate-v0")] * 7
    complete(study, tmp_path, "train-v1")
    rows = due(status.rows(study, tmp_path))
    assert Counter(row.version for row in rows) == {"train-v1": 7, None: 7}
    # Their evaluations follow. Times of an epoch read no run.
    assert Counter(row.job.measure for row in rows) == {"train": 7, "evaluate": 7}
    assert seconds(rows, "training") == pytest.approx([8.0] * 7)
    # Jobs whose requirements are missing stay.
    monkeypatch.setattr(requirements, "missing", lambda factors: requirements.GPU)
    assert not due(status.rows(study, tmp_path))


def measured(results, study, run, measure, seconds, word="finished", settings="default"):
    """Writes the record of a measure of a run, or of its timing job."""
    name, path = run, paths.measure_path(results, run, measure, settings)
    if measure == "time_epoch":
        factors, here = study.runs[run], next(jobs.places(study, results))
        name = names.timing_name(factors)
        path = jobs.time_path(here, study.experiments["a"], factors, measure)
    disk.write_json(path, {"status": word})
    estimates.note_job(results, measure, name, path, seconds)


def test_measures_and_timings_take_as_long_as_finished_ones_of_their_kind(study, tmp_path):
    first, second, third, *_ = study.runs
    for run in study.runs:
        finish(tmp_path, run, 1.0)
    measured(tmp_path, study, first, "evaluate", 2.0)
    measured(tmp_path, study, second, "evaluate", 4.0)
    measured(tmp_path, study, third, "evaluate", 0.1, "diverged")  # measured nothing
    measured(tmp_path, study, first, "evaluate", 9.0, settings="w=best")  # of another kind
    rows = status.rows(study, tmp_path)
    assert seconds(rows, "measure") == pytest.approx([3.0] * 4)  # of seven runs
    assert seconds(rows, "timing") == [None] * 6
    assert status.wall_seconds(study, rows, 2) == pytest.approx((4 * 3.0 + 4) / 2 + 6)
    assert seconds_left(study, tmp_path, 2) is None
    measured(tmp_path, study, first, "time_epoch", 5.0)
    # Measures share the cores, timings run one after the other.
    assert seconds_left(study, tmp_path, 2) == pytest.approx(4 * 4.0 / 2 + 5 * 6.0)
    with open(tmp_path / "job_seconds.csv", "a") as file:
        file.write(f"evaluate,default,{DATA},small_cnn,\nevalu")  # torn by a full disk
    assert seconds_left(study, tmp_path, 2) == pytest.approx(38.0)
    (tmp_path / "job_seconds.csv").unlink()
    (tmp_path / "job_seconds.csv").mkdir()  # a job must not fail without it
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
    monkeypatch.setenv(requirements.REMOTE_GPUS, "true")  # nothing is missing here
    study = planner.make(small_study.config(defaults=given, experiment={"seeds": 3}))
    monkeypatch.setattr(status, "START_SECONDS", 0.0)
    rows = [replace(row, seconds=3600.0) for row in status.rows(study, "nowhere")]
    trainings = [row for row in rows if row.job.noun == jobs.TRAINING]
    assert status.wall_seconds(study, trainings, cores) == expected
