"""Default targets of an experiment, fixed at its first analysis.

Seeds that are added later would move a default target, and with it every cost to the target. So the
targets of the first analysis of all planned runs are stored with the tables.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pandas

from batchscope import disk
from batchscope.analysis import run_series
from batchscope.analysis.targets import Target
from batchscope.analysis.trainings import RATE, Trainings
from batchscope.store import records
from batchscope.study import factor_words


class DefaultTargets:
    """The default targets of an experiment's series, read from a file if it exists."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._targets: list[dict[str, Any]] = []
        if path.exists():
            self._targets = disk.read_json(path, "targets")["targets"]

    def target_of(self, series: Trainings) -> Target | None:
        """Return the stored target of a series, else its default.

        A default loss or metric is stored, unless a run of the series is missing.
        """
        constants = run_series.constants(series.runs).items()
        factors = {
            name: factor_words.plain(value)
            for name, value in constants
            if name != RATE and pandas.notna(value)
        }
        for stored in self._targets:
            if stored["series"] == factors and stored["column"] in series.evaluations:
                return Target(stored["column"], stored["value"])
        target = series.default_target()
        missing = series.runs["status"].eq(records.MISSING).any()
        if target is not None and target.column and not missing:
            new = {"series": factors, "column": target.column, "value": target.value}
            self._targets.append(new)
        return target

    def write(self) -> None:
        disk.write_json(self._path, {"targets": self._targets})
