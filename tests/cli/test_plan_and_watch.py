"""The texts of `plan` and `watch`."""

import pytest
import yaml

import small_study
from batchscope.cli import plan
from batchscope.core import disk
from batchscope.core.errors import UserError
from batchscope.host import requirements
from batchscope.rules import study as rules_study
from batchscope.store import estimates, paths, progress
from batchscope.study import config


@pytest.fixture(autouse=True)
def _cores(monkeypatch):
    monkeypatch.setattr(requirements, "usable_cores", lambda: 2)


def write(tmp_path, **changes):
    path = tmp_path / "config.yaml"
    path.write_text(yaml.safe_dump(small_study.config(**changes)))
    return path


def text(path, results):
    return plan.text(plan.study(path, "full", results), results)


def test_missing_jobs_by_experiment_and_their_time(tmp_path):
    path, results = write(tmp_path, experiment={"measure": ["evaluate"]}), tmp_path / "r"
    study = config.study(path)
    lines = text(path, results).splitlines()
    assert lines[0] == "Study s" and lines[3].split() == ["a", "4", "missing", "4", "evaluate"]
    assert f"Data sets to prepare: {next(iter(study.datasets))}." in lines
    assert any(line.startswith("Missing: 4 trainings and 4 measures; ") for line in lines)
    for factors in study.runs.values():
        estimates.note_epoch(results, factors, 60 / factors["epochs"])
    missing = next(line for line in text(path, results).splitlines() if line[:8] == "Missing:")
    assert missing == (
        "Missing: 4 trainings and 4 measures, at least 2 min on 2 cores; unknown for 4 measures."
    )


def test_records_of_another_version_are_counted(tmp_path):
    path, results = write(tmp_path, experiment={"seeds": 1}), tmp_path / "r"
    for run in config.study(path).runs:
        small_study.finish_run(results, run, version="train-v0")
    found = text(path, results)
    assert "train: 2 records of another version (train-v0; now " in found
    assert "Missing: 2 trainings, about " in found


def test_a_prepared_data_set_tells_which_batch_is_too_large(tmp_path):
    """The content of a local file is unknown before."""
    (tmp_path / "mnist.npz").touch()
    local = {"local": {"source": "mnist", "path": str(tmp_path / "mnist.npz")}}
    sizes = {"vary": {"batch_size": [16, 50001]}}
    path = write(tmp_path, datasets=local, defaults={"dataset": "local"}, experiment=sizes)
    results = tmp_path / "results"
    (token,) = plan.study(path, "full", results).datasets
    record = paths.dataset_record(results, token)
    disk.write_json(record, {"counts": {"train": 50001}})
    plan.study(path, "full", results)
    disk.write_json(record, {"counts": {"train": 50000}})
    with pytest.raises(
        UserError, match=r"^experiments.a.vary.batch_size\[1\]: Expected at most 50000, "
    ):
        plan.study(path, "full", results)


def test_watch_lists_the_missing_jobs_of_the_last_study_and_running_jobs(tmp_path):
    assert plan.watch_text(tmp_path) == "No training, measure or timing runs now."
    path = write(tmp_path, experiment={"measure": ["evaluate"], "seeds": 1})
    rules_study.note_owner(paths.study_folder(tmp_path, "s"), "s", path)
    small, large = config.study(path).runs
    first, _ = plan.watch_text(tmp_path).splitlines()
    assert first.startswith("Study s, missing: 2 trainings and 2 measures; ")
    small_study.finish_run(tmp_path, small, status="diverged")
    small_study.finish_run(tmp_path, large)
    listed = progress.listed_as_running
    with listed(tmp_path, "evaluate", large), listed(tmp_path, "train", small):
        first, *jobs = plan.watch_text(tmp_path).splitlines()
    assert first.startswith("Study s, missing: 2 measures; ")
    started = [line.partition(": started ")[0] for line in jobs]
    assert started == [f"train {small}", f"evaluate {large}"]
