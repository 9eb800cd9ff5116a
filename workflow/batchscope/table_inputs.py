"""What an experiment's tables follow: the records behind them, and what else changes a row."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
from collections.abc import Iterable, Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

from batchscope import rule_parts
from batchscope.catalogue import run_names
from batchscope.store import job_files, states
from batchscope.study import plan


class Followed:
    """What the tables of a study's experiments follow."""

    def __init__(self, study: plan.Study, table: states.Table) -> None:
        self._study, self._table = study, table

    def records(self, experiment: str) -> list[str]:
        return list(dict.fromkeys(self._records(experiment)))

    def not_bundled(self, experiment: str) -> list[str]:
        """Returns those that no bundle makes.

        An input costs Snakemake a checksum for each output of its job: of what bundles make, the
        dates are a parameter of the tables.
        """
        single = self._single
        return [path for path in self.records(experiment) if _record_of(path) not in single]

    def also(self, experiment: str, dates: bool) -> str:
        """Returns what an experiment's tables follow besides its records, as JSON.

        Epochs, other machines, margins, budgets, what the advice and the planned seeds say, and a
        document's numbers: a change of these trains nothing.

        Args:
            dates: Whether the dates of what bundles make are part of it.
        """
        found = self._study.experiments[experiment]
        followed: dict[str, Any] = {"at_epochs": found.at_epochs, "machines": self._study.machines}
        for name in ("margins", "budgets", "seeds_planned", "beside"):
            followed[name] = getattr(found.keys, name)
        followed |= {"slower": found.keys.advice.slower, "looks": found.looks}
        if found.numbers:
            followed["published"] = {
                figure: [found.keys.published[figure].figure, *map(asdict, series)]
                for figure, series in found.numbers.items()
            }
        if found.own.path:  # a file of another content may be older
            followed["runs"] = found.own.sha256
        if dates:
            single = self._single
            made = (path for path in self.records(experiment) if _record_of(path) in single)
            followed["records"] = _dates(made)
        waiting = [state for state in self._table.experiments[experiment] if state.lacking]
        if waiting:  # what comes to be there, or was copied here, changes rows
            there = (each.job.path for each in waiting if each.job.path.exists())
            followed["left_out"] = {
                "why": sorted({each.lacking.status for each in waiting}),
                "there": sorted(path.as_posix() for path in there),
            }
        return json.dumps(followed, sort_keys=True)

    def _records(self, experiment: str) -> Iterator[str]:
        found = self._study.experiments[experiment]
        yield from map(rule_parts.literal, found.own.files)
        for other in found.keys.beside:
            yield from self._records(other)
        # What other machines measured is read, and never made.
        for folder, machine in self._study.machines.values():
            runs = (job_files.training_job(folder, run) for run in found.runs)
            for job in (*runs, *job_files.measure_jobs(found, folder, machine)):
                if job.path.exists():
                    yield rule_parts.literal(job.path.as_posix())
        beside = {name: entry.also_writes for name, entry in run_names.ENTRIES.items()}
        made = (state.job for state in self._table.experiments[experiment] if not state.lacking)
        for job in made:
            yield job.path.as_posix()
            for suffix in beside.get(job.measure, ()):
                yield job.path.with_suffix(suffix).as_posix()

    @property
    def _single(self) -> set[str]:
        every = self._table.every.values()
        return {state.job.path.as_posix() for state in every if not commanded(state)}


def commanded(state: states.State) -> bool:
    return state.job.measure == "run_command"


def _record_of(path: str) -> str:
    return f"{os.path.splitext(path)[0]}.json"


def _dates(files: Iterable[str]) -> str:
    """Returns a digest of which files are there, and since when."""
    found = hashlib.sha256()
    for file in sorted(files):
        with contextlib.suppress(FileNotFoundError):
            found.update(f"{file} {Path(file).stat().st_mtime_ns}\n".encode())
    return found.hexdigest()
