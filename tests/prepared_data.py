"""What tests of data sets share: a definition prepared and loaded, or refused; the real files.

Tests of the real MNIST and Cats vs Dogs read the folder that the environment variable
BATCHSCOPE_DATA names: `mnist/` with the four idx files, `cats_vs_dogs/` with a zip file.
"""

import os

import numpy as np
import pytest

from batchscope import datasets
from batchscope.core.errors import UserError
from batchscope.datasets import model_inputs
from batchscope.store import paths
from batchscope.study import dataset_definitions

DATA = os.environ.get("BATCHSCOPE_DATA")
real = pytest.mark.skipif(
    not DATA, reason="BATCHSCOPE_DATA does not name a folder with mnist/ and cats_vs_dogs/"
)
SPLIT = {"train": 0.6, "validation": 0.2, "test": 0.2, "seed": 0}
THIRDS = {"train": 2, "validation": 1, "test": 1, "seed": 0}


def prepared(tmp_path, definition, name="own"):
    token = dataset_definitions.token(name, definition)
    datasets.prepare(token, definition, tmp_path / "results")
    return datasets.load(tmp_path / "results", token)


def faults(tmp_path, definition, name="own"):
    with pytest.raises(UserError) as caught:
        prepared(tmp_path, definition, name)
    token = dataset_definitions.token(name, definition)
    assert not (paths.dataset_folder(tmp_path / "results", token) / "record.json").exists()
    assert list((tmp_path / "results" / "data").glob(".*")) == []  # no scratch folder
    lines = str(caught.value).splitlines()
    assert all(line.startswith(f"datasets.{name}") for line in lines)
    return lines


def fault(tmp_path, definition, name="own"):
    return "\n".join(faults(tmp_path, definition, name))


def problems(definition, name="own"):
    """What is wrong with a data set, as far as it is known before it is prepared."""
    try:
        model_inputs.sized(name, definition)
    except UserError as error:
        return str(error).splitlines()
    return []


def read(tmp_path, definition):
    return prepared(tmp_path, dataset_definitions.resolve(definition))


def refused(tmp_path, definition):
    return fault(tmp_path, dataset_definitions.resolve(definition))


def npz(tmp_path, values, without=None):
    path = tmp_path / "own.npz"
    np.savez(path, **{key: value for key, value in values.items() if key != without})
    return path


def little_mnist(train=50, test=20):
    random = np.random.default_rng(0)
    result = {}
    for name, count in (("train", train), ("test", test)):
        result[f"x_{name}"] = random.integers(0, 256, (count, 6, 5), np.uint8)
        result[f"y_{name}"] = (np.arange(count) % 10).astype(np.uint8)
    return result
