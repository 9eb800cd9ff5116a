"""Examples that other libraries saved: Hugging Face's `datasets`, and `tf.data`."""

from __future__ import annotations

import dataclasses
import functools
import io
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any

import numpy as np

from batchscope.catalogue import folder_parts, tasks
from batchscope.datasets import arrays, image_lists, photographs
from batchscope.datasets.photographs import Listing
from batchscope.datasets.raw import Raw, Request, reading
from batchscope.errors import unexpected
from batchscope.host import tensorflow_start
from batchscope.store.paths import SPLITS

_AT_ONCE = 1024  # elements of a tf.data set


def hugging_face(request: Request) -> Raw:
    """Returns what `save_to_disk` wrote: images, rows of numbers or sequences of tokens."""
    if (listing := photos(request)) is not None:
        return photographs.read(request, listing)
    where, tables, columns = _opened(request)
    found = {}
    for part, table in tables.items():
        found[f"x_{part}"] = np.column_stack([_array(table, column) for column in columns])
        found[f"y_{part}"] = _array(table, request.definition["label"])
    raw = arrays.from_arrays(request, where, found, request.definition["kind"])
    names = _words(request, tables["train"], raw.class_names, raw.task)
    return dataclasses.replace(raw, class_names=names)


def photos(request: Request) -> Listing | None:
    """Returns the images of a Hugging Face column; None where the examples are none."""
    where, tables, columns = _opened(request)
    image = tables["train"].features[columns[0]]
    if not _is_image(image):
        return None
    if len(columns) > 1 or request.definition["image_size"] is None:
        received = f"columns {', '.join(columns)} and no image_size"
        raise unexpected(
            request.where, received, "one column of images as `inputs`, and their side"
        )
    given, named = {}, {}
    for part, table in tables.items():
        given[part] = f"{where}: labels of {part}", _array(table, request.definition["label"])
        stored = table.cast_column(columns[0], type(image)(decode=False))
        opens = (functools.partial(_bytes, stored, row, columns[0]) for row in range(len(table)))
        named[part] = [(f"{part} {row}", each) for row, each in enumerate(opens)]
    listing = image_lists.listed(request, given, named)
    names = _words(request, tables["train"], listing.names, listing.task)
    return dataclasses.replace(listing, names=names)


def _bytes(table: Any, row: int, column: str) -> IO[bytes]:
    cell = table[row][column]
    return open(cell["path"], "rb") if cell["bytes"] is None else io.BytesIO(cell["bytes"])


def _opened(request: Request) -> tuple[str, dict[str, Any], list[str]]:
    """Returns the place for errors, part -> its table, and the columns of the examples."""
    try:
        from datasets import Dataset, load_from_disk
    except ImportError:
        received = "hugging_face without the package `datasets`"
        raise unexpected(f"{request.where}.source", received, "`pip install datasets`") from None
    where, label = f"{request.where}: {request.path()}", request.definition["label"]
    with reading(where, "a folder that `save_to_disk` wrote", Exception):
        found = load_from_disk(str(request.path()))
    splits = {"train": found} if isinstance(found, Dataset) else found
    tables = {folder_parts.PART_OF.get(name): table for name, table in splits.items()}
    if "train" not in tables:
        raise unexpected(where, ", ".join(splits), "a split `train`")
    features = tables["train"].features
    images = [name for name in features if _is_image(features[name])]
    others = [name for name in features if name != label]
    columns = request.definition["inputs"] or images or others
    if missing := [name for name in (*columns, label) if name not in features]:
        expected = f"columns of the data set ({', '.join(features)[:200]}) as `inputs` and `label`"
        raise unexpected(where, ", ".join(missing), expected)
    return where, {part: tables[part] for part in SPLITS if part in tables}, columns


def _is_image(feature: Any) -> bool:
    return type(feature).__name__ == "Image"


def _array(table: Any, column: str) -> np.ndarray:
    """Returns a column of numbers, words, or lists of one length."""
    chosen = table.select_columns([column])
    numbers = chosen.to_pandas()[column]
    if numbers.dtype.kind in "biuf":
        return numbers.to_numpy()  # NumPy's format would make float32 of float64
    return chosen.with_format("numpy")[:][column]


def _words(request: Request, table: Any, names: list[str], task: str) -> list[str]:
    """Returns names of classes, with the words of a ClassLabel in place of its numbers."""
    words = getattr(table.features[request.definition["label"]], "names", None)
    if words is None or task != tasks.CLASSIFICATION:
        return names
    return [words[int(name)] if 0 <= int(name) < len(words) else name for name in names]


def tf_data(request: Request) -> Raw:
    """Returns pairs (x, y) that `tf.data.Dataset.save` wrote, of each folder of a part."""
    path, found = request.path(), {}
    for part, folder in (folder_parts.parts(path) or {"train": path}).items():
        found |= zip((f"x_{part}", f"y_{part}"), _pairs(request, folder), strict=True)
    where = f"{request.where}: {path}"
    return arrays.from_arrays(request, where, found, request.definition["kind"])


def _pairs(request: Request, folder: Path) -> Iterator[np.ndarray]:
    """Yields the x and the y of all elements."""
    tensorflow_start.start()
    import tensorflow as tf

    where, expected = f"{request.where}: {folder}", "what `tf.data.Dataset.save` wrote"
    with reading(where, f"{expected}, uncompressed,", tf.errors.OpError, ValueError, TypeError):
        # Shard after shard: the order is the same with any number of cores.
        data = tf.data.Dataset.load(str(folder), reader_func=lambda shards: shards.flat_map(_same))
        spec = data.element_spec
        pair = isinstance(spec, tuple) and len(spec) == 2
        if not (pair and all(isinstance(each, tf.TensorSpec) for each in spec)):
            raise ValueError(f"elements of {spec}; pairs (x, y) of tensors are read")
        if (count := data.cardinality().numpy()) >= 0:  # else a file that is cut off just ends
            data = data.apply(tf.data.experimental.assert_cardinality(count))
        x, y = (each.shape for each in spec)
        if x.rank and y.rank and x[0] == y[0] and (x[0] is None or x.rank == 4):
            data = data.unbatch()  # saved in batches
        elif x.rank in (2, 3) and y.rank and x[0] == y[0]:
            raise ValueError(
                f"elements of {x} and {y}, which are examples or whole batches; "
                "`.unbatch()` before `save`, or labels that are numbers of classes"
            )
        batches = [*data.batch(_AT_ONCE).as_numpy_iterator()]
        if not batches:
            raise ValueError("no element")
    for each in map(np.concatenate, zip(*batches, strict=True)):
        yield each.astype(np.bytes_) if each.dtype == object else each  # words


def _same(shard: Any) -> Any:
    return shard
