"""Rows of numbers and labels of every kind: what is kept, and which row a fault is in."""

from __future__ import annotations

import numpy as np
import pytest

from batchscope.catalogue import dataset_definitions
from batchscope.datasets import labels, looks, rows
from batchscope.store import records
from prepared_data import SPLIT
from prepared_data import read as prepared
from prepared_data import refused as fault

ROWS = np.random.default_rng(0).normal((3, -2, 0), (2, 5, 1), (40, 3))
LABELS = np.arange(40) % 2


def npz(tmp_path, **values):
    np.savez(tmp_path / "own.npz", **values)
    return {"source": "npz", "path": str(tmp_path / "own.npz"), "split": SPLIT}


def csv(tmp_path, text, **more):
    (tmp_path / "own.csv").write_text(text)
    return {"source": "csv", "path": str(tmp_path / "own.csv"), "split": SPLIT, **more}


def test_standardised_by_hand():
    table = np.array([[1.0, 7.0, 0.1], [3.0, 7.0, 0.1], [5.0, 7.0, 0.1]])
    mean, deviation = rows.moments(table[:2])
    assert mean.tolist() == [2.0, 7.0, 0.1] and deviation.tolist() == [1.0, 0.0, 0.0]
    found = rows.standardised(table, mean, deviation)
    assert found.dtype == np.float32
    assert found.tolist() == [[-1.0, 0.0, 0.0], [1.0, 0.0, 0.0], [3.0, 0.0, 0.0]]


def test_the_training_part_alone_standardises(tmp_path):
    data = prepared(tmp_path, npz(tmp_path, inputs=ROWS, labels=LABELS))
    train = data.images("train").astype(np.float64)
    assert np.allclose(train.mean(axis=0), 0, atol=1e-6)
    assert np.allclose(train.std(axis=0), 1, atol=1e-6)
    mean, deviation = (data.record[f"feature_{key}"] for key in ("means", "deviations"))
    back = np.concatenate([data.images(split) for split in records.SPLITS]) * deviation + mean
    assert np.allclose(np.sort(back, axis=0), np.sort(ROWS, axis=0), atol=1e-5)
    assert not np.allclose(data.images("test").mean(axis=0), 0, atol=1e-3)
    assert (data.input_shape, data.classes, data.scale) == ((3,), 2, 1.0)


def test_parts_of_the_file_are_standardised_by_its_training_part(tmp_path):
    values = {"x_train": ROWS, "y_train": LABELS, "x_test": ROWS[:5] + 100, "y_test": LABELS[:5]}
    definition = npz(tmp_path, **values)
    data = prepared(tmp_path, definition)
    mean, deviation = (np.array(data.record[f"feature_{key}"]) for key in ("means", "deviations"))
    expected = (values["x_test"] - mean) / deviation
    assert np.allclose(data.images("test"), expected, atol=1e-5)


@pytest.mark.parametrize(
    ("source", "features", "counts"),
    [("breast_cancer", 30, (212, 357)), ("wine", 13, (59, 71, 48))],
)
def test_what_comes_with_scikit_learn(source, features, counts, tmp_path):
    data = prepared(tmp_path, {"source": source})
    parts = data.record["class_counts"].values()
    assert tuple(map(sum, zip(*parts, strict=True))) == counts
    definition = dataset_definitions.resolve({"source": source})
    assert looks.known(definition)[:3] == (data.input_shape, data.classes, data.kind)
    assert looks.known(definition)[:3] == ((features,), len(counts), "rows")
    size = dataset_definitions.read(definition).training_size()
    assert size == data.record["counts"]["train"]
    from sklearn import datasets as theirs

    loaded = getattr(theirs, f"load_{source}")()
    mean, deviation = (np.array(data.record[f"feature_{key}"]) for key in ("means", "deviations"))
    theirs = rows.standardised(loaded.data, mean, deviation)
    table = {row.tobytes(): label for row, label in zip(theirs, loaded.target, strict=True)}
    found = [table[row.tobytes()] for row in data.images("train")]
    assert found == data.labels("train").tolist()
    assert data.record["class_names"] == loaded.target_names.tolist()


WORDS = np.array(["no", "yes"])


@pytest.mark.parametrize(
    ("given", "names"),
    [
        (LABELS, ["0", "1"]),
        (LABELS[:, None], ["0", "1"]),
        (LABELS + 5, ["5", "6"]),
        (LABELS * 2 - 1, ["-1", "1"]),
        (LABELS.astype(bool), ["0", "1"]),
        (LABELS.astype(np.float32) + 1, ["1", "2"]),
        (WORDS[LABELS], ["no", "yes"]),
        (np.char.encode(WORDS)[LABELS], ["no", "yes"]),
        (np.eye(2)[LABELS], ["0", "1"]),
    ],
)
def test_labels_of_every_kind_are_the_same_classes(given, names, tmp_path):
    data = prepared(tmp_path, npz(tmp_path, inputs=ROWS, labels=given))
    plain = prepared(tmp_path / "plain", npz(tmp_path, inputs=ROWS, labels=LABELS))
    assert data.record["class_names"] == names
    for split in records.SPLITS:
        assert data.labels(split).tolist() == plain.labels(split).tolist()
        assert data.labels(split).dtype == np.int32
    definition = npz(tmp_path, inputs=ROWS, labels=given)
    assert looks.known(dataset_definitions.resolve(definition))[:3] == ((3,), 2, "rows")


def test_classes_of_numbers_are_in_their_order():
    classes, _, names = labels.numbered(("labels", np.array([10, 9, 10, 2])), {})
    assert classes.tolist() == [2, 1, 2, 0] and names == ["2", "9", "10"]


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"labels": LABELS / 4}, "labels: received 0.25 in row 1; whole numbers, words or one-hot"),
        ({"labels": np.where(LABELS, np.nan, 0)}, "labels: received nan in row 1; whole"),
        ({"labels": np.ones((40, 3))}, "labels: received row 0, which is not one 1 among zeros"),
        ({"labels": np.where(LABELS, "", "a")}, "labels: received an empty label in row 1; a word"),
        ({"labels": LABELS * 0}, "labels: received one class; at least two are expected."),
        (
            {"labels": LABELS + 1e17},
            "labels: received 1e+17 in row 0; of float64 whole numbers below",
        ),
        (
            {"labels": LABELS.astype(np.uint64) + 2**63},
            "labels: received 9223372036854775808 in row 0; of uint64 whole numbers below 2^63 are",
        ),
        ({"labels": LABELS[:7]}, "labels: received labels of shape (7,); (40,), or (40, classes)"),
        ({"inputs": np.where(ROWS > 9, np.nan, ROWS)}, "inputs: received nan in row "),
        ({"inputs": ROWS.astype(str)}, "inputs: received <U32 of shape (40, 3); images of shape"),
        ({"inputs": ROWS[0]}, "inputs: received float64 of shape (3,); images of shape (n, "),
        ({"kind": "images"}, "inputs: received shape (40, 3); (n, height, width[, channels])"),
        ({"scale": 0.5}, "datasets.own.scale: received 0.5 for rows; it is expected of images"),
    ],
)
def test_faults_name_the_key_and_the_row(values, message, tmp_path):
    more = {key: values.pop(key) for key in ("kind", "scale") if key in values}
    if "inputs" in values and values["inputs"].dtype.kind == "f" and values["inputs"].ndim == 2:
        table = ROWS.copy()
        table[17, 2] = np.nan
        values, message = {"inputs": table}, "inputs: received nan in row 17, column 2; finite"
    definition = npz(tmp_path, **{"inputs": ROWS, "labels": LABELS, **values})
    assert message in fault(tmp_path, {**definition, **more})


def test_a_class_of_another_part_that_nobody_trains_on(tmp_path):
    values = {"x_train": ROWS, "y_train": WORDS[LABELS], "x_test": ROWS[:3]}
    definition = npz(tmp_path, **values, y_test=np.array(["no", "yes", "maybe"]))
    text = "y_test: received 'maybe' in row 2, a class of no training example; the classes of"
    assert text in fault(tmp_path, definition)
    definition = npz(tmp_path, **values, y_test=np.array([0, 1, 1]))
    assert "y_test: received int64 labels beside <U3 ones in" in fault(tmp_path, definition)


def test_whole_numbers_are_rows_where_it_is_stated(tmp_path):
    counts = np.arange(120).reshape(40, 3)
    definition = {**npz(tmp_path, inputs=counts, labels=LABELS), "kind": "rows"}
    assert prepared(tmp_path, definition).input_shape == (3,)
    resolved = dataset_definitions.resolve(definition)
    assert dataset_definitions.read(resolved).kind_of_examples() == "rows"


@pytest.mark.parametrize(
    "words", [("100000000000000001", "100000000000000002"), ("11", "1_1"), ("07", "1e3")]
)
def test_no_two_labels_of_a_table_become_one_class(words, tmp_path):
    data = prepared(tmp_path, csv(tmp_path, table(words=words)))
    assert data.record["class_names"] == [
        {"07": "7", "1e3": "1000"}.get(each, each) for each in words
    ]


def table(line="{0},{1},{2},{label}", head="a,b,c,class", words=("no", "yes"), count=40):
    lines = [
        line.format(*map(repr, map(float, row)), label=words[label])
        for row, label in zip(ROWS[:count], LABELS[:count], strict=True)
    ]
    return "\n".join([head, *lines] if head else lines) + "\n"


@pytest.mark.parametrize(
    ("text", "more"),
    [
        (table(), {}),
        (table(head=""), {}),
        (table(words=("7", "8")), {"label": "class"}),
        (table(line="{label};{0};{1};{2}", head="class;a;b;c"), {"label": "class"}),
        (table(line="{label}\t{0}\t{1}\t{2}", head=""), {"label": 1}),
        (table(line="x,{0},{1},{label},{2}", head="2,a,b,c,d"), {"label": "4", "ignore": ["2"]}),
        (table(line="{0},{label},{1},{2}", head="a,b,c,d"), {"label": 2.0}),
        (table(line="x,{0},{1},{2},{label}", head="id,a,b,c,class"), {"ignore": ["id"]}),
        (table(line='{0},{1},{2},"{label}"', head='"a","b","c","class"') + "\n\n", {}),
    ],
)
def test_a_table_is_what_its_arrays_are(text, more, tmp_path):
    data = prepared(tmp_path, csv(tmp_path, text, **more))
    plain = prepared(tmp_path / "plain", npz(tmp_path, inputs=ROWS, labels=LABELS))
    for split in records.SPLITS:
        assert data.images(split).tobytes() == plain.images(split).tobytes()
        assert data.labels(split).tolist() == plain.labels(split).tolist()


HEAD = "a,b,class\n"


@pytest.mark.parametrize(
    ("text", "more", "message"),
    [
        (HEAD + "1,2,x\n3,,y\n", {}, "received nothing in line 3, column b; a finite number is"),
        (HEAD + "1,red,x\n", {}, "received 'red' in line 2, column b; a finite number is expected"),
        (HEAD + "1,inf,x\n", {}, "received 'inf' in line 2, column b; a finite"),
        (HEAD + "1,2,x\n1,2\n", {}, "received 2 columns in line 3; 3 are expected, as in the"),
        (HEAD + "1,2,x\n1,2,\n", {}, "received no label in line 3; a class is expected."),
        (HEAD + "1,2,1.5\n1,2,2\n", {}, "received the label 1.5 in line 2; a class is expected: a"),
        (HEAD + "1,2,1e16\n1,2,2\n", {}, "received the label 1e16 in line 2; a class is expected"),
        (
            HEAD + "1,2,1\n1,2,12345678901234567890\n",
            {},
            "received the label 12345678901234567890 in line 3; a class is expected: a word, a",
        ),
        (HEAD + "1,1_000,x\n", {}, "received '1_000' in line 2, column b; a finite number"),
        ("x,label,label\n1,2,2\n", {"label": "label"}, "received 'label' twice in line 1; a name"),
        (HEAD + "1,2,x\n3,4,x\n", {}, "label: received one class; at least two are expected."),
        (HEAD, {}, "received 1 lines; a line per example is expected."),
        ("a,2,x\n1,2,y\n", {}, "received 'a' beside numbers in line 1; the names of all columns"),
        (HEAD + "1,2,x\n", {"label": "kind"}, "own.label: received 'kind'; the name of a column"),
        (HEAD + "1,2,x\n", {"label": 4}, "own.label: received 4; the name of a column, or a"),
        (HEAD + "1,2,x\n", {"ignore": ["d"]}, "own.ignore: received 'd'; the name of a column"),
        ('a,b,class\n"1,2,x\n', {}, "cannot be read (unexpected end of data); a CSV file in UTF-8"),
    ],
)
def test_faults_of_a_table_name_the_line(text, more, message, tmp_path):
    assert message in fault(tmp_path, csv(tmp_path, text, **more))


def test_a_table_that_is_no_text(tmp_path):
    definition = csv(tmp_path, "")
    (tmp_path / "own.csv").write_bytes(b"a,b\n\xff\xfe,1\n")
    assert "a CSV file in UTF-8 is expected" in fault(tmp_path, definition)
