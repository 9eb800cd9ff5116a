"""What is known of examples before they are prepared is what their preparation finds."""

import numpy as np
import pytest
from PIL import Image

from batchscope import datasets
from batchscope.datasets import model_inputs
from batchscope.store import records
from batchscope.study import dataset_definitions, example_kinds
from prepared_data import SPLIT, little_mnist

GREY, COLOUR = np.zeros((30, 6, 5), np.uint8), np.zeros((30, 6, 5, 3), np.float32)
LABELS, TOKENS = np.arange(30) % 3, np.arange(300).reshape(30, 10) % 7


def folder(path):
    for name in ("b", "a", "c", ".hidden"):
        (path / name).mkdir(parents=True)
        for number in range(5):
            Image.new("RGB", (9, 7)).save(path / name / f"{number}.png")
    return path


def npz(**arrays):
    def write(path):
        np.savez(path.with_suffix(".npz"), **arrays)
        return path.with_suffix(".npz")

    return write


def text(content):
    def write(path):
        path.write_text(content)
        return path

    return write


IMAGES_OF_A_FOLDER = {"source": "image_folder", "image_size": 4, "channels": 1, "split": SPLIT}
NPZ = {"source": "npz", "split": SPLIT}


@pytest.mark.parametrize(
    ("make", "definition", "expected"),
    [
        (None, {"source": "digits"}, ((8, 8, 1), 10)),
        (None, {"source": "patches", "image_size": 16, "per_class": 10}, ((16, 16, 3), 2)),
        (folder, IMAGES_OF_A_FOLDER, ((4, 4, 1), 3)),
        (npz(images=COLOUR, labels=LABELS[:, None]), NPZ, ((6, 5, 3), 3)),
        (npz(inputs=TOKENS), NPZ, ((9,), 7, "tokens")),
        (
            npz(x_train=TOKENS, y_train=LABELS, x_test=TOKENS + 2, y_test=LABELS),
            NPZ,
            ((10,), 3, "sequences", 8),
        ),
        (npz(**little_mnist()), {"source": "mnist", "split": {"validation": 9}}, ((6, 5, 1), 10)),
        (text("1,2,x\n3,4,y\n" * 9), {"source": "csv", "split": SPLIT}, ((2,), 2, "rows")),
        (text("abcd" * 99), {"source": "text", "length": 5}, ((5,), 4, "tokens")),
    ],
)
def test_a_look_is_what_preparing_finds(make, definition, expected, tmp_path):
    if make:
        definition = {**definition, "path": str(make(tmp_path / "mine"))}
    definition = dataset_definitions.resolve(definition)
    token = dataset_definitions.token("own", definition)
    _, examples = model_inputs.sized("own", definition)
    for _ in range(2):
        result = datasets.model_input(tmp_path, token, definition)
        assert result._replace(scaling=None) == model_inputs.ModelInput(*expected)
        assert (result.scaling is not None) == (result.kind == example_kinds.IMAGES)
        datasets.prepare(token, definition, tmp_path)
    assert examples == records.training_images(tmp_path, token)


@pytest.mark.parametrize(
    ("definition", "expected"),
    [
        ({"source": "digits"}, (1 / 16, False, "")),
        ({**NPZ, "images": GREY}, (1 / 255, False, "datasets.own.scale")),
        ({**NPZ, "images": GREY, "scale": 1}, (1, True, "datasets.own.scale")),
        ({**NPZ, "images": COLOUR}, (1, False, "datasets.own.scale")),
    ],
)
def test_what_images_are_multiplied_by_and_who_says_so(definition, expected, tmp_path):
    if "images" in definition:
        np.savez(tmp_path / "own.npz", images=definition.pop("images"), labels=LABELS)
        definition = {**definition, "path": str(tmp_path / "own.npz")}
    definition = dataset_definitions.resolve(definition)
    token = dataset_definitions.token("own", definition)
    assert datasets.model_input(tmp_path, token, definition).scaling == expected
    datasets.prepare(token, definition, tmp_path)
    assert datasets.model_input(tmp_path, token, definition).scaling == expected
    assert datasets.load(tmp_path, token).model_input.scaling == expected
