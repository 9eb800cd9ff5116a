"""Checkpoints, and the same bits: in other chunks, and after a stop or a kill at any point."""

import errno
import shutil
import signal
import subprocess
from pathlib import Path
from unittest.mock import Mock

import keras
import numpy as np
import pytest
from test_trainer import history

from batchscope.core import disk
from batchscope.core.errors import Interrupted, UserError
from batchscope.store import progress
from batchscope.study import names
from batchscope.training import checkpoint, trainer
from batchscope.training.checkpoint import Progress
from batchscope.training.fit import FitLimits, Training
from batchscope.training.runs import TrainingRun
from costs import first
from digit_runs import assert_same_bits, door, record, train, wait_for_checkpoints, with_digits
from measured_run import RUN
from project import forked


def load(path, key="key", shape=(2,)):
    variable = keras.Variable(np.zeros(shape))
    return checkpoint.load(path, key, [variable]), variable.numpy().tolist()


@pytest.fixture
def path(tmp_path):
    path = tmp_path / "checkpoint.npz"
    checkpoint.save(path, "key", Progress(), [keras.Variable([1.0, 2.0])])
    return path


def test_one_of_another_kind_is_passed_over_aloud(path, capsys):
    assert load(path)[0] and not capsys.readouterr().out
    assert load(path, key="other") == (None, [0.0, 0.0])
    assert load(path, shape=(3,)) == (None, [0.0] * 3)
    path.write_bytes(path.read_bytes()[:-9])
    assert load(path) == (None, [0.0, 0.0])
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 3 and all(line.startswith(f"{path}: ") for line in lines)
    path.unlink()
    assert load(path) == (None, [0.0, 0.0]) and not capsys.readouterr().out


def test_one_that_cannot_be_read_now_is_not_lost(path, monkeypatch):
    """Else the training would begin anew, and write its own over it."""
    refusal = OSError(errno.EIO, "Input/output error")
    monkeypatch.setattr(disk.np, "load", Mock(side_effect=refusal))
    with pytest.raises(UserError, match=r"checkpoint\.npz: .*Input/output error"):
        load(path)


ADAM = {"optimizer": "adamw", "learning_rate": 0.001}
FACTORS = {
    "sgd": {},
    "line after warm-up": {**ADAM, "schedule": "linear", "warmup_epochs": 1, "method": "sam"},
    "pieces": {**ADAM, "micro_batch_size": 6, "augmentation": "random"},
    "ramp": {"batch_schedule": "steps", "batch_rises": 2, "largest_batch_size": 64},
    "float16": {**ADAM, "precision": "mixed_float16", "schedule": "cosine"},
}


@pytest.mark.parametrize("name", first(FACTORS))
def test_a_training_that_is_stopped_goes_on_with_the_same_bits(name, results, tmp_path):
    options = {"epochs": 2, "update_norms": True, "evaluate_every": 40, **FACTORS[name]}
    run = TrainingRun(results, names.run_name({**names.parse_run(RUN), **options}))
    limits = FitLimits(chunk_steps=2, checkpoint_seconds=1e9)

    def trained(folder, pauses=None):
        training = Training(run, limits, tmp_path / folder)
        counted = iter(range(100))

        def report(*_):
            training.stopping = next(counted) == pauses

        training.reporter.report = report
        training.fit()
        return training

    complete = trained("whole")
    assert not complete.checkpoint_path.exists()  # none was due
    for pauses in (1, 3):  # in the first epoch, and in the second
        with pytest.raises(Interrupted):
            trained("cut", pauses)
    cut = trained("cut")
    assert (cut.progress.resumed, cut.progress.epoch) == (2, 2)
    for one, other in zip(complete.variables, cut.variables, strict=True):
        np.testing.assert_array_equal(one.numpy(), other.numpy())
    norms = [item.progress.update_norms() for item in (complete, cut)]
    np.testing.assert_array_equal(*norms)
    for row in (*complete.progress.history, *cut.progress.history):
        del row["seconds"]
    assert complete.progress.history == cut.progress.history
    assert complete.progress.trajectory == cut.progress.trajectory


@pytest.mark.parametrize(
    ("owner", "name", "seconds", "resumed"),
    [(Training, "_pause", 1e9, 0), (disk, "write_rows", 0.0, 1)],
    ids=["before a checkpoint", "while the results are written"],
)
def test_a_training_that_dies_ends_with_the_same_bits(
    owner, name, seconds, resumed, results, tmp_path, monkeypatch
):
    monkeypatch.setattr(Training, "stop_on_signals", lambda self: None)
    whole, killed = (TrainingRun(with_digits(results, tmp_path / name), RUN) for name in "ab")
    trainer.train(whole)
    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(owner, name, Mock(side_effect=KeyboardInterrupt))
        trainer.train(killed, FitLimits(chunk_steps=2, checkpoint_seconds=seconds))
    assert not (killed.folder / "record.json").exists()
    half = killed.folder / ".checkpoint.npz.a1.tmp"
    half.write_bytes(b"half")
    trainer.train(killed)
    assert record(killed.results, RUN)["resumed"] == resumed
    assert_same_bits(whole.folder, killed.folder)
    assert not (killed.folder / "checkpoint.npz").exists() and not half.exists()


@pytest.fixture
def again(dropout_run, digits, tmp_path) -> Path:
    """Results without the run, and with the note of what it keeps."""
    shutil.copy(dropout_run[0] / "epochs_read.json", with_digits(digits, tmp_path))
    return tmp_path


def test_examples_that_stay_on_the_disk_give_the_same_bits(dropout_run, again):
    results, run, model = dropout_run
    program = (
        "import sys; from batchscope.host import memory_limits; memory_limits._ARRAY_SHARE = 0.0;"
        "from batchscope.cli import entry; entry.main(sys.argv[1:])"
    )
    done = forked(program, *("train", "--results", again, "--run", run, "--model-file", model))
    assert done.returncode == 0, done.stderr
    whole, folder = results / "runs" / run, again / "runs" / run
    assert_same_bits(whole, folder)
    assert history(whole) == history(folder)


def test_killed_at_several_points_ends_with_the_same_bits(dropout_run, again):
    results, run, model = dropout_run
    whole, folder = results / "runs" / run, again / "runs" / run
    arguments = ("train", "--results", str(again), "--run", run, "--model-file", model)
    arguments += ("--chunk-steps", "2", "--checkpoint-seconds", "0")
    kills = {1: signal.SIGKILL, 5: signal.SIGTERM, 12: signal.SIGKILL}
    for checkpoints, kill in kills.items():  # further into the training each time
        process = door(*arguments, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        wait_for_checkpoints(process, folder, checkpoints)
        assert process.poll() is None
        process.send_signal(kill)
        output, _ = process.communicate(timeout=300)
        assert kill == signal.SIGKILL or process.returncode == 85, output
        assert not (folder / "record.json").exists()
    done = train(again, run, *arguments[5:])
    assert done["resumed"] == 3
    assert_same_bits(whole, folder)
    assert history(whole) == history(folder)
    assert not (folder / "checkpoint.npz").exists()
    assert not progress.running_jobs(again)
