"""What batch sizes took to a target, read off the tables: one series and target at a time."""

from __future__ import annotations

import math
from itertools import compress
from typing import Any, NamedTuple

import pandas

from batchscope.analysis import (
    chosen_rates,
    critical_batch_size,
    fastest_batch_size,
    intervals,
    run_series,
)
from batchscope.analysis.targets import Target


class Panel(NamedTuple):
    """One series and target: its rows of to_target.csv, beside its row of the fits."""

    factors: dict[str, Any]  # what distinguishes the series
    rows: pandas.DataFrame

    @property
    def target(self) -> Target:
        """What is to be reached."""
        column, value = self.rows[["target_column", "target_value"]].iloc[0]
        return Target("" if pandas.isna(column) else column, float(value))

    @property
    def batch_sizes(self) -> list[int]:
        """Ascending."""
        return sorted(self.rows["batch_size"].unique().tolist())

    @property
    def fitted(self) -> list[int]:
        """The batch sizes that every seed reached the target with."""
        usable = fastest_batch_size.usable(self.taken("updates").to_numpy())
        return list(compress(self.batch_sizes, usable))

    @property
    def points(self) -> int:
        """How many batch sizes were fitted; 0 where there is no fit."""
        return int(self.rows["points"].iloc[0])

    @property
    def departs(self) -> bool:
        """Whether the updates depart from the curve."""
        return critical_batch_size.departs(self.value("lack_of_fit"))

    def value(self, column: str) -> float:
        """Returns a number of the fit; NaN where there is none."""
        return float(self.rows[column].astype(float).iloc[0])

    def interval(self, column: str) -> tuple[float, float, float]:
        """Returns a number of the fit with the ends of its interval."""
        first, low, high = (self.value(f"{column}{end}") for end in intervals.ENDS)
        return first, low, high

    def taken(self, axis: str) -> pandas.DataFrame:
        """Returns what was taken by size and seed: infinite where a training never got there."""
        values = self.rows[axis].astype(float).mask(self.rows["reached"] == 0, math.inf)
        cells = self.rows.assign(_taken=values)
        return cells.pivot(index="batch_size", columns="seed", values="_taken").sort_index()

    def known(self, axis: str) -> bool:
        """Whether anything is known along an axis."""
        return bool(self.rows[axis].notna().any())

    def means(self, axis: str) -> list[intervals.Interval]:
        """Returns the geometric mean of each size; NaN where a seed never got there.

        Its interval is another one where seeds of a size are read at different rates.
        """
        timed = axis == "seconds" and self.rows["seconds_on_edge"].notna().any()
        rate = "seconds_learning_rate" if timed else "learning_rate"
        differ = self.rows.groupby("batch_size")[rate].nunique() > 1
        chosen = self.rows["on_edge"].notna().any()
        return fastest_batch_size.geometric_means(self.taken(axis), (differ & chosen).to_numpy())


def panels(frame: pandas.DataFrame) -> list[Panel]:
    """Returns every series and target of a table of `to_target_tables.joined`."""
    names = [name for name in run_series.varying(frame) if name != chosen_rates.RATE]
    groups = frame.groupby([*names, "target_column", "target_value"], sort=False, dropna=False)
    return [Panel(dict(zip(names, key, strict=False)), rows) for key, rows in groups]
