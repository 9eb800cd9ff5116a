"""The states of a study's jobs, by their files and the machine's requirements; and their logs."""

import os
from pathlib import Path

import pytest

from batchscope.core import disk
from batchscope.host import requirements
from batchscope.store import jobs, status
from batchscope.study import planner
from batchscope.study.registry import VERSIONS
from small_study import config, finish, finish_run

OWN = {"mine": str(Path(__file__).parents[1] / "data" / "noisy_model.py")}


def planned(models=None, **experiment):
    return planner.make(config(models=models or {}, experiment=experiment))


def test_a_measure_is_made_again_after_its_run(tmp_path):
    study = planned(vary={"batch_size": [16]}, seeds=1, measure=["evaluate", "weight_distance"])
    finish(tmp_path, study)
    training, *measures = jobs.JobTable(study, tmp_path).by_record.values()
    latest = max(measure.job.path.stat().st_mtime_ns for measure in measures)
    os.utime(training.job.path, ns=2 * (latest + 10**6,))
    states = jobs.JobTable(study, tmp_path).by_record.values()
    assert [state.is_missing for state in states] == [False, True, True]


@pytest.mark.parametrize(("version", "made"), [("train-v1", True), (VERSIONS["train"], False)])
def test_a_run_of_another_version_is_not_trained_for_its_files(tmp_path, version, made):
    study = planned(vary={"batch_size": [16]}, seeds=1)
    finish(tmp_path, study, train=version)
    next(tmp_path.glob("runs/*/updates.npz")).unlink()
    (state,) = jobs.JobTable(study, tmp_path).by_record.values()
    assert state.is_complete == made
    state.job.path.write_text("")  # a damaged record has no version
    (state,) = jobs.JobTable(study, tmp_path).by_record.values()
    assert state.is_missing


def test_each_file_of_a_run_and_of_its_data_is_known(tmp_path):
    study = planned(set={"evaluate_every": 100}, vary={"batch_size": [16]}, measure=["landscape"])
    files = finish(tmp_path, study)
    assert sum(path.name == "trajectory.csv" for path in files) == len(study.runs)
    assert sum(path.name == "default.npz" for path in files) == len(study.runs)
    table = jobs.JobTable(study, tmp_path)
    assert not any(state.is_missing for state in table.by_record.values())
    assert all(table.data_states().values())
    for path in files:
        elsewhere = path.rename(tmp_path / "elsewhere")
        table = jobs.JobTable(study, tmp_path)
        missing = [state.job for state in table.by_record.values() if state.is_missing]
        lost = [job for job in missing if path in table.files(job)]
        if path.parent.parent.name == "data":
            assert missing == [] and not any(table.data_states().values())
        else:
            assert len(lost) == 1
            # The measure of a run follows it.
            assert len(missing) == (2 if lost[0].measure == "train" else 1)
            assert all(job.runs == lost[0].runs for job in missing)
        elsewhere.rename(path)


@pytest.fixture
def _without_a_gpu(monkeypatch):
    absent = {"gpu": requirements.GPU}
    monkeypatch.setattr(requirements, "missing", lambda factors: absent.get(factors["device"]))


@pytest.mark.usefixtures("_without_a_gpu")
def test_jobs_that_wait_for_a_requirement(tmp_path):
    measures = ["evaluate", "weight_distance"]
    study = planned(vary={"batch_size": [16], "device": ["cpu", "gpu"]}, seeds=1, measure=measures)
    table = jobs.JobTable(study, tmp_path)
    assert sum(state.is_missing for state in table.by_record.values()) == 3
    assert [job.measure for job in table.waiting_jobs()[requirements.GPU]] == ["train"]
    assert status.count_by_noun(table.waiting_jobs()[requirements.GPU]) == "1 training"
    # After a training on another machine, a measure that reads only weights is made here.
    (run,) = (run for run, factors in study.runs.items() if factors["device"] == "gpu")
    disk.write_json(jobs.training_job(tmp_path, run).path, {"status": "finished"})
    table = jobs.JobTable(study, tmp_path)
    assert {job.measure for job in table.waiting_jobs()[requirements.GPU]} == {"train", "evaluate"}
    states = [state for state in table.by_record.values() if run in state.job.runs]
    (state,) = (state for state in states if not state.missing_requirement)
    assert state.job.measure == "weight_distance"


@pytest.mark.usefixtures("_without_a_gpu")
def test_user_models_with_missing_jobs(tmp_path):
    vary = {"model": ["small_cnn", "mine"], "batch_size": [16]}
    study = planned(OWN, vary=vary, seeds=1, measure=["evaluate"])
    (token,) = [model for model, path in study.models.items() if path]
    (dataset,) = study.datasets
    assert jobs.JobTable(study, tmp_path).user_models_of_missing_jobs() == {(dataset, token)}
    *_, last = finish(tmp_path, study)
    assert jobs.JobTable(study, tmp_path).user_models_of_missing_jobs() == set()
    last.unlink()
    assert jobs.JobTable(study, tmp_path).user_models_of_missing_jobs() == {(dataset, token)}
    on_gpu = planned(OWN, vary=vary, set={"device": "gpu"})
    for other in (planned(vary={"batch_size": [8]}), on_gpu):
        assert jobs.JobTable(other, tmp_path).user_models_of_missing_jobs() == set()
    assert jobs.JobTable(on_gpu, tmp_path).data_states() == {}  # no job here reads the data


def test_a_record_of_an_epoch_has_the_settings_of_its_measure():
    assert jobs.settings_at_epoch("noise_scale", {"examples": 64}, 2) == "ex=64+at=2"
    # Weights that are stated by the epoch are stated once.
    assert jobs.settings_at_epoch("evaluate", {"weights": "best"}, 2) == "at=2"


def test_jobs_without_results_have_logs(tmp_path):
    study = planned(seeds=1)
    first, second = study.runs
    results, logs = tmp_path / "results", tmp_path / "logs"
    finish_run(results, first)
    assert jobs.JobTable(study, results).missing_logs() == {
        logs / "train" / f"{second}.log",
        logs / "prepare_data" / f"{next(iter(study.datasets))}.log",
    }
