"""A checkpoint that is taken up, passed over, or cannot be read at this moment."""

from __future__ import annotations

import errno

import keras
import numpy as np
import pytest

from batchscope import disk
from batchscope.errors import UserError
from batchscope.training import checkpoint


@pytest.fixture
def path(tmp_path):
    path = tmp_path / "checkpoint.npz"
    checkpoint.save(path, "key", {"epoch": 1}, [keras.Variable([1.0, 2.0])], {})
    return path


def load(path, key="key", shape=(2,)):
    variable = keras.Variable(np.zeros(shape))
    return checkpoint.load(path, key, [variable]), variable.numpy().tolist()


def test_one_of_another_kind_is_passed_over_aloud(path, capsys):
    assert load(path) == (({"epoch": 1}, {}), [1.0, 2.0])
    assert capsys.readouterr().out == ""
    assert load(path, key="other") == (None, [0.0, 0.0])
    assert load(path, shape=(3,)) == (None, [0.0] * 3)
    path.write_bytes(path.read_bytes()[:-9])
    assert load(path) == (None, [0.0, 0.0])
    whys = ("of another version", "of another model", "damaged")
    lines = [f"{path}: passed over, since it is {why}." for why in whys]
    assert capsys.readouterr().out.splitlines() == lines
    path.unlink()
    assert load(path) == (None, [0.0, 0.0]) and capsys.readouterr().out == ""


def test_one_that_cannot_be_read_now_is_not_lost(path, monkeypatch):
    """Else the training would begin anew, and write its own over it."""

    def refuse(*_, **__):
        raise OSError(errno.EIO, "Input/output error")

    monkeypatch.setattr(disk.np, "load", refuse)
    with pytest.raises(UserError, match=r"checkpoint\.npz: cannot be read \(Input/output error"):
        load(path)
