"""Estimated seconds of trainings."""

import pytest

from batchscope.core import disk
from batchscope.store import estimates, paths
from batchscope.study import planner
from small_study import config


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
