"""A checkpoint that is taken up, passed over, or cannot be read at this moment."""

from __future__ import annotations

import errno
import math

import keras
import numpy as np
import pytest

from batchscope import disk
from batchscope.errors import UserError
from batchscope.training import checkpoint
from batchscope.training.checkpoint import Progress


def load(path, key="key", shape=(2,)):
    variable = keras.Variable(np.zeros(shape))
    return checkpoint.load(path, key, [variable]), variable.numpy().tolist()


@pytest.fixture
def path(tmp_path):
    progress = Progress(epoch=1, step=2, best={"trainable:a": np.ones(3)})
    progress.epoch_start = {"a/b:c": np.zeros(1)}
    progress.norms = [np.ones(2, np.float32), np.zeros(1, np.float32)]
    path = tmp_path / "checkpoint.npz"
    checkpoint.save(path, "key", progress, [keras.Variable([1.0, 2.0])])
    return path


def test_progress_goes_round(path):
    found, values = load(path)
    assert (found.epoch, found.step, values) == (1, 2, [1.0, 2.0])
    assert math.isnan(found.best_value)
    assert found.update_norms().tolist() == [1, 1, 0]
    for arrays, name, size in ((found.best, "trainable:a", 3), (found.epoch_start, "a/b:c", 1)):
        assert {key: array.size for key, array in arrays.items()} == {name: size}
    found.step = 0  # its variables are those of the epoch's start
    checkpoint.save(path, "key", found, [keras.Variable([1.0, 2.0])])
    assert load(path)[0].epoch_start == {}


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

    def refuse(*_, **__):
        raise OSError(errno.EIO, "Input/output error")

    monkeypatch.setattr(disk.np, "load", refuse)
    with pytest.raises(UserError, match=r"checkpoint\.npz: .*Input/output error"):
        load(path)
