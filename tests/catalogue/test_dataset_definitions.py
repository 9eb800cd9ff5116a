"""Definitions of data sets: how they are divided, their size, their digest."""

from pathlib import Path

import pytest

from batchscope.catalogue import dataset_definitions
from batchscope.datasets.raw import Request
from batchscope.store import estimates
from batchscope.study import planner
from small_study import config, forbid


@pytest.mark.parametrize(
    ("split", "members", "counts"),
    [
        ((0.6, 0.2, 0.2), 178, (108, 35, 35)),
        ((0.8, 0.1, 0.1), 12500, (10000, 1250, 1250)),
        ((0.5, 0.1, 0.1), 99, (49, 9, 9)),
        ((0.7, 0.2, 0.1), 10, (7, 2, 1)),
        ((0.3, 0.3, 0.3), 10, (3, 3, 3)),
        ((600, 200, 200), 5000, (600, 200, 200)),
        ((0.9, 0.05, 0.05), 10, (10, 0, 0)),
    ],
)
def test_split_counts(split, members, counts):
    named = dict(zip(("train", "validation", "test"), split, strict=True))
    assert dataset_definitions.split_counts(named, members) == counts


CATS = {"source": "cats_vs_dogs", "image_size": 64}
FRACTIONS = {"train": 0.8, "validation": 0.1, "test": 0.1}


@pytest.mark.parametrize(
    ("raw", "size"),
    [
        ({"source": "digits"}, 1087),
        ({"source": "mnist"}, 50000),
        ({"source": "mnist", "split": {"validation": 6000}}, 54000),
        ({"source": "mnist", "split": {"validation": 6000, "validation_from": "test"}}, 60000),
        ({"source": "mnist", "path": "local.npz"}, None),
        ({"source": "mnist", "path": "local.npz", "per_class": 2000}, None),
        ({"source": "mnist", "per_class": 2000}, 10000),
        (
            {
                "source": "mnist",
                "per_class": 2000,
                "split": {"validation": 5000, "validation_from": "test"},
            },
            20000,
        ),
        ({**CATS, "split": {"train": 600, "validation": 200, "test": 200}}, 1200),
        ({**CATS, "split": FRACTIONS}, 20000),
        ({**CATS, "path": "a.zip", "split": FRACTIONS}, None),
        ({**CATS, "per_class": 50, "split": FRACTIONS}, 80),
        ({"source": "npz", "path": "x.npz"}, None),
    ],
)
def test_training_size(raw, size):
    assert dataset_definitions.training_size(dataset_definitions.resolve(raw)) == size


@pytest.mark.parametrize(
    ("changes", "lines"),
    [
        ({"per_class": 12500}, []),
        ({"split": {"train": 12498, "validation": 1, "test": 1}}, []),
        ({"per_class": 20000}, ["d.per_class: received 20000; at most 12500, the archive's, are"]),
        (
            {"split": {"train": 12499, "validation": 1, "test": 1}},
            ["d.split: received 12501 examples per class; at most 12500 (the archive's) are"],
        ),
    ],
)
def test_the_archive_of_cats_and_dogs_has_so_many(changes, lines, tmp_path):
    raw = {**CATS, "split": FRACTIONS, **changes}
    found = dataset_definitions.problems(("d",), dataset_definitions.resolve(raw))
    assert [problem.line for problem in found] == [f"{line} expected." for line in lines]
    # What a file of the user's holds is not known.
    (tmp_path / "own.zip").touch()
    own = dataset_definitions.resolve({**raw, "path": str(tmp_path / "own.zip")})
    assert list(dataset_definitions.problems(("d",), own)) == []


def test_digest_is_of_what_is_meant():
    def token(**keys):
        return dataset_definitions.token(
            "d", dataset_definitions.resolve({"source": "mnist", **keys})
        )

    sha256 = "0a" * 32
    assert token() == token(split={"seed": 0}) == token(split={"validation": 10000.0})
    assert token() == token(path=None, sha256=None)
    assert token(path="a.npz") != token(path="b.npz") != token()
    assert token(path="a.npz", sha256=sha256) == token(path="b.npz", sha256=sha256)
    assert token(split={"seed": 1}) != token() != token(split={"validation": 6000})
    assert token(split={"validation_from": "train"}) == token()
    assert token(split={"validation_from": "test"}) != token()
    assert token(per_class=None) == token() != token(per_class=2000) != token(per_class=2001)
    # As results of older versions are named: a change here would orphan them.
    assert token() == "d-2f01a1fe"


@pytest.mark.parametrize(
    ("keys", "line"),
    [
        ({"split": {"validation": 9999, "validation_from": "test"}}, ""),
        (
            {"split": {"validation_from": "test"}},
            "d.split.validation: received 10000; at most 9999 of the 10000 test images are",
        ),
        ({"per_class": 5421}, ""),
        (
            {"per_class": 5422},
            "d.per_class: received 5422; at most 5421, the training images of the smallest class, "
            "are",
        ),
        (
            {"per_class": 500, "split": {"validation": 5000}},
            "d.split.validation: received 5000; at most 4999 of the 5000 train images are",
        ),
        ({"per_class": 500, "split": {"validation": 5000, "validation_from": "test"}}, ""),
    ],
)
def test_so_many_images_of_mnist(keys, line, tmp_path):
    definition = dataset_definitions.resolve({"source": "mnist", **keys})
    found = dataset_definitions.problems(("d",), definition)
    assert [problem.line for problem in found] == ([f"{line} expected."] if line else [])
    # What a file of the user's holds is not known.
    (tmp_path / "own.npz").touch()
    own = dataset_definitions.resolve({**definition, "path": str(tmp_path / "own.npz")})
    assert list(dataset_definitions.problems(("d",), own)) == []


def test_a_path_of_digits_stays_text(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("2020").touch()
    raw = config(datasets={"mine": {"source": "npz", "path": "2020"}}, defaults={"dataset": "mine"})
    (definition,) = planner.make(raw).datasets.values()
    given = dict.fromkeys(("sha256", "scale", "split"))
    assert definition == {"source": "npz", "path": "2020", **given}


def test_a_path_may_begin_in_a_users_home(tmp_path, monkeypatch):
    """As the loader takes it; the digest is of the text, which is the same for every user."""
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / "mine.npz").write_bytes(bytes(1000))
    raw = {"source": "npz", "path": "~/mine.npz"}
    (definition,) = planner.make(
        config(datasets={"mine": raw}, defaults={"dataset": "mine"})
    ).datasets.values()
    assert definition["path"] == "~/mine.npz"
    assert estimates.data_bytes(definition) == 1000
    request = Request("datasets.mine", definition, tmp_path, tmp_path)
    assert request.path() == tmp_path / "mine.npz"


@pytest.mark.parametrize("path", ["~/none.npz", "~nobody-of-this-name/none.npz"])
def test_a_home_without_the_file(path, tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    definition = dataset_definitions.resolve({"source": "npz", "path": path})
    (problem,) = dataset_definitions.problems(("d",), definition)
    assert problem.line == f"d.path: received '{path}'; an existing file is expected."


def test_digits_are_as_scikit_learn_has_them():
    datasets = pytest.importorskip("sklearn.datasets")
    import numpy

    labels = datasets.load_digits().target
    assert tuple(numpy.bincount(labels)) == dataset_definitions.class_members({"source": "digits"})


@pytest.mark.parametrize(
    ("keys", "expected"),
    [
        ({"source": "npz"}, "an existing file"),
        ({"source": "mnist"}, "an existing file or folder"),
        ({"source": "image_folder", "image_size": 8, "split": FRACTIONS}, "an existing folder"),
    ],
)
def test_a_path_that_nobody_may_look_at(keys, expected, monkeypatch):
    """Root may look at everything: the refusal is made up."""
    forbid(monkeypatch)
    definition = dataset_definitions.resolve({**keys, "path": "x"})
    (problem,) = dataset_definitions.problems(("d",), definition)
    assert problem.line == f"d.path: received 'x' (Permission denied); {expected} is expected."
