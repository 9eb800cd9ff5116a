"""Snapshots, weights after an epoch: kept where they are read, else trained again."""

import shutil
from pathlib import Path

import pytest

import synthetic
from batchscope.core import disk
from batchscope.store import jobs, paths
from batchscope.study import planner
from digit_runs import arrays, record, run_name, step
from small_study import config

pytestmark = pytest.mark.slow


def snapshot(folder: Path, run: str, epoch: int | str, *arguments: str) -> tuple[int, str]:
    words = ("--results", str(folder), "--run", run, "--epoch", str(epoch), *arguments)
    return step("snapshot", *words)


def kept(folder: Path, run: str) -> set[str]:
    return {path.name for path in (folder / "runs" / run / "epochs").glob("*")}


def bits(path: Path) -> dict[str, bytes]:
    return {name: array.tobytes() for name, array in arrays(path).items()}


@pytest.fixture
def copied(dropout_run, tmp_path):
    """Results to edit, with the run of six epochs, the name of the run and its model's file."""
    results, run, model = dropout_run
    return shutil.copytree(results, tmp_path / "results", symlinks=True), run, model


def test_a_training_keeps_what_is_read_and_it_stays(copied):
    folder, run, model = copied
    assert kept(folder, run) == {"1.npz", "2.npz", "middle.npz"}
    path = paths.snapshot_path(folder, run, 2)
    inode, before = path.stat().st_ino, path.read_bytes()
    assert snapshot(folder, run, 2, "--model-file", model) == (0, "")
    assert (path.stat().st_ino, path.read_bytes()) == (inode, before)
    # Newer than what it was made of: Snakemake does not make it again.
    assert path.stat().st_mtime_ns >= (path.parents[1] / "record.json").stat().st_mtime_ns


def test_what_was_not_kept_is_trained_again_to_the_same_bits(copied):
    """Through dropout, batch normalisation, Adam and a warm-up that is longer than it."""
    folder, run, model = copied
    path = paths.snapshot_path(folder, run, 2)
    before = bits(path), record(folder, run)
    path.unlink()
    code, output = snapshot(folder, run, 2, "--model-file", model)
    assert code == 0, output
    assert (bits(path), record(folder, run)) == before
    assert kept(folder, run) == {"1.npz", "2.npz", "middle.npz"}  # no checkpoint stays


@pytest.mark.parametrize("third_kept", [False, True])
def test_the_middle_is_that_of_the_epochs_that_were_run(copied, third_kept):
    folder, run, model = copied
    middle, third = (paths.snapshot_path(folder, run, name) for name in ("middle", 3))
    before = bits(middle)
    middle.rename(third)  # as an older version kept it
    if not third_kept:
        third.unlink()
    assert snapshot(folder, run, "middle", "--model-file", model)[0] == 0
    assert bits(middle) == before
    # A name of its own: what reads the weights after epoch 3 is not made again.
    assert third.exists() == third_kept and middle.stat().st_nlink == 1


def test_weights_of_another_machine_are_refused(copied):
    folder, run, model = copied
    path = paths.snapshot_path(folder, run, 2)
    path.unlink()
    history = path.parents[1] / "history.csv"
    header, first, *rest = history.read_text().splitlines()
    loss = first.split(",")[3]
    first = first.replace(loss, loss[:-1] + ("1" if loss[-1] != "1" else "2"))
    history.write_text("\n".join([header, first, *rest, ""]))
    synthetic.write_sha256(history.parent)
    code, output = snapshot(folder, run, 2, "--model-file", model)
    assert code == 1 and f"{history}: received another history of 2" in output
    assert "Traceback" not in output and not path.exists()


@pytest.mark.parametrize(
    ("changes", "epoch"),
    [
        ({"epochs_run": 4}, 4),  # its final weights
        ({"epochs_run": 1}, "middle"),
        ({"status": "out_of_memory"}, "middle"),
    ],
)
def test_a_run_that_never_came_there_has_no_weights(tmp_path, changes, epoch):
    run = run_name(epochs=8)
    path = paths.run_folder(tmp_path, run) / "record.json"
    disk.write_json(path, {"status": "finished", "epochs_run": 8, **changes})
    assert snapshot(tmp_path, run, epoch) == (0, "")
    assert arrays(paths.snapshot_path(tmp_path, run, epoch)) == {}


def test_what_is_noted_for_the_trainings(tmp_path):
    experiment = {"measure": ["evaluate", "gradient_alignment"], "at_epochs": [1, 2, 4]}
    raw = config(experiment=experiment, defaults={"epochs": 4})
    raw["experiments"]["b"] = {"vary": {"batch_size": [64]}, "seeds": 1, "measure": ["evaluate"]}
    study = planner.make(raw)
    jobs.note_epochs(jobs.JobTable(study, tmp_path))
    (noted,) = tmp_path.iterdir()
    runs = [*study.experiments["a"].runs]  # of the other experiment nothing is read
    expected = [1, 2, "middle"]  # the last weights are kept anyway
    assert disk.read_json(noted) == dict.fromkeys(runs, expected)
    assert jobs.noted_epochs(tmp_path, runs[0]) == tuple(expected)
    # Of a study that reads none nothing stays noted, and nothing is written.
    jobs.note_epochs(jobs.JobTable(planner.make(config()), tmp_path))
    assert jobs.noted_epochs(tmp_path, runs[0]) == ()
    jobs.note_epochs(jobs.JobTable(planner.make(config()), tmp_path / "none"))
    assert not (tmp_path / "none").exists()
