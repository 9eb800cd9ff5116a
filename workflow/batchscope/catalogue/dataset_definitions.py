"""Definitions of data sets: what they may say, their defaults, their digest, their size.

How a data set is divided: the members of each class are shuffled, then dealt to train,
validation and test in this order. Counts are per class; fractions are of each class, rounded
down for validation and test (and for train where the three sum to less than 1).
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from batchscope.catalogue import coercion, npz_header, run_names
from batchscope.problems import Place, Problem, missing, received, unmet

REQUIRED = object()

# What the examples of a data set are; each built-in network takes some of them.
# Of tokens each position is predicted; a sequence has one class.
IMAGES, ROWS, TOKENS, SEQUENCES = "images", "rows", "tokens", "sequences"
KINDS = {
    IMAGES: "images",
    ROWS: "rows of numbers",
    TOKENS: "sequences of tokens",
    SEQUENCES: "sequences of tokens with one class each",
}
OF_TOKENS = (TOKENS, SEQUENCES)

_SPLIT = {"train": REQUIRED, "validation": REQUIRED, "test": REQUIRED, "seed": 0}
_FIFTHS = {"train": 0.6, "validation": 0.2, "test": 0.2, "seed": 0}
# Of a text by position: in its order, without a seed.
_TENTHS = {"train": 0.8, "validation": 0.1, "test": 0.1}
TEXT_LENGTH = 32


@dataclass(frozen=True)
class Source:
    """What examples come from.

    Attributes:
        defaults: Keys of a definition and their defaults; None stands for "not given".
        split: Keys of its `split` and their defaults.
        kind: What the examples are; None where its files say so.
        shape: Of an example, where it is always the same.
        members: Of each class before the split, where they are always the same.
        path: What its path must be, and words for that.
        built_in: Name under which it needs no definition; empty for its own, where it has one.
        overlapping: Whether the parts overlap, so that a loss on them means nothing.
    """

    defaults: dict[str, Any]
    split: dict[str, Any] = field(default_factory=lambda: _SPLIT)
    kind: str | None = IMAGES
    shape: tuple[int, ...] = ()
    members: tuple[int, ...] = ()
    path: tuple[Callable[[Path], bool], str] = (Path.is_file, "an existing file")
    built_in: str = ""
    overlapping: bool = False


SOURCES: dict[str, Source] = {
    "digits": Source(
        {"split": _FIFTHS},
        shape=(8, 8, 1),
        members=(178, 182, 177, 183, 181, 182, 181, 179, 174, 180),
    ),
    "mnist": Source(
        {"path": None, "sha256": None, "per_class": None, "split": {}},
        {"validation": 10000, "validation_from": "train", "seed": 0},
        shape=(28, 28, 1),
        members=(5923, 6742, 5958, 6131, 5842, 5421, 5918, 6265, 5851, 5949),
        path=(Path.exists, "an existing file or folder"),
    ),
    "cats_vs_dogs": Source(
        {"path": None, "sha256": None, "image_size": REQUIRED, "per_class": None, "split": REQUIRED}
    ),
    "image_folder": Source(
        {
            **{"path": REQUIRED, "image_size": REQUIRED, "channels": 3, "per_class": None},
            "split": REQUIRED,
        },
        path=(Path.is_dir, "an existing folder"),
    ),
    "npz": Source(
        {"path": REQUIRED, "sha256": None, "scale": None, "split": None, "kind": None},
        # Parts that the file itself has need no number.
        {"train": None, "validation": None, "test": None, "seed": 0},
        kind=None,
    ),
    "csv": Source(
        {"path": REQUIRED, "sha256": None, "label": None, "ignore": None, "split": REQUIRED},
        kind=ROWS,
    ),
    "breast_cancer": Source({"split": _FIFTHS}, kind=ROWS, shape=(30,), members=(212, 357)),
    "wine": Source({"split": _FIFTHS}, kind=ROWS, shape=(13,), members=(59, 71, 48)),
    "text": Source(
        {"path": None, "sha256": None, "length": TEXT_LENGTH, "split": _TENTHS},
        dict.fromkeys(_TENTHS, REQUIRED),
        kind=TOKENS,
        built_in="numpy_docs",
    ),
    "patches": Source(
        {"image_size": REQUIRED, "per_class": 500, "split": _FIFTHS}, overlapping=True
    ),
}
# Defined without being written under `datasets`: sources that ask for nothing.
BUILT_IN = {
    source.built_in or name: {"source": name}
    for name, source in SOURCES.items()
    if REQUIRED not in source.defaults.values()
}
_MNIST = {"train": 60000, "test": 10000}
CATS_PER_CLASS = 12500  # photographs in the archive; a few cannot be read
_PARTS = ("train", "validation", "test")
# Keys that a source gained later: where they are not given, its definition is what it was.
_LATER = ("kind",)
_AS_WRITTEN = ("path", "sha256", "label", "ignore")


def resolve(raw: dict[str, Any]) -> dict[str, Any]:
    """Returns a definition with every key of its source, defaults filled in."""
    source = raw["source"]
    definition: dict[str, Any] = {"source": source}
    for key, default in SOURCES[source].defaults.items():
        value = raw.get(key, default)
        if key in _LATER and value is None:
            continue
        if key == "split":
            value = None if value is None else _resolve_split(source, value)
        definition[key] = value if key in _AS_WRITTEN else _whole(value)
    return definition


def _resolve_split(source: str, raw: dict[str, Any]) -> dict[str, Any]:
    defaults = SOURCES[source].split.items()
    split = {key: _whole(raw.get(key, default)) for key, default in defaults}
    if split.get("validation_from") == "train":
        del split["validation_from"]  # the key came later, and changes no older digest
    return {key: value for key, value in split.items() if value is not None}


def _whole(value: Any) -> Any:
    """Numbers are ints wherever they are whole, so that 2.0 and 2 are one definition."""
    plain = coercion.number(value)
    if plain is None:
        return value
    return int(plain) if plain == int(plain) else plain


def token(name: str, definition: dict[str, Any]) -> str:
    """Returns a data set's name in paths, with the digest of its resolved definition.

    A sha256 pins the contents, so that where the file lies is no part of the digest. Keys
    that are not given are none either, so that a key that a source gains later, with the
    default None, changes no digest.
    """
    pinned = {key: value for key, value in definition.items() if value is not None}
    if "sha256" in pinned:
        pinned.pop("path", None)
    return run_names.token(name, run_names.digest(pinned))


def split_counts(split: dict[str, Any], members: int) -> tuple[int, int, int]:
    """Returns how many members of a class go to train, validation and test.

    Args:
        split: Resolved fractions or counts per class.
    """
    train, validation, test = (split[part] for part in _PARTS)
    if train >= 1:
        return train, validation, test
    counts = [math.floor(part * members + 1e-9) for part in (train, validation, test)]
    if train + validation + test >= 1 - 1e-9:
        counts[0] = members - counts[1] - counts[2]
    return tuple(counts)


def class_members(definition: dict[str, Any]) -> tuple[int, ...] | None:
    """Returns the members of each class before the split, or None where only the files know."""
    members = SOURCES[definition["source"]].members
    if members and not (definition.get("path") or definition.get("per_class")):
        return members
    two_classes = definition["source"] in ("cats_vs_dogs", "patches")
    if two_classes and definition["per_class"] is not None:
        return (definition["per_class"],) * 2
    return None


def examples(definition: dict[str, Any]) -> tuple[tuple[int, ...], int] | None:
    """Returns the shape of an example and the number of classes; None where only files know."""
    source = SOURCES[definition["source"]]
    if source.shape:
        return source.shape, len(source.members)
    if definition["source"] == "cats_vs_dogs":
        return (definition["image_size"], definition["image_size"], 3), 2
    return None


def kind(definition: dict[str, Any]) -> str | None:
    """Returns what the examples are, of `KINDS`; None where only a file that cannot be read knows.

    Of an npz the headers of its training arrays are read, and nothing else.
    """
    if definition["source"] == "npz":
        shapes = npz_header.read(expanded(definition["path"]))
        given = definition.get("kind")
        return kind_of_arrays(*shapes, given) if shapes else given
    return SOURCES[definition["source"]].kind


def kind_of_arrays(
    shape: tuple[int, ...],
    letter: str,
    label_shape: tuple[int, ...] | None,
    given: str | None = None,
) -> str | None:
    """Returns what arrays of examples and labels are, or None where they are nothing known.

    Args:
        shape: Of the examples, shape (n, ...).
        letter: NumPy's for the kind of their numbers: `f` for floats, `i` and `u` for whole ones.
        label_shape: Of their labels; None without any.
        given: What the definition says they are, or None.
    """
    found = given
    if found is None and len(shape) in (3, 4):
        found = IMAGES
    elif found is None and len(shape) == 2:
        found = {"i": TOKENS, "u": TOKENS, "f": ROWS}.get(letter)
    # The labels of sequences of one token are of their positions.
    one_each = label_shape != shape and label_shape in (shape[:1], (*shape[:1], 1))
    return SEQUENCES if found == TOKENS and one_each else found


def training_size(definition: dict[str, Any]) -> int | None:
    """Returns the number of training examples, or None where only the files know.

    Where all photographs of an archive are taken it is their number, had each been readable.
    """
    split = definition["split"]
    if definition["source"] == "mnist":
        kept = 0 if "validation_from" in split else split["validation"]
        return None if definition["path"] else mnist_images(definition)["train"] - kept
    if definition["source"] == "cats_vs_dogs" and split["train"] >= 1:
        return 2 * split["train"]
    archive = _archive(definition)
    members = class_members(definition) or (archive and (archive,) * 2)
    return sum(split_counts(split, count)[0] for count in members) if members else None


def mnist_images(definition: dict[str, Any]) -> dict[str, int]:
    """Returns how many images of MNIST a definition uses: of its training and of its test set."""
    per_class = definition["per_class"]
    return {**_MNIST, "train": 10 * per_class} if per_class else _MNIST


def image_side(definition: dict[str, Any]) -> int | None:
    """Returns height and width of the images in pixels, or None where only the files know."""
    side, *others = SOURCES[definition["source"]].shape or (None,)
    if not others:
        return definition.get("image_size")
    return None if definition.get("path") else side


def _archive(definition: dict[str, Any]) -> int | None:
    """Returns the photographs of each class of a download; what a local file holds is not known."""
    download = definition["source"] == "cats_vs_dogs" and definition["path"] is None
    return CATS_PER_CLASS if download else None


def problems(place: Place, definition: dict[str, Any]) -> Iterator[Problem]:
    """Yields what is wrong with a resolved definition."""
    source, path = definition["source"], definition.get("path")
    if path is not None:
        exists, expected = SOURCES[source].path
        why = unmet(expanded(path), exists)
        if why is not None:
            yield received((*place, "path"), path, expected, why=why)
    elif definition.get("sha256") is not None:
        yield missing((*place, "path"), "the local file that the sha256 belongs to")
    archive, per_class = _archive(definition), definition.get("per_class")
    if archive and per_class and per_class > archive:
        yield received((*place, "per_class"), per_class, f"at most {archive}, the archive's,")
    smallest = min(SOURCES[source].members, default=0)
    if source == "mnist" and path is None and per_class and per_class > smallest:
        expected = f"at most {smallest}, the training images of the smallest class,"
        yield received((*place, "per_class"), per_class, expected)
    if definition["split"] is not None:
        check = _mnist_split_problem if source == "mnist" else _split_problem
        yield from check((*place, "split"), definition)


def expanded(path: str) -> Path:
    """Returns the path of a definition, whose digest has it as written: `~` is a user's home."""
    return Path(os.path.expanduser(path))  # unlike Path's own, no error where nobody has the name


def _mnist_split_problem(place: Place, definition: dict[str, Any]) -> Iterator[Problem]:
    split = definition["split"]
    source = split.get("validation_from", "train")
    images = mnist_images(definition)[source]
    if not definition["path"] and split["validation"] >= images:
        expected = f"at most {images - 1} of the {images} {source} images"
        yield received((*place, "validation"), split["validation"], expected)


def _split_problem(place: Place, definition: dict[str, Any]) -> Iterator[Problem]:
    """Yields at most one problem: what a split as a whole is, before what its parts are."""
    split = definition["split"]
    parts = [split[part] for part in _PARTS if part in split]
    total, members = sum(parts), class_members(definition)
    if not (all(part < 1 for part in parts) or all(isinstance(part, int) for part in parts)):
        text = f"received {', '.join(map(str, parts))}; fractions below 1 or whole counts per "
        yield Problem(place, f"{text}class, for all three, are expected.")
        return
    if parts and parts[0] < 1:
        if total > 1 + 1e-9:
            text = f"received fractions that sum to {total:g}; at most 1 is expected."
            yield Problem(place, text)
            return
    else:
        limits = {
            " (per_class) are expected.": definition.get("per_class"),
            " (the archive's) are expected.": _archive(definition),
            " are expected, the members of the smallest class.": members and min(members),
        }
        for expected, limit in limits.items():
            if limit is not None and total > limit:
                text = f"received {total} examples per class; at most {limit}{expected}"
                yield Problem(place, text)
                return
    counts = [split_counts(split, count) for count in members or ()]
    for part, of_classes in zip(_PARTS, zip(*counts, strict=True), strict=False):
        if not any(of_classes):
            text = f"received {split[part]}; a part of at least one example is expected."
            yield Problem((*place, part), text)
            return
