"""Estimate the seconds of jobs from finished jobs of the same kind, else from timed steps."""

import contextlib
import statistics
from pathlib import Path
from typing import Any

import numpy as np

from batchscope.core import disk
from batchscope.store import paths, records
from batchscope.study import batch_phases, plan, run_factors
from batchscope.study.commands import CommandRun
from batchscope.study.run_factors import Affects
from batchscope.study.specifications import REPEATS

_EPOCH_KIND = "epoch"  # first word of the kinds of trainings, which have times per epoch
Kind = tuple[str, ...]  # Jobs of one kind and one batch size take about the same time.


class Estimates:
    """Estimated seconds of jobs; None if no job of the kind has been timed.

    Args:
        planned: Plan with finished runs, which give the times of trainings and commands.
    """

    def __init__(self, results: Path | str, planned: plan.Study | plan.PlannedExperiment) -> None:
        self._times = _read_times(paths.seconds_note(results))
        for run, factors in planned.runs.items():
            record = _finished_record(results, run)
            if record.get("epochs_run") and len(batch_phases.batch_sizes(factors)) == 1:
                seconds = record["contended_seconds"] + record.get("evaluation_seconds", 0.0)
                self._add(epoch_kind(factors), factors, seconds / record["epochs_run"])
        for name, run in planned.commands.items():
            if seconds := _finished_record(results, name).get("contended_seconds"):
                self._add((run.command.token,), run.factors, seconds)

    def _add(self, kind: Kind, factors: dict[str, Any], seconds: float) -> None:
        self._times.setdefault(kind, {}).setdefault(factors["batch_size"], []).append(seconds)

    def training(self, factors: dict[str, Any]) -> float | None:
        kind, shares = epoch_kind(factors), batch_phases.example_shares(factors)
        seconds = {size: self._at(kind, size) for size in shares}
        if None in seconds.values():
            return None
        return factors["epochs"] * sum(share * seconds[size] for size, share in shares.items())

    def command(self, run: CommandRun) -> float | None:
        return self._at((run.command.token,), run.factors["batch_size"])

    def measure_or_timing(self, measure: str, settings: str, name: str) -> float | None:
        return self._at(_job_kind(measure, settings, name), 1)

    def _at(self, kind: Kind, batch_size: int) -> float | None:
        """Interpolate between batch sizes, because the time of a step is linear in the batch size.

        Below the smallest size, the time is proportional to the number of steps; above the largest,
        it is constant.
        """
        sizes = sorted(self._times.get(kind, ()), reverse=True)
        if not sizes:
            return None
        seconds = [statistics.fmean(self._times[kind][size]) for size in sizes]
        if batch_size < sizes[-1]:
            return seconds[-1] * sizes[-1] / batch_size
        return float(np.interp(1 / batch_size, [1 / size for size in sizes], seconds))


def _finished_record(results: Path | str, run: str) -> dict[str, Any]:
    path = paths.run_record(paths.run_folder(results, run))
    record = disk.read_json(path) if path.exists() else {}
    return record if record.get("status") == records.FINISHED else {}


def epoch_kind(factors: dict[str, Any]) -> Kind:
    """Return the kind of an epoch: the factors that change its time except the batch size."""
    timed = run_factors.factors_affecting(Affects.STEP | Affects.EVALUATIONS)
    return _EPOCH_KIND, *(str(factors[name]) for name in timed if name != "batch_size")


def _job_kind(measure: str, settings: str, name: str) -> Kind:
    # The number of the repeat is left out, because repeats take the same time.
    parts = [part for part in settings.split("+") if not part.startswith(f"{REPEATS.alias}=")]
    return measure, "+".join(parts) or "default", *name.split("+")[:2]


def note_epoch(results: Path, factors: dict[str, Any], seconds: float) -> None:
    _append(results, (*epoch_kind(factors), str(factors["batch_size"])), seconds)


def note_job(results: Path, measure: str, name: str, output: Path, seconds: float) -> None:
    """Note the seconds of a measure or a timing of a finished run.

    The record does not contain them, so that it is the same after a repetition.
    """
    if disk.read_json(output).get("status") == records.FINISHED:
        _append(results, _job_kind(measure, output.stem, name), seconds)


def _append(results: Path, key: Kind, seconds: float) -> None:
    with contextlib.suppress(OSError):  # Only estimates need the file.
        results.mkdir(parents=True, exist_ok=True)
        with open(paths.seconds_note(results), "a", encoding="utf-8") as file:
            file.write(",".join((*key, f"{seconds:.4g}\n")))  # One write keeps lines separate.


def _read_times(path: Path) -> dict[Kind, dict[int, list[float]]]:
    times: dict[Kind, dict[int, list[float]]] = {}
    with contextlib.suppress(OSError):
        for line in path.read_text(encoding="utf-8", errors="replace").splitlines():
            *key, seconds = line.split(",")
            with contextlib.suppress(ValueError):  # The last line may be incomplete.
                batch_size = int(key.pop()) if key[:1] == [_EPOCH_KIND] else 1
                times.setdefault(tuple(key), {}).setdefault(batch_size, []).append(float(seconds))
    return times
