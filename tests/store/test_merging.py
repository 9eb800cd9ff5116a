"""Results of another machine: what is missing is copied, and nothing that is here changes."""

from __future__ import annotations

import os
import shutil

import numpy as np
import pytest

from batchscope import disk
from batchscope.errors import UserError
from batchscope.store import merging, paths
from measured_run import DATASET, RUN, measured, write_record, write_run
from measured_run import write_dataset as write_arrays

MEASURE = f"runs/{RUN}/weight_distance/default.json"
TIMING = "timing/{}/one+bs=8/time_epoch/default.json"


def write_timing(results, machine, cpu="A"):
    record = {"measure": "time_epoch", "machine": {"cpu": cpu, "logical_cores": 2}}
    disk.write_json(results / TIMING.format(machine), record)


@pytest.fixture
def other(tmp_path):
    """Results with a data set, a run with a measure, and a timing."""
    results = tmp_path / "other"
    write_arrays(results)
    write_run(results)
    measured("weight_distance", results, (results / MEASURE).parent, name="default.json")
    final = paths.run_folder(results, RUN) / "final.npz"
    write_record(results, weights={"final": disk.file_sha256(final)})
    write_timing(results, "there")
    return results


def files(folder):
    return {
        path.relative_to(folder): path.read_bytes() for path in folder.rglob("*") if path.is_file()
    }


def test_all_that_is_missing_is_copied_once(other, tmp_path):
    here = tmp_path / "results"
    found = merging.merge(other, here)
    assert list(found.copied.values()) == [1, 1, 1, 1] and not found.passed_over
    assert files(here) == files(other)
    # What is made of something is newer, so that no workflow makes it again.
    times = [
        os.stat(path).st_mtime_ns
        for path in (
            paths.dataset_record(here, DATASET),
            paths.run_record(paths.run_folder(here, RUN)),
            here / MEASURE,
        )
    ]
    assert times == sorted(times)
    before = {path: os.stat(path).st_mtime_ns for path in here.rglob("*") if path.is_file()}
    assert sum(merging.merge(other, here).copied.values()) == 0
    assert before == {path: os.stat(path).st_mtime_ns for path in before}


def test_a_measure_of_a_run_that_is_here_too(other, tmp_path):
    here = tmp_path / "results"
    merging.merge(other, here)
    (here / MEASURE).unlink()
    assert merging.merge(other, here).copied["measure"] == 1
    (here / MEASURE).unlink()
    write_record(here, weights={"final": "of another training"})
    found = merging.merge(other, here)
    assert [path for path, _ in found.passed_over] == [other / MEASURE]
    assert not (here / MEASURE).exists()


def test_other_versions_and_runs_in_training_are_passed_over(other, tmp_path, monkeypatch):
    here = tmp_path / "results"
    write_record(other, version="train-v0")
    found = merging.merge(other, here)
    assert paths.run_folder(other, RUN) in [path for path, _ in found.passed_over]
    assert not paths.run_folder(here, RUN).exists()
    write_record(other, weights={})
    lock = paths.run_folder(here, RUN) / "training.lock"
    monkeypatch.setattr(merging.locks, "take", lambda path: None)
    lock.parent.mkdir(parents=True)
    lock.touch()
    assert merging.merge(other, here).copied["run"] == 0
    assert [*lock.parent.iterdir()] == [lock]
    monkeypatch.undo()
    record = disk.read_json(other / MEASURE)
    disk.write_json(other / MEASURE, {**record, "version": "weight_distance-v0"})
    found = merging.merge(other, here)  # a killed process left the lock
    assert found.copied["run"] == 1
    assert [path for path, _ in found.passed_over] == [other / MEASURE]


def test_what_is_made_of_a_record_is_newer_and_half_a_measure_stays_there(other, tmp_path):
    here = tmp_path / "results"
    early = paths.snapshot_path(other, RUN, 1)
    shutil.copytree(other / "runs" / RUN, other / "backup")
    early.parent.mkdir()
    shutil.copy(paths.run_folder(other, RUN) / "final.npz", early)
    disk.write_json(other / f"runs/{RUN}/branches/default.kept/points.json", {})
    found = merging.merge(other, here)
    assert not found.passed_over and not (here / f"runs/{RUN}/branches").exists()
    record = paths.run_record(paths.run_folder(here, RUN))
    copied = paths.snapshot_path(here, RUN, 1)
    assert os.stat(copied).st_mtime_ns >= os.stat(record).st_mtime_ns


def test_timings_of_another_version_and_those_with_a_folder(other, tmp_path):
    here = tmp_path / "results"
    old = other / TIMING.format("there")
    disk.write_json(old, {**disk.read_json(old), "version": "time_epoch-v0"})
    profile = other / "timing/there/one+bs=8/profile/default.json"
    disk.write_json(profile, disk.read_json(old) | {"version": None})
    profile.with_suffix("").mkdir()
    (profile.with_suffix("") / "trace.json").write_text("{}")
    found = merging.merge(other, here)
    assert found.copied["timing"] == 1
    assert [path for path, _ in found.passed_over] == [old]
    assert (here / profile.relative_to(other)).with_suffix("").joinpath("trace.json").exists()


def test_timings_of_another_machine_with_the_same_name(other, tmp_path):
    here = tmp_path / "results"
    write_timing(here, "there", cpu="B")
    found = merging.merge(other, here)
    assert found.copied["timing"] == 0
    assert [path for path, _ in found.passed_over] == [other / "timing" / "there"]
    shutil.rmtree(here / "timing")
    write_timing(here, "there")
    disk.write_json(other / "timing/there/two+bs=8/time_epoch/default.json", {"machine": {}})
    assert merging.merge(other, here).copied["timing"] == 0  # of some machine, nobody knows which


def test_other_data_and_damaged_files_are_refused(other, tmp_path):
    here = tmp_path / "results"
    merging.merge(other, here)
    record = paths.dataset_record(here, DATASET)
    disk.write_json(record, {**disk.read_json(record), "sha256": {"train_images.npy": "0"}})
    with pytest.raises(UserError, match=DATASET):
        merging.merge(other, here)
    empty = tmp_path / "empty"
    np.save(other / "data" / DATASET / "train_labels.npy", np.zeros(3))
    with pytest.raises(UserError, match=r"train_labels\.npy"):
        merging.merge(other, empty)
    assert not paths.dataset_folder(empty, DATASET).exists()


@pytest.mark.parametrize("source", ["nothing", "results"])
def test_a_folder_without_results_and_the_own_one_are_refused(source, other, tmp_path):
    here = tmp_path / "results"
    merging.merge(other, here)
    with pytest.raises(UserError, match=source):
        merging.merge(tmp_path / source, here)
