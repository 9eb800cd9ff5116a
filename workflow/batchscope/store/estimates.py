"""Estimates of the time and disk space of runs, measures and data sets, from finished ones."""

import contextlib
import os
import statistics
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from batchscope import disk
from batchscope.errors import UserError
from batchscope.store import paths, records
from batchscope.study import batch_phases, commands, names, run_factors
from batchscope.study.run_factors import Affects
from batchscope.study.specifications import REPEATS

_SAMPLES = 200  # most records that are read to learn how long a model takes on a data set
_SHORTEST = 1e-9  # seconds of an epoch: a logarithm of them is taken
WEIGHT_FILES = 2  # of every run, final and best; both may be one, which nobody knows before


def subject(factors: dict[str, Any]) -> tuple[str, str]:
    return factors["dataset"], factors["model"]


def setting(factors: dict[str, Any]) -> tuple[Any, ...]:
    """Return the factors that the time of an epoch depends on, except the batch size.

    `epoch_seconds` interpolates between batch sizes.
    """
    timed = run_factors.affecting(Affects.STEP | Affects.EVALUATIONS)
    return tuple(factors[name] for name in timed if name != "batch_size")


class History:
    """What finished runs of the same models on the same data sets took, or what was noted."""

    def __init__(self, results: Path, subjects: set[tuple[str, str]]) -> None:
        self._times: dict[tuple[Any, ...], dict[int, list[float]]] = {}
        self._bytes: dict[tuple[str, str], int] = {}
        self._noted = _epochs_noted(results)
        read: Counter[tuple[str, ...]] = Counter()
        for folder in sorted((results / "runs").glob("*")):
            own = tuple(folder.name.split("+")[:2])
            if own in subjects and read[own] < _SAMPLES:
                read[own] += self._learn(folder)

    def _learn(self, folder: Path) -> bool:
        path = paths.run_record(folder)
        record = disk.read_json(path) if path.exists() else {}
        if record.get("status") != records.FINISHED:
            return False
        try:
            factors = names.parse_run(folder.name)
            seconds = record["contended_seconds"] + record.get("evaluation_seconds", 0.0)
            seconds /= record["epochs_run"]
            if len(batch_phases.batch_sizes(factors)) > 1:
                return False  # of no size
        except (ValueError, KeyError, TypeError, ZeroDivisionError):
            return False  # of another version of this program: unknown
        by_batch = self._times.setdefault(setting(factors), {})
        by_batch.setdefault(factors["batch_size"], []).append(seconds)
        with contextlib.suppress(OSError):
            self._bytes.setdefault(subject(factors), os.path.getsize(folder / "final.npz"))
        return True

    def seconds(self, factors: dict[str, Any]) -> float | None:
        """Returns the seconds that a run takes for all its epochs, or None."""
        times, noted = self._times.get(setting(factors), {}), self._noted.get(_key(factors), {})
        means = {int(batch): taken for batch, taken in noted.items()}
        means |= {batch: statistics.fmean(values) for batch, values in times.items()}
        if not means:
            return None
        shares = batch_phases.shares(factors).items()
        return factors["epochs"] * sum(part * epoch_seconds(means, size) for size, part in shares)

    def weight_bytes(self, factors: dict[str, Any], files: int) -> int | None:
        one = self._bytes.get(subject(factors))
        return None if one is None else files * one


def of_commands(results: Path, runs: Mapping[str, commands.CommandRun]) -> dict[str, float | None]:
    """Returns the seconds of one core of runs that commands make, as finished ones of each took.

    Of all cores, where a run has the machine to itself.
    """
    known: dict[str, dict[int, list[float]]] = {}
    for token in {name.partition("+")[0] for name in runs}:
        for path in sorted(results.glob(f"runs/{token}+*/{paths.RECORD}"))[:_SAMPLES]:
            record = disk.read_json(path, "status")
            if record["status"] == records.FINISHED and record["contended_seconds"]:
                times = known.setdefault(token, {})
                times.setdefault(record["factors"]["batch_size"], []).append(
                    record["contended_seconds"] * (1 if record["alone"] else record["threads"])
                )
    means = {
        token: {size: statistics.fmean(each) for size, each in times.items()}
        for token, times in known.items()
    }
    return {
        name: epoch_seconds(means[run.command.token], run.factors["batch_size"])
        if run.command.token in means
        else None
        for name, run in runs.items()
    }


def _key(factors: dict[str, Any]) -> str:
    return "+".join(map(str, setting(factors)))


def _epochs_noted(results: Path) -> dict[str, dict[str, float]]:
    with contextlib.suppress(UserError):
        return disk.read_json(paths.epoch_seconds_note(results))
    return {}


def note_epoch(results: Path, factors: dict[str, Any], seconds: float) -> None:
    noted = _epochs_noted(results)
    noted.setdefault(_key(factors), {})[str(factors["batch_size"])] = seconds
    disk.write_json(paths.epoch_seconds_note(results), noted)


def kind(measure: str, settings: str, name: str) -> tuple[str, ...]:
    """Returns what measures and timings share that take about the same time.

    Args:
        name: The run, the timing or the sweep that it is of; its data set and model count.
    """
    # A timing's jobs of the same configuration take the same.
    parts = [part for part in settings.split("+") if not part.startswith(f"{REPEATS.alias}=")]
    return measure, "+".join(parts) or "default", *name.split("+")[:2]


def note(results: Path, measure: str, name: str, output: Path, seconds: float) -> None:
    """Notes how long a measure or timing took, whatever ran beside it: for estimates alone.

    It is no part of the record, which would then differ from one time to the next. Where it
    cannot be written, nothing else is lost. Nothing is noted of a run that did not finish.

    Args:
        name: What it is of, as for `kind`.
    """
    if disk.read_json(output).get("status") != records.FINISHED:
        return
    line = ",".join((*kind(measure, output.stem, name), f"{seconds:.2f}\n"))
    path = paths.seconds_note(results)
    with contextlib.suppress(OSError), open(path, "a", encoding="utf-8") as file:
        file.write(line)  # one write: jobs that end together do not mix


def noted(results: Path) -> dict[tuple[str, ...], float]:
    """Returns the mean seconds of each kind of measure and timing, as they were noted."""
    times: dict[tuple[str, ...], list[float]] = {}
    with contextlib.suppress(OSError):
        text = paths.seconds_note(results).read_text(encoding="utf-8", errors="replace")
        for line in text.splitlines():
            *found, seconds = line.split(",")
            with contextlib.suppress(ValueError):  # a truncated line is skipped
                value = float(seconds)
                times.setdefault(tuple(found), []).append(value)
    return {found: statistics.fmean(values) for found, values in times.items()}


def epoch_seconds(known: dict[int, float], batch_size: int) -> float:
    """Returns the seconds of an epoch at a batch size, from those at others.

    Between two known batch sizes it is interpolated on logarithmic axes. Below the smallest
    the number of steps decides, above the largest the number of images. At least one is `known`.
    """
    batch_sizes = sorted(known)
    if batch_size < batch_sizes[0]:
        return known[batch_sizes[0]] * batch_sizes[0] / batch_size
    logarithms = np.log([max(known[each], _SHORTEST) for each in batch_sizes])
    return float(np.exp(np.interp(np.log(batch_size), np.log(batch_sizes), logarithms)))
