"""What other libraries saved: Hugging Face's data sets, where they are installed, and tf.data's."""

from __future__ import annotations

import io
import sys

import numpy as np
import pytest
from PIL import Image

from batchscope.host import tensorflow_start

tensorflow_start.start()

import tensorflow as tf

from batchscope.catalogue import dataset_definitions
from batchscope.datasets import looks
from prepared_data import SPLIT, prepared, problems, refused

IMAGES = np.random.default_rng(0).integers(0, 256, (40, 4, 3, 1), np.uint8)
LABELS = np.arange(40) % 4
TESTED = {"test": 0.25}


def definition(source, path, **more):
    return dataset_definitions.resolve({"source": source, "path": str(path), **more})


@pytest.mark.parametrize("batch", [None, 7, 8])  # the last one without a rest
def test_pairs_of_tf_data(batch, tmp_path):
    data = tf.data.Dataset.from_tensor_slices((IMAGES, LABELS))
    data = data.batch(batch, drop_remainder=batch == 8) if batch else data
    for name in ("train", "val"):
        data.save(str(tmp_path / "own" / name))
    found = prepared(tmp_path, definition("tf_data", tmp_path / "own", split=TESTED, scale=1))
    assert found.record["counts"] == {"train": 32, "validation": 40, "test": 8}
    assert (found.images("validation") == IMAGES).all() and found.scale == 1.0
    assert (found.labels("validation") == LABELS).all()
    (problem,) = dataset_definitions.read(definition("tf_data", tmp_path / "own")).problems(("d",))
    assert problem.place == ("d", "split")


def test_batches_that_look_like_examples_are_asked_about(tmp_path):
    data = tf.data.Dataset.from_tensor_slices((np.ones((320, 10)), np.arange(320.0)))
    data.batch(32, drop_remainder=True).save(str(tmp_path / "own"))
    message = refused(tmp_path, definition("tf_data", tmp_path / "own", split=SPLIT))
    assert "(32, 10)" in message and "unbatch" in message


def test_rows_and_words_of_tf_data(tmp_path):
    rows, words = np.random.default_rng(0).normal(size=(40, 5)), np.array(["no", "yes"])
    tf.data.Dataset.from_tensor_slices((rows, words[LABELS % 2])).save(str(tmp_path / "own"))
    own = definition("tf_data", tmp_path / "own", split=SPLIT)
    assert looks.known("mine", own) == looks.Look((5,), 2, "rows")
    assert prepared(tmp_path, own).record["class_names"] == ["no", "yes"]


def test_faults_of_tf_data(tmp_path):
    plain = tf.data.Dataset.from_tensor_slices((IMAGES, LABELS))
    ragged = tf.data.Dataset.from_generator(
        lambda: iter([([1, 2], 0), ([1, 2, 3], 1)]),
        output_signature=(tf.TensorSpec((None,), tf.int32), tf.TensorSpec((), tf.int32)),
    )
    made = {"images": tf.data.Dataset.from_tensor_slices(IMAGES), "none": plain.take(0)}
    for name, data in {**made, "ragged": ragged, "whole": plain}.items():
        data.save(str(tmp_path / name))
    for file in (tmp_path / "whole").rglob("*.snapshot"):
        file.write_bytes(file.read_bytes()[:-100])
    for name in ("images", "none", "ragged", "whole", "nothing"):
        (tmp_path / name).mkdir(exist_ok=True)
        message = refused(tmp_path, definition("tf_data", tmp_path / name, split=SPLIT))
        assert message.startswith(f"datasets.own: {tmp_path / name}: cannot be read (")
        assert "\n" not in message


def picture(grey):
    file = io.BytesIO()
    Image.new("RGB", (9, 7), (grey,) * 3).save(file, "PNG")
    return {"bytes": file.getvalue(), "path": None}


@pytest.fixture
def hugging_face():
    pytest.importorskip("datasets.load")  # this folder's name is `datasets` too
    import datasets

    datasets.disable_progress_bars()
    return datasets


def test_images_of_hugging_face(hugging_face, tmp_path):
    names = ["wolf", "cat"]
    features = hugging_face.Features(
        image=hugging_face.Image(),
        label=hugging_face.ClassLabel(names=names),
        id=hugging_face.Value("int64"),
    )
    columns = {"image": [picture(n) for n in range(20)], "label": [n % 2 for n in range(20)]}
    data = hugging_face.Dataset.from_dict({**columns, "id": [*range(20)]}, features)
    hugging_face.DatasetDict(train=data, test=data).save_to_disk(tmp_path / "own")
    source = definition("hugging_face", tmp_path / "own", image_size=8, split={"validation": 0.2})
    assert looks.known("mine", source)[:3] == ((8, 8, 3), 2, "images")
    assert problems(source) == []
    found = prepared(tmp_path, source)
    assert found.record["counts"] == {"train": 16, "validation": 4, "test": 20}
    assert found.record["class_names"] == names
    assert found.images("test")[:, 0, 0, 0].tolist() == [*range(20)]
    assert found.labels("test").tolist() == columns["label"]
    source["image_size"] = None
    assert "own: received columns image and no image_size;" in refused(tmp_path, source)
    data.save_to_disk(tmp_path / "alone")
    message = refused(tmp_path, definition("hugging_face", tmp_path / "alone", image_size=8))
    assert message.startswith("datasets.own.split.validation: received nothing;")


def test_numbers_of_hugging_face(hugging_face, tmp_path):
    rows = np.random.default_rng(0).normal(1e6, 1, (40, 2))
    words = [f"class {label}" for label in LABELS]
    columns = {"a": rows[:, 0], "b": rows[:, 1], "tokens": np.arange(400).reshape(40, 10) % 7}
    data = hugging_face.Dataset.from_dict({**columns, "kind": words})
    data.save_to_disk(tmp_path / "own")
    more = {"label": "kind", "split": SPLIT}
    found = prepared(
        tmp_path, definition("hugging_face", tmp_path / "own", inputs=["a", "b"], **more)
    )
    assert found.look.kind == "rows" and found.record["class_names"] == sorted({*words})
    assert found.record["feature_means"] == pytest.approx([1e6, 1e6], abs=1)
    back = (
        found.images("train") * found.record["feature_deviations"] + found.record["feature_means"]
    )
    assert {round(each, 4) for each in back[:, 0]} < {round(each, 4) for each in rows[:, 0]}
    tokens = definition("hugging_face", tmp_path / "own", inputs=["tokens"], **more)
    assert prepared(tmp_path, tokens).look[:3] == ((10,), 4, "sequences")
    wrong = definition("hugging_face", tmp_path / "own", inputs=["c"], split=SPLIT)
    assert "own: received c, label;" in refused(tmp_path, wrong)
    hugging_face.DatasetDict(test=data).save_to_disk(tmp_path / "test")
    assert "received test;" in refused(tmp_path, definition("hugging_face", tmp_path / "test"))


def test_what_hugging_face_did_not_save(tmp_path, monkeypatch):
    """Without the package, its name is told."""
    monkeypatch.setitem(sys.modules, "datasets", None)
    source = definition("hugging_face", tmp_path, split=SPLIT)
    message = "datasets.own.source: received hugging_face without the package `datasets`;"
    assert refused(tmp_path, source).startswith(message)
    assert problems(source)[0].startswith(message)
