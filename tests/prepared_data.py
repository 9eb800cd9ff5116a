"""What tests of data sets share: a definition prepared and loaded, or refused; the real files.

Tests of the real MNIST and Cats vs Dogs read the folder that the environment variable
BATCHSCOPE_DATA names: `mnist/` with the four idx files, `cats_vs_dogs/` with a zip file.
"""

import os

import numpy as np
import pytest
from PIL import Image

from batchscope import datasets
from batchscope.core.errors import UserError
from batchscope.datasets.prepared import input_and_size_from_definition
from batchscope.store import paths
from batchscope.study import dataset_definitions

DATA = os.environ.get("BATCHSCOPE_DATA")
real = pytest.mark.skipif(
    not DATA, reason="BATCHSCOPE_DATA does not name a folder with mnist/ and cats_vs_dogs/"
)
SPLIT = {"train": 0.6, "validation": 0.2, "test": 0.2, "seed": 0}
# A control sequence that renames a terminal, and its printable form.
HOSTILE, SHOWN = "\x1b]0;owned\x07x", r"\x1b]0;owned\x07x"
THIRDS = {"train": 2, "validation": 1, "test": 1, "seed": 0}


def prepared(tmp_path, definition, name="own"):
    token = dataset_definitions.read(definition).token(name)
    datasets.prepare(token, definition, tmp_path / "results")
    return datasets.load(tmp_path / "results", token)


def faults(tmp_path, definition, name="own"):
    with pytest.raises(UserError) as caught:
        prepared(tmp_path, definition, name)
    token = dataset_definitions.read(definition).token(name)
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
        input_and_size_from_definition(name, definition)
    except UserError as error:
        return str(error).splitlines()
    return []


def read(tmp_path, definition):
    return prepared(tmp_path, dataset_definitions.read(definition).resolved())


def refused(tmp_path, definition):
    return fault(tmp_path, dataset_definitions.read(definition).resolved())


def npz(tmp_path, values, **options):
    """Write arrays; return the definition of their data set."""
    np.savez(tmp_path / "own.npz", **values)
    return {"source": "npz", "path": str(tmp_path / "own.npz"), "split": SPLIT, **options}


def csv(tmp_path, text, **options):
    """Write a table; return the definition of its data set."""
    (tmp_path / "own.csv").write_text(text)
    return {"source": "csv", "path": str(tmp_path / "own.csv"), "split": SPLIT, **options}


def all_parts(data):
    """Return the examples and the labels of all parts."""
    arrays = (map(get, paths.SPLITS) for get in (data.images, data.labels))
    return tuple(np.concatenate(list(parts)) for parts in arrays)


def everything(data):
    """Return the examples of all parts as bytes, each with the name of its class."""
    names = data.record["class_names"]
    pairs = zip(*all_parts(data), strict=True)
    return sorted((example.tobytes(), names[label]) for example, label in pairs)


def image_files(folder, content):
    """Write images below a folder, by class folder, or files by name; return the folder.

    Args:
        content: Folder or file -> bytes of a file, a number of images, or a mode and a number.
            Images of the n-th class are 50 n levels brighter than those of the first.
    """
    for position, (name, given) in enumerate(content.items()):
        path = folder / name
        if isinstance(given, bytes):
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(given)
            continue
        mode, count = given if isinstance(given, tuple) else ("RGB", given)
        path.mkdir(parents=True, exist_ok=True)
        for number in range(count):
            level = 10 + 50 * (position % 5) + number
            colour = (level,) * 3 if mode == "RGB" else 40000
            Image.new(mode, (9, 7), colour).save(
                path / f"{number}.{'png' if mode == 'RGB' else 'tif'}"
            )
    return folder


def little_mnist(train=50, test=20):
    random = np.random.default_rng(0)
    result = {}
    for name, count in (("train", train), ("test", test)):
        result[f"x_{name}"] = random.integers(0, 256, (count, 6, 5), np.uint8)
        result[f"y_{name}"] = (np.arange(count) % 10).astype(np.uint8)
    return result
