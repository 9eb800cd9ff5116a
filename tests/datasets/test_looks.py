"""What is known of images before they are prepared, against what their preparation finds."""

from __future__ import annotations

import numpy as np
import pytest
from PIL import Image

from batchscope import datasets
from batchscope.catalogue import dataset_definitions
from batchscope.datasets import looks
from prepared_data import DATA, SPLIT, real


def folder(path):
    for name in ("b", "a", "c", ".hidden"):
        (path / name).mkdir(parents=True)
        for number in range(5):
            Image.new("RGB", (9, 7)).save(path / name / f"{number}.png")
    return path


def npz(path, **arrays):
    np.savez(path, **arrays)
    return path


GREY, COLOUR = np.zeros((30, 6, 5), np.uint8), np.zeros((30, 6, 5, 3), np.float32)
LABELS = np.arange(30) % 3


@pytest.mark.parametrize(
    ("make", "definition", "expected"),
    [
        (None, {"source": "digits"}, ((8, 8, 1), 10)),
        (None, {"source": "patches", "image_size": 16, "per_class": 10}, ((16, 16, 3), 2)),
        (
            folder,
            {"source": "image_folder", "image_size": 4, "channels": 1, "split": SPLIT},
            ((4, 4, 1), 3),
        ),
        (
            lambda path: npz(path.with_suffix(".npz"), images=COLOUR, labels=LABELS[:, None]),
            {"source": "npz", "split": SPLIT},
            ((6, 5, 3), 3),
        ),
        (
            lambda path: npz(path.with_suffix(".npz"), x_train=GREY, y_train=LABELS),
            {"source": "npz", "split": SPLIT},
            ((6, 5, 1), 3),
        ),
    ],
)
def test_a_look_is_what_preparing_finds(make, definition, expected, tmp_path):
    if make:
        definition = {**definition, "path": str(make(tmp_path / "mine"))}
    definition = dataset_definitions.resolve(definition)
    token = dataset_definitions.token("own", definition)
    assert datasets.look(tmp_path, token, definition) == looks.known(definition)
    assert looks.known(definition)[:3] == (*expected, "images")
    datasets.prepare(token, definition, tmp_path)
    assert datasets.look(tmp_path, token, definition)[:3] == (*expected, "images")
    data = datasets.load(tmp_path, token)
    assert (data.input_shape, data.classes) == expected


@real
def test_the_look_of_mnist(tmp_path):
    definition = dataset_definitions.resolve({"source": "mnist"})
    own = dataset_definitions.resolve({"source": "mnist", "path": f"{DATA}/mnist"})
    assert looks.known(own) is None
    datasets.prepare("mnist-00000000", own, tmp_path)
    data = datasets.load(tmp_path, "mnist-00000000")
    assert looks.known(definition)[:3] == (data.input_shape, data.classes, data.kind)


def test_cats_and_dogs_are_two_classes_in_colour():
    definition = {"source": "cats_vs_dogs", "image_size": 64, "split": SPLIT}
    assert looks.known(dataset_definitions.resolve(definition))[:3] == ((64, 64, 3), 2, "images")


@pytest.mark.parametrize(
    "arrays",
    [{"pictures": GREY}, {"images": GREY}, {"images": GREY[0], "labels": LABELS}, None],
)
def test_what_preparing_refuses_has_no_look(arrays, tmp_path):
    path = tmp_path / "own.npz"
    path.write_bytes(b"no archive")
    if arrays:
        npz(path, **arrays)
    definition = dataset_definitions.resolve({"source": "npz", "path": str(path)})
    assert looks.known(definition) is None
    absent = {"source": "image_folder", "path": str(path), "image_size": 4, "split": SPLIT}
    assert looks.known(dataset_definitions.resolve(absent)) is None
