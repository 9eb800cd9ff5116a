"""Losses and accuracies to reach: where trainings cross them, and which ones by default."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import pandas

from batchscope import wording
from batchscope.analysis import chosen_rates, trajectories
from batchscope.catalogue import own_columns
from batchscope.catalogue.own_columns import ACCURACIES, LEAST_SIZES, LOSSES
from batchscope.store import records

TARGETS = 3  # of a series, where none is given


@dataclass(frozen=True)
class Target:
    """A value of a loss or an accuracy to reach.

    `column` is empty where every training has one row, which is its target.
    """

    column: str = ""
    value: float = math.nan

    @property
    def words(self) -> str:
        """It in words: `a validation loss of 0.2`."""
        if not self.column:
            return "the target of the file"
        return f"a {self.column.replace('_', ' ')} of {wording.number(self.value)}"

    def crossing(self, rows: pandas.DataFrame, axis: str) -> float:
        """Returns where one training first reaches the target; infinity where it never does.

        A training that failed never does. An accuracy is read as an error, 1 - accuracy, and so
        on a logarithmic scale too.
        """
        if failed(rows):
            return math.inf
        used = floats(rows[axis])
        if not self.column:
            return math.inf if math.isnan(used[0]) else float(used[0])
        if np.isnan(used).all():
            return math.nan  # there is no such training
        losses, target = floats(rows[self.column]), self.value
        if self.column in ACCURACIES:
            losses, target = 1 - losses, 1 - target
        known = ~np.isnan(losses)  # not every evaluation need be of everything
        order = np.argsort(used[known], kind="stable")
        return trajectories.first_crossing(used[known][order], losses[known][order], target)

    def at_first(self, rows: pandas.DataFrame) -> bool:
        """Returns whether one training is at the target by its first evaluation.

        What it took is at most that: an upper bound.
        """
        if not self.column or failed(rows):
            return False
        evaluated = floats(rows["updates"])[~np.isnan(floats(rows[self.column]))]
        first = np.fmin.reduce(evaluated, initial=np.nan)  # past what is not known
        return bool(self.crossing(rows, "updates") == first)


def default_targets(rows: pandas.DataFrame) -> list[Target]:
    """Returns three targets of a series, equal steps of the logarithm of the loss apart.

    From the least loss after the first evaluation to the lowest that every batch size reached with
    all its seeds, which is the last. Accuracies are read as errors. Where every training has a
    single row, that is its target, without a column.
    """
    if rows.groupby(run_keys(rows), dropna=False).size().max() == 1:
        return [Target()]
    column = target_column(rows)
    if column is None:
        return []
    losses = rows[column] if column in LOSSES else 1 - rows[column]
    table = rows.assign(_loss=losses.astype(float)).sort_values("updates")
    first = table[table["_loss"].notna()].drop_duplicates(run_keys(rows))["_loss"]
    start = float(first[np.isfinite(first)].min())
    end = _lowest_of_all(table)
    if not 0 < end < start < math.inf:
        return []
    values = [start * (end / start) ** (step / TARGETS) for step in range(1, TARGETS)] + [end]
    return [Target(column, each if column in LOSSES else 1 - each) for each in values]


def target_column(rows: pandas.DataFrame) -> str | None:
    """Returns the loss, without any the accuracy, that default targets are of; None without one."""
    known = (name for name in (*LOSSES, *ACCURACIES) if name in rows)
    return next((name for name in known if np.isfinite(floats(rows[name])).any()), None)


def at_own_targets(frame: pandas.DataFrame) -> bool:
    """Returns whether trainings made elsewhere have one row each, which then is their target.

    A training here that is evaluated once was not stopped at a target.
    """
    elsewhere = len(frame) > 0 and (frame["machine"] == own_columns.ELSEWHERE).all()
    return bool(elsewhere and not frame["run"].duplicated().any())


def run_keys(rows: pandas.DataFrame) -> list[str]:
    """Returns the columns that distinguish the trainings of one series."""
    return ["batch_size", "seed", *([chosen_rates.RATE] if chosen_rates.RATE in rows else [])]


def floats(column: pandas.Series) -> np.ndarray:
    """Returns a column's numbers, NaN for what is missing."""
    return column.to_numpy(float, na_value=math.nan)


def failed(rows: pandas.DataFrame) -> bool:
    """Returns whether one training diverged or ran out of memory."""
    return "status" in rows and rows["status"].iloc[0] in records.FAILED


def _lowest_of_all(table: pandas.DataFrame) -> float:
    """Returns the lowest loss that every batch size reached with all its seeds; NaN if none.

    At one rate at least, where several were tried. A batch size at which some training of every
    rate failed is left out, as it is of the fit, where enough others are there.
    """
    keys = run_keys(table)
    gone = table.get("status", pandas.Series("", table.index)).isin(records.FAILED)
    losses = table["_loss"].where(np.isfinite(table["_loss"]) & ~gone, math.inf)
    there = table["updates"].notna() | gone  # of no training there are no updates
    lows = losses[there].groupby([table.loc[there, name] for name in keys], dropna=False).min()
    at_rates = lows.groupby([name for name in keys if name != "seed"], dropna=False)
    # A rate that was tried with some of the seeds gets not all of them there.
    seeds = lows.reset_index().groupby("batch_size")["seed"].nunique()
    whole = at_rates.size() == seeds.reindex(at_rates.size().index, level="batch_size")
    best = at_rates.max().where(whole, math.inf).groupby("batch_size").min()
    ends = best[np.isfinite(best)]
    return float(ends.max()) if len(ends) >= min(len(best), LEAST_SIZES) else math.nan
