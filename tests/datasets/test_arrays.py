"""Arrays in npz and idx files: what is kept of images, rows, tokens, labels; and their faults."""

import gzip
import io
import struct
import zipfile
from pathlib import Path

import numpy as np
import pytest

from batchscope.datasets import conversion
from batchscope.study import dataset_definitions
from prepared_data import DATA, SPLIT, everything, fault, little_mnist, npz, prepared, real

RANDOM = np.random.default_rng(0)
IMAGES = RANDOM.integers(0, 256, (40, 4, 3, 1), np.uint8)
ROWS = RANDOM.normal((3, -2, 0), (2, 5, 1), (40, 3))
TOKENS = np.arange(400).reshape(40, 10) % 7
LABELS = np.arange(40) % 2
WORDS = np.array(["no", "yes"])


@pytest.mark.parametrize(
    ("given", "options", "stored", "scale"),
    [
        (IMAGES, {}, IMAGES, 1 / 255),
        (IMAGES[..., 0], {"scale": 0.5}, IMAGES, 0.5),
        (IMAGES / 2, {}, (IMAGES / 2).astype(np.float32), 1.0),
    ],
)
def test_every_image_keeps_its_numbers_and_its_label(given, options, stored, scale, tmp_path):
    data = prepared(tmp_path, npz(tmp_path, {"images": given, "labels": LABELS}, **options))
    assert (data.scale, data.classes, data.input_shape) == (scale, 2, (4, 3, 1))
    counts = {"train": [12, 12], "validation": [4, 4], "test": [4, 4]}
    assert data.record["class_counts"] == counts
    assert data.images("train").dtype == stored.dtype
    pairs = zip(stored, LABELS, strict=True)
    assert everything(data) == sorted((image.tobytes(), str(label)) for image, label in pairs)


def test_the_training_part_alone_standardises_rows(tmp_path):
    test = ROWS[:5] + 100
    values = {"x_train": ROWS, "y_train": LABELS, "x_test": test, "y_test": LABELS[:5]}
    data = prepared(tmp_path, npz(tmp_path, values, split={"validation": 0.25}))
    assert data.record["counts"] == {"train": 30, "validation": 10, "test": 5}
    train = data.images("train").astype(float)
    assert np.allclose(train.mean(axis=0), 0, atol=1e-6)
    assert np.allclose(train.std(axis=0), 1, atol=1e-6)
    mean, deviation = (np.array(data.record[f"feature_{key}"]) for key in ("means", "deviations"))
    assert np.allclose(data.images("test"), (test - mean) / deviation, atol=1e-5)
    back = np.concatenate([data.images(part) for part in ("train", "validation")])
    assert np.allclose(np.sort(back * deviation + mean, axis=0), np.sort(ROWS, axis=0), atol=1e-5)
    assert (data.model_input.kind, data.input_shape, data.scale) == ("rows", (3,), 1.0)


@pytest.mark.parametrize("own_labels", [False, True])
def test_each_position_of_tokens_is_predicted(own_labels, tmp_path):
    """The next token, or the label that the file has; the classes are all tokens and labels."""
    values = {"x_train": TOKENS, "x_test": TOKENS[:3]}
    if own_labels:
        values |= {"y_train": (TOKENS + 1) % 7, "y_test": (TOKENS[:3] + 1) % 7 + 2}
    data = prepared(tmp_path, npz(tmp_path, values))
    assert data.model_input[:4] == ((10 if own_labels else 9,), 9 if own_labels else 7, "tokens", 1)
    assert data.record["counts"] == {"train": 32, "validation": 8, "test": 3}
    assert data.record["class_counts"] == {}
    for split, shift in (("train", 0), ("test", 2 * own_labels)):
        assert ((data.images(split) + 1) % 7 + shift == data.labels(split)).all()
        assert data.images(split).dtype == data.labels(split).dtype == np.int32


@pytest.mark.parametrize(
    ("given", "names"),
    [
        (LABELS[:, None], ["0", "1"]),
        (np.float64(2**53 - 2) + LABELS, ["9007199254740990", "9007199254740991"]),
        (np.char.encode(WORDS)[LABELS], ["no", "yes"]),
        (np.array([b"\xe8", b"\xe9"])[LABELS], ["\\xe8", "\\xe9"]),
        (np.eye(2)[LABELS], ["0", "1"]),
        (np.array(["A", "a"])[LABELS], ["A", "a"]),
    ],
)
def test_labels_of_every_kind_are_the_same_classes(given, names):
    part_labels = {"train": ("a", given), "test": ("b", given[3:])}
    examples = {"train": IMAGES, "test": IMAGES[3:]}
    pairs, class_names, task = conversion.label_examples(
        "own", "images", None, examples, part_labels
    )
    assert pairs["train"][1].tolist() == LABELS.tolist() and class_names == names
    assert pairs["test"][1].tolist() == LABELS[3:].tolist()
    assert pairs["test"][1].dtype == np.int32 and task == "classification"


ZEROS = np.zeros(6, int)


@pytest.mark.parametrize(
    ("arrays", "kind"),
    [
        ({"images": np.zeros((6, 8, 8), np.uint8), "labels": ZEROS}, "images"),
        ({"x_train": np.zeros((6, 4)), "y_train": ZEROS}, "rows"),
        ({"x_train": np.zeros((6, 4), int)}, "tokens"),
        ({"x_train": np.zeros((6, 4), np.uint8), "y_train": np.zeros((6, 1), int)}, "sequences"),
        ({"images": np.zeros((6, 1), int), "labels": np.zeros((6, 1), int)}, "tokens"),
        ({"images": ZEROS, "labels": ZEROS}, None),
        ({"other": np.zeros((6, 4))}, None),
    ],
)
def test_the_kind_of_arrays_is_known_from_their_headers(arrays, kind, tmp_path):
    definition = npz(tmp_path, arrays)
    assert dataset_definitions.read(definition).kind_of_examples() == kind
    assert dataset_definitions.read({**definition, "kind": "rows"}).kind_of_examples() == "rows"
    (tmp_path / "own.npz").write_bytes(b"PK")
    assert dataset_definitions.read(definition).kind_of_examples() is None


def altered(array, where, value):
    other = array.copy()
    other[where] = value
    return other


NOT_FINITE = altered(ROWS, (17, 2), np.nan)
HALF = ROWS.astype(np.float16)  # The limit of float32 is infinite in it.
TESTED = {"x_train": ROWS, "y_train": WORDS[LABELS], "x_test": ROWS[:2]}


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"x": IMAGES}, "own.npz: received x;"),
        ({"images": IMAGES, "inputs": ROWS, "labels": LABELS}, "npz: received images, inputs, lab"),
        ({"images": IMAGES, "labels": LABELS[:9]}, "labels: received labels of shape (9,);"),
        ({"images": IMAGES + 1e39, "labels": LABELS}, "images: received NaN, infinity or a number"),
        ({"images": IMAGES, "labels": np.array(["a"] * 40, object)}, "npz: labels: cannot be read"),
        ({"inputs": NOT_FINITE, "labels": LABELS}, "inputs: received nan in row 17, column 2;"),
        ({"inputs": altered(HALF, (5, 1), np.inf), "labels": LABELS}, "received inf in row 5,"),
        ({"inputs": ROWS, "labels": altered(HALF[:, 0], 7, np.inf)}, "received inf in row 7;"),
        ({"inputs": altered(TOKENS, (5, 3), -1)}, "inputs: received -1 in row 5, column 3;"),
        ({"x_train": TOKENS, "x_test": TOKENS[:, :5]}, "x_test: received int32 of shape (40, 4);"),
        ({"inputs": ROWS, "labels": np.where(LABELS, np.nan, 0)}, "labels: received nan in row 1;"),
        ({"inputs": ROWS, "labels": np.where(LABELS, np.nan, 0.5)}, "received nan in row 1;"),
        ({"inputs": ROWS, "labels": LABELS * 0}, "labels: received one class;"),
        ({"inputs": ROWS, "labels": np.array(["Cat", "cat"])[LABELS]}, "'Cat' and 'cat'"),
        ({"inputs": ROWS, "labels": LABELS.astype("u8") + 2**63}, "received 9223372036854775808 "),
        (TESTED | {"y_test": ["no", "maybe"]}, "y_test: received 'maybe' in row 1;"),
        (TESTED | {"y_test": [0, 1]}, "y_test: received int64"),
    ],
)
def test_faults_of_examples_name_file_key_and_row(values, message, tmp_path):
    assert message in fault(tmp_path, npz(tmp_path, values))


def test_parts_go_by_the_names_that_people_give_them(tmp_path):
    values = {"X_train": ROWS, "y_train": LABELS, "X_val": ROWS[:9], "y_val": LABELS[:9]}
    own = npz(tmp_path, {**values, "ids": np.array(["a", None], object)}, split={"test": 0.2})
    with zipfile.ZipFile(tmp_path / "own.npz", "a") as archive:
        archive.writestr("readme.txt", "what is not used is not read")
    assert dataset_definitions.read(own).kind_of_examples() == "rows"
    data = prepared(tmp_path, own)
    assert data.record["counts"] == {"train": 32, "validation": 9, "test": 8}
    with zipfile.ZipFile(tmp_path / "own.npz", "a") as archive:
        archive.writestr("x_testing", "no array")
    message = fault(tmp_path, own, "text")
    assert message.startswith(f"datasets.text: {tmp_path}/own.npz: x_testing: cannot be read (")
    other = npz(tmp_path, {**values, "x_train": ROWS, "x_val": ROWS, "x_dev": ROWS})
    assert "own.npz: received x_train, x_" in fault(tmp_path, other, "twice")


def test_a_file_that_is_no_npz_is_refused(tmp_path):
    (tmp_path / "own.npz").write_text("text")
    np.save(tmp_path / "own.npy", IMAGES)
    header = io.BytesIO()
    np.lib.format.write_array_header_1_0(
        header, {"descr": "|u1", "fortran_order": False, "shape": (10**15, 1, 1)}
    )
    with zipfile.ZipFile(tmp_path / "claims.npz", "w") as archive:
        archive.writestr("images.npy", header.getvalue())
    for name in ("own.npz", "own.npy", "claims.npz"):
        path = str(tmp_path / name)
        message = fault(tmp_path, {"source": "npz", "path": path, "split": SPLIT})
        place = f"{path}: images" if name == "claims.npz" else path
        assert message.startswith(f"datasets.own: {place}: cannot be read (")


def write_idx(folder, values, ending=""):
    folder.mkdir(exist_ok=True)
    for name, prefix in (("train", "train"), ("test", "t10k")):
        for what, array in (("images", values[f"x_{name}"]), ("labels", values[f"y_{name}"])):
            header = struct.pack(f">{1 + array.ndim}I", 0x0800 + array.ndim, *array.shape)
            data = header + array.tobytes()
            path = folder / f"{prefix}-{what}-idx{array.ndim}-ubyte{ending}"
            path.write_bytes(gzip.compress(data) if ending else data)
    return folder


def mnist(path, validation=10, **options):
    split = {"validation": validation, "seed": 0, **options}
    raw = {"source": "mnist", "path": str(path), "split": split}
    return dataset_definitions.read(raw).resolved()


def test_mnist_is_the_same_from_npz_and_from_idx_files(tmp_path):
    values = little_mnist()
    np.savez(tmp_path / "mnist.npz", **values)
    plain = write_idx(tmp_path / "plain", values)
    packed = write_idx(tmp_path / "packed", values, ".gz")
    paths = (tmp_path / "mnist.npz", plain, packed)
    first, *others = (prepared(tmp_path, mnist(path), "mnist") for path in paths)
    assert first.record["counts"] == {"train": 40, "validation": 10, "test": 20}
    assert (first.images("test")[..., 0] == values["x_test"]).all()  # untouched, in order
    assert (first.labels("test") == values["y_test"]).all()
    assert first.scale == 1 / 255 and first.input_shape == (6, 5, 1)
    order = np.random.default_rng([0, 0]).permutation(50)
    assert set(first.images("train")[:, 0, 0, 0]) == set(values["x_train"][order[:40], 0, 0])
    for other in others:
        assert other.record["sha256"] == first.record["sha256"]
    assert len(others[1].record["source_sha256"]) == 4


def test_mnist_is_validated_with_test_images_where_all_others_are_to_train_on(tmp_path):
    values = little_mnist()
    np.savez(tmp_path / "own.npz", **values)
    data = prepared(tmp_path, mnist(tmp_path / "own.npz", 8, validation_from="test"))
    assert data.record["counts"] == {"train": 50, "validation": 8, "test": 12}
    pairs = [
        (image.tobytes(), str(label))
        for part in ("train", "test")
        for image, label in zip(values[f"x_{part}"], values[f"y_{part}"], strict=True)
    ]
    assert everything(data) == sorted(pairs)
    tested = set(map(bytes, values["x_test"]))
    assert set(map(bytes, data.images("validation"))) < tested
    assert (data.images("validation")[..., 0] != values["x_test"][:8]).any()  # drawn
    message = fault(tmp_path, mnist(tmp_path / "own.npz", 20, validation_from="test"))
    assert "own.split.validation: received 20, for 20 test examples;" in message


def test_mnist_of_so_many_training_images_per_class(tmp_path):
    values = little_mnist(train=53)  # six of the classes 0 to 2, five of the others
    np.savez(tmp_path / "own.npz", **values)
    definition = mnist(tmp_path / "own.npz") | {"per_class": 4}
    data = prepared(tmp_path, definition)
    assert data.record["counts"] == {"train": 30, "validation": 10, "test": 20}
    kept = np.concatenate([data.images("train"), data.images("validation")])
    assert sorted(map(bytes, kept)) == sorted(map(bytes, values["x_train"][:40]))
    assert prepared(tmp_path, definition | {"per_class": 5}).record["counts"]["train"] == 40
    message = fault(tmp_path, definition | {"per_class": 6})
    assert message.startswith("datasets.own.per_class: received 6, for 5 training images of 3;")


def test_mnist_faults(tmp_path):
    folder = write_idx(tmp_path / "idx", little_mnist())
    too_many = fault(tmp_path, mnist(folder, 50))
    assert "own.split: received validation 50, for 50 examples;" in too_many
    path = folder / "train-images-idx3-ubyte"
    whole = path.read_bytes()
    for content in (whole[:-1], whole[1:], whole[:3]):
        path.write_bytes(content)
        assert f"{path}: cannot be read" in fault(tmp_path, mnist(folder))
    path.unlink()
    assert "received no x_train or train-images-idx3-ubyte" in fault(tmp_path, mnist(folder))


@real
def test_the_real_mnist(tmp_path):
    data = prepared(tmp_path, mnist(Path(DATA) / "mnist", 10000), "mnist")
    assert data.record["counts"] == {"train": 50000, "validation": 10000, "test": 10000}
    # The official labels: their counts by digit, in the training file and in the test file.
    counts = data.record["class_counts"]
    assert tuple(map(sum, zip(counts["train"], counts["validation"], strict=True))) == (
        dataset_definitions.SOURCES["mnist"].members
    )
    assert counts["test"] == [980, 1135, 1032, 1010, 982, 892, 958, 1028, 974, 1009]
    assert data.labels("test")[:10].tolist() == [7, 2, 1, 0, 4, 1, 4, 9, 5, 9]
    images = np.concatenate([data.images("train"), data.images("validation")])
    assert abs(images.mean() / 255 - 0.1307) < 1e-4
