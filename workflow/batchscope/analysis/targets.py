"""Losses and accuracies to reach: where trainings cross them, and which ones by default."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pandas

from batchscope.analysis import trajectories
from batchscope.catalogue import own_columns
from batchscope.catalogue.own_columns import ACCURACIES, LEAST_SIZES, LOSSES

if TYPE_CHECKING:
    from batchscope.analysis.trainings import Trainings

TARGETS = 3  # of a series, where none is given


@dataclass(frozen=True)
class Target:
    """A value of a loss or an accuracy to reach.

    `column` is empty where every training has one row, which is its target.
    """

    column: str = ""
    value: float = math.nan

    def crossing(self, evaluated: Mapping[str, np.ndarray], axis: str) -> float:
        """Returns where one training first reaches the target; infinity where it never does.

        An accuracy is read as an error, 1 - accuracy, and so on a logarithmic scale too.
        """
        used = evaluated[axis]
        if not self.column:
            return math.inf if math.isnan(used[0]) else float(used[0])
        if np.isnan(used).all():
            return math.nan  # there is no such training
        losses = _losses(evaluated, self.column)
        target = 1 - self.value if self.column in ACCURACIES else self.value
        known = ~np.isnan(losses)  # not every evaluation need be of everything
        order = np.argsort(used[known], kind="stable")
        return trajectories.first_crossing(used[known][order], losses[known][order], target)

    def at_first(self, evaluated: Mapping[str, np.ndarray]) -> bool:
        """Returns whether one training is at the target by its first evaluation.

        What it took is at most that: an upper bound.
        """
        if not self.column:
            return False
        updates = evaluated["updates"][~np.isnan(evaluated[self.column])]
        first = np.fmin.reduce(updates, initial=np.nan)  # past what is not known
        return bool(self.crossing(evaluated, "updates") == first)


def default_targets(trainings: Trainings) -> list[Target]:
    """Returns three targets of a series, equal steps of the logarithm of the loss apart.

    From the least loss after the first evaluation to the lowest that every batch size reached with
    all its seeds, which is the last. Accuracies are read as errors. Where every training has a
    single row, that is its target, without a column.
    """
    if not trainings.evaluations["run"].duplicated().any():
        return [Target()]
    column = target_column(trainings)
    if column is None:
        return []

    def first(evaluated: Mapping[str, np.ndarray]) -> float:
        losses = _losses(evaluated, column)
        return next((loss for loss in losses.tolist() if not math.isnan(loss)), math.nan)

    firsts = trainings.by_run(first)
    start = float(np.min(firsts[np.isfinite(firsts)], initial=math.inf))
    end = _lowest_of_all(trainings, column)
    if not 0 < end < start < math.inf:
        return []
    values = [start * (end / start) ** (step / TARGETS) for step in range(1, TARGETS)] + [end]
    return [Target(column, each if column in LOSSES else 1 - each) for each in values]


def target_column(trainings: Trainings) -> str | None:
    """Returns the loss, without any the accuracy, that default targets are of; None without one."""
    rows = trainings.evaluations
    known = (name for name in (*LOSSES, *ACCURACIES) if name in rows)
    return next((name for name in known if np.isfinite(rows[name].astype(float)).any()), None)


def at_own_targets(evaluations: pandas.DataFrame) -> bool:
    """Returns whether external runs have one row each, which then is their target.

    A training here that is evaluated once was not stopped at a target.
    """
    elsewhere = len(evaluations) > 0 and (evaluations["machine"] == own_columns.ELSEWHERE).all()
    return bool(elsewhere and not evaluations["run"].duplicated().any())


def _losses(evaluated: Mapping[str, np.ndarray], column: str) -> np.ndarray:
    return evaluated[column] if column in LOSSES else 1 - evaluated[column]


def _lowest_of_all(trainings: Trainings, column: str) -> float:
    """Returns the lowest loss that every batch size reached with all its seeds; NaN if none.

    At one rate at least, where several were tried. A batch size at which some training of every
    rate failed is left out, as it is of the fit, where enough others are there.
    """

    def lowest(evaluated: Mapping[str, np.ndarray]) -> float:
        losses = _losses(evaluated, column)[~np.isnan(evaluated["updates"])]
        if not len(losses):
            return math.nan  # there is no such training
        return float(np.min(losses[np.isfinite(losses)], initial=math.inf))

    found = np.where(trainings.failed, math.inf, trainings.by_run(lowest))
    cube = trainings.cube(found)
    own = ~np.isnan(cube).all(axis=1, keepdims=True)  # seeds of each size
    # A rate that was tried with some of the seeds gets not all of them there.
    worst = np.where(np.isnan(cube), np.where(own, math.inf, -math.inf), cube).max(axis=2)
    best = worst[own.any(axis=(1, 2))].min(axis=1)
    ends = best[np.isfinite(best)]
    return float(ends.max()) if len(ends) >= min(len(best), LEAST_SIZES) else math.nan
