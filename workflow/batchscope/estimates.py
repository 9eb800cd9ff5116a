"""What runs, measures and data sets take in time and disk, as far as finished ones tell."""

from __future__ import annotations

import contextlib
import math
import os
import statistics
from collections import Counter
from collections.abc import Hashable
from pathlib import Path
from typing import Any

from batchscope import definitions, names, records, snapshots

_SAMPLES = 200  # most records that are read to learn how long a model takes on a data set
_FOLDERS = 3  # most run folders whose bytes are counted


def subject(factors: dict[str, Any]) -> tuple[str, str]:
    """Returns what runs must share to take the same disk: tokens of data set and model."""
    return factors["dataset"], factors["model"]


def _setting(factors: dict[str, Any]) -> tuple[Any, ...]:
    """What times must share to be compared; batch sizes are bridged by `epoch_seconds`."""
    return tuple(factors[name] for name in names.TIMING_FACTORS if name != "batch_size")


class History:
    """What finished runs of the same models on the same data sets took.

    Args:
        results: The results folder.
        subjects: Data set and model tokens of interest.
    """

    def __init__(self, results: Path, subjects: set[tuple[str, str]]) -> None:
        self._times: dict[tuple[Any, ...], dict[int, list[float]]] = {}
        self._bytes: dict[tuple[str, str], list[float]] = {}
        read: Counter[tuple[str, str]] = Counter()
        for name in _run_names(results):
            own = tuple(name.split("+")[:2])
            if own in subjects and read[own] < _SAMPLES:
                read[own] += self._learn(results, name)

    def _learn(self, results: Path, name: str) -> bool:
        folder = records.run_folder(results, name)
        if not (folder / "record.json").exists():
            return False
        record = records.read_json(folder / "record.json")
        if record.get("status") != records.FINISHED:
            return False
        try:
            factors = names.parse_run(name)
            seconds = record["contended_seconds"] / record["epochs_run"]
        except (ValueError, KeyError, TypeError, ZeroDivisionError):
            return False  # of another version of this program: tells nothing
        by_batch = self._times.setdefault(_setting(factors), {})
        by_batch.setdefault(factors["batch_size"], []).append(seconds)
        sizes = self._bytes.setdefault(subject(factors), [])
        if len(sizes) < _FOLDERS:
            sizes.append(folder_bytes(folder) / weight_files(record["epochs_run"]))
        return True

    def seconds(self, factors: dict[str, Any]) -> float | None:
        """Returns the seconds that a run takes for all its epochs, or None."""
        times = self._times.get(_setting(factors))
        if not times:
            return None
        means = {batch: statistics.fmean(values) for batch, values in times.items()}
        return factors["epochs"] * epoch_seconds(means, factors["batch_size"])

    def bytes(self, factors: dict[str, Any]) -> float | None:
        """Returns the bytes of a run's folder, or None."""
        sizes = self._bytes.get(subject(factors))
        return statistics.fmean(sizes) * weight_files(factors["epochs"]) if sizes else None


class MeasureHistory:
    """What finished measures and timings took; of one kind are those that take about the same."""

    def __init__(self) -> None:
        self._times: dict[Hashable, list[float]] = {}

    def learn(self, kind: Hashable, record: dict[str, Any]) -> None:
        """Learns from a record; one that is not finished, or holds no time, tells nothing."""
        seconds = record.get("job_seconds")
        if record.get("status") == records.FINISHED and isinstance(seconds, int | float):
            self._times.setdefault(kind, []).append(seconds)

    def seconds(self, kind: Hashable) -> float | None:
        """Returns the seconds that one more of a kind takes, or None."""
        times = self._times.get(kind)
        return statistics.fmean(times) if times else None


def _run_names(results: Path) -> list[str]:
    try:
        return sorted(os.listdir(results / "runs"))
    except FileNotFoundError:
        return []


def epoch_seconds(known: dict[int, float], batch_size: int) -> float:
    """Returns the seconds of an epoch at a batch size, from those at others.

    Between two known batch sizes it is interpolated on logarithmic axes. Below the smallest
    the number of steps decides, above the largest the number of images.

    Args:
        known: Batch size -> seconds per epoch; at least one.
        batch_size: The batch size in question.
    """
    low = max((batch for batch in known if batch <= batch_size), default=None)
    high = min((batch for batch in known if batch >= batch_size), default=None)
    if low is None:
        return known[high] * high / batch_size
    if high is None or low == high or min(known[low], known[high]) <= 0:
        return known[low]
    share = math.log(batch_size / low) / math.log(high / low)
    return known[low] ** (1 - share) * known[high] ** share


def weight_files(epochs: int) -> int:
    """Files of weights that a run keeps: final, best and the snapshots up to its epochs."""
    return 2 + len(snapshots.stored_epochs(epochs))


def folder_bytes(folder: Path) -> float:
    """Returns the bytes below a folder; a file that is stored once for several counts once."""
    total = 0.0
    for parent, _, files in os.walk(folder):
        for name in files:
            with contextlib.suppress(FileNotFoundError):  # a running job moves its files
                found = os.stat(os.path.join(parent, name))
                total += found.st_size / found.st_nlink
    return total


def data_bytes(definition: dict[str, Any]) -> float | None:
    """Returns roughly the bytes that a prepared data set takes, or None where it is unknown."""
    source = definition["source"]
    if source == "digits":
        return sum(definitions.class_members(definition) or ()) * (8 * 8 + 4)
    if source == "mnist":
        return 70000 * (28 * 28 + 4)
    if source == "npz":
        return float(os.path.getsize(definitions.expanded(definition["path"])))
    image = definition["image_size"] ** 2 * definition.get("channels", 3)
    if source in ("cats_vs_dogs", "patches"):
        return image * (2 * (definition["per_class"] or definitions.CATS_PER_CLASS))
    return None
