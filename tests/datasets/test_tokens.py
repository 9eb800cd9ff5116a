"""Sequences of tokens: windows of a text, and arrays of whole numbers."""

from __future__ import annotations

import numpy as np
import pytest

from batchscope import datasets
from batchscope.catalogue import dataset_definitions
from batchscope.datasets import looks, tokens
from batchscope.store import estimates, records
from prepared_data import read as prepared
from prepared_data import refused as fault

SPLIT = {"train": 0.5, "validation": 0.25, "test": 0.25}


def text(tmp_path, content, **more):
    (tmp_path / "own.txt").write_bytes(content.encode() if isinstance(content, str) else content)
    path = str(tmp_path / "own.txt")
    return {"source": "text", "path": path, "length": 4, "split": SPLIT, **more}


def npz(tmp_path, **values):
    np.savez(tmp_path / "own.npz", **values)
    split = {"train": 0.6, "validation": 0.2, "test": 0.2}
    return {"source": "npz", "path": str(tmp_path / "own.npz"), "split": split}


def test_windows_by_hand():
    found, following = tokens.windows(np.arange(10), 3)
    assert found.tolist() == [[0, 1, 2], [3, 4, 5], [6, 7, 8]]
    assert following.tolist() == [[1, 2, 3], [4, 5, 6], [7, 8, 9]]
    found, following = tokens.windows(np.arange(9), 3)  # the ninth is a label alone
    assert found.tolist() == [[0, 1, 2], [3, 4, 5]]
    assert following[-1].tolist() == [4, 5, 6]
    assert tokens.windows(np.arange(3), 3)[0].shape == (0, 3)


def test_no_window_lies_in_two_parts(tmp_path):
    """Every character is of its own kind: a character says where in the text it stood."""
    letters = "".join(chr(0x4E00 + index) for index in range(200))
    data = prepared(tmp_path, text(tmp_path, letters))
    ends = {"train": (0, 100), "validation": (100, 150), "test": (150, 200)}
    for split, (start, stop) in ends.items():
        found, labels = data.images(split), data.labels(split)
        assert found.dtype == labels.dtype == np.int32
        assert found.shape == labels.shape == ((stop - start - 1) // 4, 4)
        assert (labels == found + 1).all()
        assert start <= found.min() and labels.max() < stop
        assert len(np.unique(found)) == found.size
    assert (data.kind, data.input_shape, data.label_shape) == ("tokens", (4,), (4,))
    assert data.classes == 200 and data.record["class_names"] == list(letters)
    assert not data.record["class_counts"]


def test_a_byte_order_mark_is_no_character(tmp_path):
    content = "abcdefgh" * 20
    plain = prepared(tmp_path, text(tmp_path, content))
    marked = prepared(tmp_path / "marked", text(tmp_path, b"\xef\xbb\xbf" + content.encode()))
    assert (plain.images("train") == marked.images("train")).all()
    assert marked.record["class_names"] == list("abcdefgh")


def test_the_built_in_text(tmp_path):
    definition = dataset_definitions.BUILT_IN["numpy_docs"].resolved()
    data = prepared(tmp_path, definition)
    content = tokens.built_in_text().read_text("utf-8")
    names = np.array(data.record["class_names"])
    train = "".join(names[np.sort(data.images("train").reshape(-1))])
    assert data.input_shape == (32,) and len(train) > 150_000
    assert set(train) <= set(content)
    resolved = dataset_definitions.resolve(definition)
    assert looks.known(resolved)[:3] == ((32,), data.classes, "tokens")
    first = "".join(names[data.images("validation")[0]])
    assert first in content


@pytest.mark.parametrize(
    ("content", "more", "message"),
    [
        (b"\xff\xfe\x00", {}, "own.txt: cannot be read ('utf-8' codec can't decode byte 0xff in"),
        ("aaaaaaaa", {}, "own.txt: received 1 different characters; two or more are expected."),
        ("", {}, "own.txt: received 0 different characters; two or more are expected."),
        (
            "ab" * 8,
            {},
            "datasets.own.split.validation: received 0.25, which is 4 of 16 characters; at least "
            "5 are expected, for one window.",
        ),
    ],
)
def test_faults_of_a_text(content, more, message, tmp_path):
    assert message in fault(tmp_path, text(tmp_path, content, **more))


TOKENS = np.arange(200).reshape(20, 10) % 7


def test_the_next_token_is_predicted(tmp_path):
    definition = npz(tmp_path, inputs=TOKENS)
    data = prepared(tmp_path, definition)
    assert data.record["counts"] == {"train": 12, "validation": 4, "test": 4}
    assert data.input_shape == (9,) and data.classes == 7
    for split in records.SPLITS:
        assert ((data.images(split) + 1) % 7 == data.labels(split)).all()
    resolved = dataset_definitions.resolve(definition)
    assert looks.known(resolved)[:3] == ((9,), 7, "tokens")
    assert dataset_definitions.read(resolved).kind_of_examples() == "tokens"
    assert estimates.data_bytes(resolved) > 0


def test_labels_of_each_position(tmp_path):
    parts = {"x_train": TOKENS, "y_train": TOKENS // 2, "x_test": TOKENS[:3]}
    definition = npz(tmp_path, **parts, y_test=TOKENS[:3] + 2)
    data = prepared(tmp_path, definition)
    assert data.input_shape == (10,) and data.classes == 9  # the labels of the test part reach 8
    assert (data.labels("train") == data.images("train") // 2).all()
    assert (data.labels("test") == data.images("test") + 2).all()
    assert looks.known(dataset_definitions.resolve(definition))[:3] == ((10,), 9, "tokens")


@pytest.mark.parametrize("shape", [(20,), (20, 1)])
@pytest.mark.parametrize("given", [{}, {"kind": "tokens"}])
def test_one_class_of_each_sequence(shape, given, tmp_path):
    words = np.array(["dull", "keen"])[TOKENS[:, 0] % 2].reshape(shape)
    definition = {**npz(tmp_path, inputs=TOKENS, labels=words), **given}
    data = prepared(tmp_path, definition)
    assert (data.kind, data.input_shape, data.label_shape) == ("sequences", (10,), ())
    assert data.classes == 2 and data.record["class_names"] == ["dull", "keen"]
    for split in records.SPLITS:
        assert data.images(split).dtype == np.int32
        assert (data.images(split)[:, 0] % 2 == data.labels(split)).all()
    resolved = dataset_definitions.resolve(definition)
    assert looks.known(resolved) == ((10,), 2, "sequences", 6)
    token = dataset_definitions.token("own", resolved)
    assert datasets.look(tmp_path, token, resolved) == looks.known(resolved)
    assert dataset_definitions.read(resolved).kind_of_examples() == "sequences"


def changed(row, value):
    other = TOKENS.copy()
    other[row, 3] = value
    return other


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"inputs": changed(5, -1)}, "inputs: received -1 in row 5, position 3; tokens from 0 to"),
        ({"inputs": changed(5, 2**24)}, "inputs: received 16777216 in row 5, position 3; tokens"),
        ({"inputs": TOKENS, "labels": changed(2, -4)}, "labels: received -4 in row 2, position 3"),
        (
            {"inputs": TOKENS, "labels": TOKENS[:, :4]},
            "labels: received labels of shape (20, 4) for tokens of shape (20, 10); a label for",
        ),
        (
            {"inputs": TOKENS, "labels": TOKENS[:9, 0]},
            "received labels of shape (9,) for tokens of shape (20, 10); a label for each position",
        ),
        ({"inputs": changed(5, -1), "labels": TOKENS[:, 0]}, "inputs: received -1 in row 5, pos"),
        ({"inputs": TOKENS * 0}, "inputs: received one token; two or more are expected."),
        ({"inputs": TOKENS[:, :1]}, "inputs: received shape (20, 1); two or more tokens are"),
        (
            {"x_train": TOKENS, "x_test": TOKENS[:, :5]},
            "x_test: received sequences of 4 tokens to predict from; 9 are expected, as in",
        ),
    ],
)
def test_faults_name_the_row(values, message, tmp_path):
    assert message in fault(tmp_path, npz(tmp_path, **values))


def test_floats_are_no_tokens(tmp_path):
    definition = {**npz(tmp_path, inputs=TOKENS / 1.0), "kind": "tokens"}
    assert "inputs: received float64; whole numbers are expected." in fault(tmp_path, definition)
