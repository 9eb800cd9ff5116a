"""A small study as a map, for tests of planning."""

import errno
import os
from pathlib import Path

import pytest

from batchscope.core.errors import ConfigError
from batchscope.study import planner

DEFAULTS = {
    "dataset": "digits",
    "model": "small_cnn",
    "optimizer": "sgd",
    "learning_rate": 0.1,
    "epochs": 2,
}
MODEL_FILE = Path(__file__).parent / "bad_configs" / "tiny_model.py"


def config(**changes):
    """A small study; `experiment` and `defaults` change those, the rest the top level."""
    experiment = {"vary": {"batch_size": [16, 32]}, "seeds": 2, **changes.pop("experiment", {})}
    defaults = DEFAULTS | changes.pop("defaults", {})
    return {"study": "s", "defaults": defaults, "experiments": {"a": experiment}, **changes}


def problems(raw, scale="full"):
    """Returns the lines of every problem that planning finds."""
    with pytest.raises(ConfigError) as raised:
        planner.make(raw, scale)
    return raised.value.problems


def timed(**experiment):
    """A study of times of MNIST, with two loops."""
    experiment = {
        "vary": {"batch_size": [32], "loop": ["graph", "eager"]},
        "timing": ["throughput", "utilisation"],
        **experiment,
    }
    defaults = {"dataset": "mnist", "model": "campbell_cnn", "optimizer": "sgd"}
    return {"study": "s", "defaults": defaults, "experiments": {"a": experiment}}


def forbid(monkeypatch, method="stat"):
    """Lets the system refuse a method of every path, as it may for anyone but root."""

    def refuse(path, **_):
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(path))

    monkeypatch.setattr(Path, method, refuse)
