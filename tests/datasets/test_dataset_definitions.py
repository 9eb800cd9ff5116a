"""Definitions of data sets: what they take, their ids, what is known of their examples."""

import re
from pathlib import Path

import pytest
from pydantic import ValidationError

from batchscope.datasets.source import Request
from batchscope.study import dataset_definitions
from batchscope.study.dataset_definitions import DatasetInfo, read

SHA256 = "0a" * 32
HERE = str(Path(__file__).parent)
TENTHS = {"train": 0.8, "validation": 0.1, "test": 0.1}
COUNTS = {"train": 600, "validation": 200, "test": 200}
MNIST = {"source": "mnist"}
CATS = {"source": "cats_vs_dogs", "image_size": 64, "split": TENTHS}
FOLDER = {"source": "image_folder", "path": "x", "image_size": 32, "split": TENTHS}
NPZ = {"source": "npz", "path": "x.npz"}
CSV = {"source": "csv", "path": "x.csv", "split": TENTHS}
FROM_TEST = {"validation_from": "test"}


@pytest.mark.parametrize(
    ("raw", "token"),
    [
        ({"source": "digits"}, "d-065f9c58"),
        ({"source": "digits", "split": {**COUNTS, "seed": 3}}, "d-7796e03f"),
        ({"source": "wine"}, "d-e0b3da2e"),
        ({**MNIST, "per_class": 500, "split": {"validation": 5000, **FROM_TEST}}, "d-c3ab792c"),
        ({**MNIST, "path": "a.npz", "sha256": SHA256}, "d-810b1acb"),
        (CATS, "d-e72570b2"),
        ({**FOLDER, "path": "~/images", "channels": 1, "per_class": 100}, "d-21d1d972"),
        ({**NPZ, "scale": 2.0, "kind": "rows", "split": {"validation": 0.1}}, "d-a4b6ca15"),
        ({**CSV, "label": "2", "ignore": [1, "name"]}, "d-70417dfa"),
        ({"source": "text"}, "d-880a519f"),
        ({"source": "patches", "image_size": 256}, "d-2175fc43"),
    ],
)
def test_ids_are_those_of_older_results(raw, token):
    resolved = read(raw).resolved()
    assert read(raw).token("d") == read(resolved).token("d") == token
    assert read(resolved).resolved() == resolved


def test_digest_is_of_what_is_meant():
    def token(**keys):
        return dataset_definitions.read({**MNIST, **keys}).token("d")

    assert token() == token(split={"seed": 0}) == token(split={"validation": 10000})
    assert token() == token(path=None, sha256=None, per_class=None)
    assert token(path="a.npz") != token(path="b.npz") != token()
    assert token(path="a.npz", sha256=SHA256) == token(path="b.npz", sha256=SHA256)
    assert token(split={"seed": 1}) != token() != token(split={"validation": 6000})
    assert token(split={"validation_from": "train"}) == token() != token(split=FROM_TEST)
    assert token() != token(per_class=2000) != token(per_class=2001)


@pytest.mark.parametrize(
    ("raw", "place"),
    [
        ({"path": "x.npz"}, ()),
        ({**CSV, "label": 0}, ("label",)),
        ({**CSV, "label": ["a", "a"]}, ("label", 1)),
        ({**CSV, "ignore": ["a", True]}, ("ignore", 1)),
        ({"source": "text", "split": {**TENTHS, "test": 1}}, ("split", "test")),
    ],
)
def test_what_a_source_does_not_take(raw, place):
    with pytest.raises(ValidationError) as caught:
        read(raw)
    (error,) = caught.value.errors()
    assert error["loc"][1:] == place


@pytest.mark.parametrize(
    ("raw", "place", "words"),
    [
        ({**CATS, "per_class": 20000}, "per_class", "12500.*received 20000"),
        ({**CATS, "per_class": 900, "split": COUNTS}, "split", "received 1000 .* at most 900"),
        ({**CATS, "split": {**TENTHS, "validation": 0.3}}, "split", "sum to 1.2;"),
        ({**CATS, "split": {**TENTHS, "test": 100}}, "split", "received 0.8, 0.1, 100;"),
        ({"source": "wine", "split": {"train": 0.6, "validation": 0.2, "test": 0.015}}, None, ""),
        ({**MNIST, "split": FROM_TEST}, "validation", "9999 .*received 10000"),
        ({**MNIST, "per_class": 5421}, None, ""),
        ({**MNIST, "per_class": 5422}, "per_class", "5421.*received 5422"),
        ({**MNIST, "per_class": 1000}, "validation", "9999 .*received 10000"),
        ({**MNIST, "sha256": SHA256}, "path", "Missing"),
        # What a file of the user's holds is not known.
        ({**CATS, "path": __file__, "split": {**COUNTS, "train": 20000}}, None, ""),
        (NPZ, "path", "existing file.*'x.npz'"),
        ({**FOLDER, "path": __file__}, "path", "existing folder"),
        ({**FOLDER, "path": HERE, "split": {"validation": 1, "test": 1}}, None, ""),
    ],
)
def test_problems_of_meaning(raw, place, words):
    result = list(read(raw).problems(("d",)))
    assert [problem.place[-1] for problem in result] == ([place] if place else [])
    assert all(re.search(words, problem.text) for problem in result)


def test_a_path_may_begin_in_a_users_home(tmp_path, monkeypatch):
    """As the loader takes it; the digest is of the text, which is the same for every user."""
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / "mine.npz").write_bytes(bytes(1000))
    definition = read({"source": "npz", "path": "~/mine.npz"})
    assert list(definition.problems(("d",))) == [] and definition.path == "~/mine.npz"
    assert definition.local_file("datasets.mine") == tmp_path / "mine.npz"


@pytest.mark.parametrize(
    ("raw", "examples", "side", "kind", "size"),
    [
        ({"source": "digits"}, ((8, 8, 1), 10), 8, "images", 1087),
        (MNIST, ((28, 28, 1), 10), 28, "images", 50000),
        (CATS, ((64, 64, 3), 2), 64, "images", 20000),
        ({**CATS, "path": "a.zip", "split": COUNTS}, ((64, 64, 3), 2), 64, "images", 1200),
        ({**MNIST, "per_class": 2000}, ((28, 28, 1), 10), 28, "images", 10000),
        ({**CATS, "path": "a.zip", "per_class": 20000}, ((64, 64, 3), 2), 64, "images", 32000),
        ({**FOLDER, "channels": 1}, None, 32, "images", None),
        (NPZ, None, None, None, None),
        (CSV, None, None, "rows", None),
    ],
)
def test_what_is_known_when_planning(raw, examples, side, kind, size):
    definition = read(raw)
    info = DatasetInfo.of("mine", definition, lambda _: None)
    if definition.source != "image_folder":  # it lists the files of its folder
        outline = definition.outline(Request(""))
        assert (outline and outline[:2]) == examples
    assert (info.image_side, info.kind, info.training_examples) == (side, kind, size)
    assert (info.name, info.id) == ("mine", definition.token("mine"))
    assert DatasetInfo.of("mine", definition, {info.id: 7}.get).training_examples == 7
