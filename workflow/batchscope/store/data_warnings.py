"""What people should know of a prepared data set: skipped files, classes that a split lacks."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from batchscope import wording
from batchscope.catalogue import run_names
from batchscope.store import records

_NAMED = 3  # files or classes named in a warning; all are counted


def read(results: Path | str, token: str) -> list[str]:
    """Returns the warnings about a prepared data set; none where none is prepared."""
    record = records.data_record(results, token)
    return [] if record is None else list(warnings(token, record))


def warnings(token: str, record: dict[str, Any]) -> Iterator[str]:
    """Yields a sentence for each kind of thing to know about a data set, by its record."""
    where = f"datasets.{run_names.split_token(token)[0]}"
    skipped = record.get("skipped") or []
    if count := record.get("skipped_count"):
        files = [f"{entry['file']} ({entry['reason']})" for entry in skipped]
        text = wording.count(count, "unreadable file was", "unreadable files were")
        yield f"{where}: {text} skipped: {_some(files, count)}."
    lacking = list(_lacking(record))
    if lacking:
        text = wording.count(len(lacking), "class has", "classes have")
        named = _some(lacking, len(lacking))
        yield f"{where}: {text} no example in the validation or test set: {named}."


def _lacking(record: dict[str, Any]) -> Iterator[str]:
    """Yields the classes that a split has no example of, each with its examples by split."""
    counts = record.get("class_counts") or {}
    by_class = zip(*counts.values(), strict=True)
    for name, found in zip(record.get("class_names") or (), by_class, strict=False):
        if not all(found):
            pairs = zip(counts, found, strict=True)
            yield f"{name} ({', '.join(f'{split} {count}' for split, count in pairs)})"


def _some(items: Sequence[str], count: int) -> str:
    """Returns the first of some items, and how many there are besides."""
    more = count - len(items[:_NAMED])
    return wording.listed([*items[:_NAMED], *([f"{more} more"] if more else [])])
