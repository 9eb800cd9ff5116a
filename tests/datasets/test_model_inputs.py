"""What is known of examples before they are prepared is what their preparation finds."""

import numpy as np
import pytest

from batchscope import datasets
from batchscope.datasets import prepared
from batchscope.store import records
from batchscope.study import dataset_definitions, tasks
from prepared_data import SPLIT, csv, image_files, npz

GREY, COLOUR = np.zeros((30, 6, 5), np.uint8), np.zeros((30, 6, 5, 3), np.float32)
LABELS, TOKENS = np.arange(30) % 3, np.arange(300).reshape(30, 10) % 7


def folder(path):
    path = image_files(path / "mine", {"b": 5, "a": 5, "c": 5, ".hidden": 5})
    source = {"source": "image_folder", "path": str(path), "image_size": 4, "channels": 1}
    return {**source, "split": SPLIT}


def text(path):
    (path / "own.txt").write_text("abcd" * 99)
    return {"source": "text", "path": str(path / "own.txt"), "length": 5}


SEQUENCES = {"x_train": TOKENS, "y_train": LABELS, "x_test": TOKENS + 2, "y_test": LABELS}


@pytest.mark.parametrize(
    ("make", "expected"),
    [
        (lambda _: {"source": "patches", "image_size": 16, "per_class": 10}, ((16, 16, 3), 2)),
        (folder, ((4, 4, 1), 3)),
        (lambda at: npz(at, {"images": COLOUR, "labels": LABELS[:, None]}), ((6, 5, 3), 3)),
        (lambda at: npz(at, SEQUENCES), ((10,), 3, "sequences", 8)),
        (lambda at: csv(at, "1,2,x\n3,4,y\n" * 9), ((2,), 2, "rows")),
        (text, ((5,), 4, "tokens")),
    ],
)
def test_a_look_is_what_preparing_finds(make, expected, tmp_path):
    definition = dataset_definitions.read(make(tmp_path)).resolved()
    token = dataset_definitions.read(definition).token("own")
    _, examples = prepared.input_and_size_from_definition("own", definition)
    for _ in range(2):
        result, _ = datasets.input_and_size(tmp_path, token, definition)
        assert result._replace(scaling=None) == prepared.ModelInput(*expected)
        assert (result.scaling is not None) == (result.kind == tasks.IMAGES)
        datasets.prepare(token, definition, tmp_path)
    assert examples == records.training_size(tmp_path, token)


@pytest.mark.parametrize(
    ("images", "options", "expected"),
    [
        (None, {}, (1 / 16, False, "")),
        (GREY, {"scale": 1}, (1, True, "datasets.own.scale")),
        (COLOUR, {}, (1, False, "datasets.own.scale")),
    ],
)
def test_what_images_are_multiplied_by_and_who_says_so(images, options, expected, tmp_path):
    definition = {"source": "digits"}
    if images is not None:
        definition = npz(tmp_path, {"images": images, "labels": LABELS}, **options)
    definition = dataset_definitions.read(definition).resolved()
    token = dataset_definitions.read(definition).token("own")
    assert datasets.input_and_size(tmp_path, token, definition)[0].scaling == expected
    datasets.prepare(token, definition, tmp_path)
    assert datasets.load(tmp_path, token).model_input.scaling == expected


def test_a_token_that_no_part_has_does_not_count(tmp_path):
    """Row 29 alone has the token 29. It is the tenth of its class, and nine are drawn."""
    rows = np.arange(2, 30, 3)
    drawn = (np.random.default_rng([seed, 2]).permutation(rows).tolist() for seed in range(99))
    seed = next(seed for seed, order in enumerate(drawn) if order[-1] == 29)
    tokens, split = np.arange(30).repeat(2).reshape(30, 2), dict.fromkeys(SPLIT, 0.3)
    definition = npz(tmp_path, {"inputs": tokens, "labels": LABELS}, split={**split, "seed": seed})
    token = dataset_definitions.read(definition).token("own")
    before, _ = datasets.input_and_size(tmp_path, token, definition)
    datasets.prepare(token, definition, tmp_path)
    assert before == datasets.load(tmp_path, token).model_input
    assert before.largest == 28
