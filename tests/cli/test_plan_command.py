"""The text of `plan`."""

import pytest
import yaml

import small_study
from batchscope.cli import plan
from batchscope.core import disk
from batchscope.core.errors import UserError
from batchscope.host import requirements
from batchscope.store import estimates, paths
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
