"""Definitions of data sets: the keys of each source, and what is known of its examples."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal, Self, Union, get_args

from pydantic import AfterValidator, Field, TypeAdapter

from batchscope import wording
from batchscope.catalogue import folder_parts, npz_header, tasks
from batchscope.catalogue.dataset_sources import (
    IMAGES,
    ROWS,
    TOKENS,
    Channels,
    Column,
    Columns,
    FileSha256,
    ImageSize,
    PerClass,
    Scale,
    Source,
    Task,
    expanded,
    kind_of_arrays,
)
from batchscope.catalogue.dataset_splits import MnistSplit, NpzSplit, Split, TextSplit, exact
from batchscope.catalogue.fields import FilePath, Positive, one_of, text, whole
from batchscope.problems import Place, Problem, missing

_FIFTHS = Split(train=0.6, validation=0.2, test=0.2)
_TENTHS = TextSplit(train=0.8, validation=0.1, test=0.1)


class Digits(Source):
    """scikit-learn's 1,797 handwritten digits of 8x8 pixels; needs no download."""

    fixed_shape = (8, 8, 1)
    members = (178, 182, 177, 183, 181, 182, 181, 179, 174, 180)
    source: Literal["digits"]
    split: Split = _FIFTHS


class Mnist(Source):
    """MNIST; its 10,000 test images are the test set, or validation and test set.

    A local file is Keras's mnist.npz, or a folder of the four idx files.
    """

    fixed_shape = (28, 28, 1)
    members = (5923, 6742, 5958, 6131, 5842, 5421, 5918, 6265, 5851, 5949)
    path_is = (Path.exists, "an existing file or folder")
    source: Literal["mnist"]
    path: FilePath = None
    """The local file or folder; downloaded if left out."""
    sha256: FileSha256 = None
    per_class: PerClass = None
    scale: Scale
    split: MnistSplit = MnistSplit()

    def class_members(self) -> tuple[int, ...]:
        return () if self.path else super().class_members()


class CatsVsDogs(Source):
    """Microsoft's Cats vs Dogs; unreadable images are skipped and counted."""

    members = (12_500, 12_500)
    source: Literal["cats_vs_dogs"]
    path: FilePath = None
    """The archive as a local zip; downloaded if left out."""
    sha256: FileSha256 = None
    image_size: ImageSize
    per_class: PerClass = None
    scale: Scale
    split: Split

    def training_size(self) -> int | None:
        counted = self.split.train >= 1
        return 2 * self.split.train if counted else super().training_size()


class ImageFolder(Source):
    """Your own images, one folder per class, or such folders in `train`, `val` and `test`."""

    path_is = (Path.is_dir, "an existing folder")
    split: NpzSplit = None
    """How the parts that are not there are taken from the training part."""
    source: Literal["image_folder"]
    path: FilePath
    """The folder that holds the class folders, or those of the parts."""
    image_size: ImageSize
    channels: Channels = 3
    """3 for colour, 1 for grey."""
    per_class: PerClass = None
    scale: Scale

    def parts(self) -> Collection[str]:
        return folder_parts.parts_of_classes(expanded(self.path))

    def problems(self, place: Place) -> Iterator[Problem]:
        """Yields also the parts that are neither there nor drawn."""
        yield from super().problems(place)
        with contextlib.suppress(OSError):  # that of the path is said
            lacking = [part for part in ("validation", "test") if part not in self.parts()]
            if lacking and self.split is None:
                wanted = f"a share for {wording.listed(lacking)} (or a folder of each part)"
                yield missing((*place, "split"), wanted)
            for part in lacking if self.split else ():
                if getattr(self.split, part) is None:
                    yield missing((*place, "split", part), "a fraction or count per class")


class ImageList(ImageFolder):
    """Your own images, with file names and labels in a CSV file; its column `split` has parts."""

    fixed_task = None
    path_is = (Path.is_file, "an existing file")
    source: Literal["image_list"]
    path: FilePath
    """The CSV file; its first line names the columns."""
    sha256: FileSha256 = None
    folder: FilePath = None
    """Folder that the file names are relative to; that of the CSV file if left out."""
    file: text("a column's name") = "file"
    """Column of the file names."""
    label: text("a column's name") = "label"
    """Column of the labels."""
    task: one_of(tasks.CLASSIFICATION, tasks.REGRESSION) = None
    """What is learned of the labels, as in `npz`."""

    def parts(self) -> Collection[str]:
        return folder_parts.NAMES


class Npz(Source):
    """Your own arrays, in one npz file; images, rows of numbers, or sequences of tokens.

    Arrays: `images` (or `inputs`) and `labels`, or `x_train`, `y_train` and, each with its labels,
    `x_validation` and `x_test`. Labels are whole numbers, words or one-hot rows; tokens have one
    for each sequence or position, or none, where the next token is predicted. Targets of a
    regression are numbers, (n,) or (n, targets); with `task: multi_label` 0 and 1, (n, labels).
    """

    fixed_kind = None
    fixed_task = None
    source: Literal["npz"]
    path: FilePath
    """The npz file."""
    sha256: FileSha256 = None
    scale: Annotated[Positive, AfterValidator(exact)] = None
    """Factor of the images; if left out, 1/255 of whole numbers, else 1."""
    split: NpzSplit = None
    task: Task = Field(None, exclude_if=lambda value: value is None)
    """What is learned of the labels; if left out, numbers of which some are not whole are to be
    predicted (regression), all others are classes.
    """
    kind: one_of(IMAGES, ROWS, TOKENS) = Field(None, exclude_if=lambda value: value is None)
    """What the examples are; if left out, images where an example has two or three dimensions;
    where it has one, rows of numbers for floats, tokens for whole numbers.
    """

    def kind_of_examples(self) -> str | None:
        shapes = npz_header.read(expanded(self.path))
        return kind_of_arrays(*shapes, self.kind) if shapes else self.kind


class Csv(Source):
    """Your own table: a CSV or Parquet file with one example per row, its label in one column.

    Separators (comma, semicolon, tab) and decimal commas are recognised. Features are standardised
    by the training part; true and false are 1 and 0.
    """

    fixed_kind, fixed_task = ROWS, None
    source: Literal["csv"]
    path: FilePath
    """The CSV file; a Parquet file where its name ends in .parquet (needs the package pyarrow)."""
    sha256: FileSha256 = None
    label: Columns = None
    """Column of the label: its name, or number from 1; the last if left out. A list of columns for
    several numbers to predict, or several labels of 0 and 1.
    """
    ignore: list[Column] = Field(None, min_length=1)
    """Columns that are no features."""
    categorical: Columns = Field(None, exclude_if=lambda value: value is None)
    """Columns, or `auto` for every column of words, that become a feature of 0 and 1 for each value
    that the training part has; of a value that it lacks, and of a missing one, all are 0.
    """
    missing: one_of("error", "median", "drop") = Field(
        "error", exclude_if=lambda value: value == "error"
    )
    """What to do about missing cells: refuse them, take the median of the training part, or drop
    their rows.
    """
    task: Task = Field(None, exclude_if=lambda value: value is None)
    """What is learned of the label; if left out, numbers of which some are not whole are to be
    predicted (regression), and so are several columns, unless all hold 0 and 1 (multi_label); all
    others are classes.
    """
    split: Split


class BreastCancer(Source):
    """scikit-learn's 569 tumours of 30 features, standardised; needs no download."""

    fixed_kind, fixed_shape = ROWS, (30,)
    members = (212, 357)
    source: Literal["breast_cancer"]
    split: Split = _FIFTHS


class Diabetes(Source):
    """scikit-learn's 442 patients of 10 features, with a number to predict; needs no download."""

    fixed_kind, fixed_shape, fixed_task = ROWS, (10,), tasks.REGRESSION
    members = (442,)
    source: Literal["diabetes"]
    split: Split = _FIFTHS


class Wine(Source):
    """scikit-learn's 178 wines of 13 features, standardised; needs no download."""

    fixed_kind, fixed_shape = ROWS, (13,)
    members = (59, 71, 48)
    source: Literal["wine"]
    split: Split = _FIFTHS


class Text(Source):
    """A text, cut into windows of characters that do not overlap.

    Each position predicts the next character. Without a path the docstrings that come with NumPy
    (BSD 3-Clause).
    """

    fixed_kind = TOKENS
    source: Literal["text"]
    path: FilePath = None
    """The text in UTF-8; NumPy's docstrings if left out."""
    sha256: FileSha256 = None
    length: whole(1, 65_536) = 32
    """Characters of a window."""
    split: TextSplit = _TENTHS


class Patches(Source):
    """Random square patches of two colour photographs of scikit-learn; needs no download.

    For timing only: patches overlap, also between train, validation and test, so that an accuracy
    on them means nothing.
    """

    members = (100_000, 100_000)
    overlapping = True
    source: Literal["patches"]
    image_size: whole(16, 427)
    """Height and width of a patch in pixels; the photographs are 427 high."""
    per_class: whole(3, 100_000) = 500
    """Patches of each photograph."""
    split: Split = _FIFTHS


_EVERY = (
    Digits,
    Mnist,
    CatsVsDogs,
    ImageFolder,
    ImageList,
    Npz,
    Csv,
    BreastCancer,
    Wine,
    Diabetes,
    Text,
    Patches,
)
Dataset = Annotated[Union[_EVERY], Field(discriminator="source")]  # noqa: UP007
SOURCES: dict[str, type[Source]] = {
    get_args(each.model_fields["source"].annotation)[0]: each for each in _EVERY
}
_DATASET: TypeAdapter[Source] = TypeAdapter(Dataset)
# Defined without being written under `datasets`.
BUILT_IN: dict[str, Source] = {
    "digits": Digits(source="digits"),
    "mnist": Mnist(source="mnist"),
    "breast_cancer": BreastCancer(source="breast_cancer"),
    "wine": Wine(source="wine"),
    "diabetes": Diabetes(source="diabetes"),
    "numpy_docs": Text(source="text"),
}


def read(raw: Mapping[str, Any]) -> Source:
    """Returns the definition that plain values hold; None stands for a key that is not there."""
    return _DATASET.validate_python({key: value for key, value in raw.items() if value is not None})


def resolve(raw: Mapping[str, Any]) -> dict[str, Any]:
    return read(raw).resolved()


def token(name: str, definition: Mapping[str, Any]) -> str:
    return read(definition).token(name)


@dataclass(frozen=True)
class DatasetInfo:
    """What is known of a data set when planning; None where only its files know."""

    name: str
    id: str  # its name in paths
    definition: Source
    training_examples: int | None
    image_side: int | None  # height and width in pixels; None of other examples than images
    kind: str | None  # of `KINDS`
    task: str | None = tasks.CLASSIFICATION  # of `tasks.TASKS`

    @classmethod
    def of(cls, name: str, definition: Source, recorded: Callable[[str], int | None]) -> Self:
        """Returns what is known of a data set, given id -> training examples in its record."""
        known, shape = definition.token(name), definition.shape() or ()
        size = recorded(known) or definition.training_size()
        side = shape[0] if len(shape) == 3 else None
        kind, task = definition.kind_of_examples(), definition.task_of_labels()
        return cls(name, known, definition, size, side, kind, task)

    @property
    def source(self) -> str:
        return self.definition.source
