"""Trainings of one series read where something is held equal, each batch size at its best rate.

Which batch size wins depends on what is held equal, and on how the rate was chosen. A rate is
chosen at the budget itself: what is best after ten epochs need not be after ten seconds.

Source: Shallue et al. 2019, "Measuring the Effects of Data Parallelism on Neural Network Training"
(arXiv 1811.03600), sections 2 and 3.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import pandas

from batchscope.analysis import (
    best_learning_rates,
    chosen_rates,
    intervals,
    run_series,
    to_target_tables,
    trajectories,
    updates_to_target,
)
from batchscope.analysis.intervals import Interval
from batchscope.analysis.updates_to_target import Target
from batchscope.catalogue.budget_kinds import AXES, CONVERGENCE, END, EPOCHS, TAKEN, TARGET
from batchscope.store.records import FINISHED, UNSUCCESSFUL

LEAST_SIZES = 2
CHOSEN_BY = "validation_loss"  # of an evaluation; of a run `best_learning_rates.CHOSEN_ON`
# Outcomes of a budget: on test data, or where those are not known on validation data.
ON_TEST = ("test_accuracy", "test_loss")
ON_VALIDATION = ("validation_accuracy", "validation_loss")
# What counts as negligible where the experiment states nothing of it.
MARGINS = {"accuracy": 0.01, "loss": 0.05, "taken": 0.1}
Place = tuple[int, int, int]  # of a training in (sizes, rates, seeds)


class Budget(NamedTuple):
    """What is held equal: a kind of `budget_kinds` and how much of it.

    Attributes:
        value: Of a target the loss or accuracy; NaN of convergence and the end.
        column: What the target is of; else empty.
    """

    kind: str
    value: float = math.nan
    column: str = ""
    stated: bool = False


@dataclass(frozen=True)
class Reading:
    """One outcome of one series at one budget, as it was measured.

    Attributes:
        runs: The rows of runs.csv of the series.
        margin: Largest loss that counts as negligible; NaN where nothing is stated of it.
        batch_sizes: Ascending, as are seeds.
        values: Shape (sizes, seeds): NaN where there is no run, or it ended before the budget;
            infinitely bad where it failed or never reached the target.
        ran: Whether there is a run, whatever became of it, shape (sizes, seeds).
        rates: The rate of each size; NaN where none could be chosen or it is not known.
        on_edge: Whether it lies on the edge of those that were tried, shape (sizes,).
        tuned: Whether the seeds of a size are read at different rates.
        at_first: Of a target whether a training is there by its first evaluation: what it took is
            at most that.
        falling: Of convergence whether the validation loss still fell when most trainings ended:
            theirs is the loss at a horizon, which longer ones would pass.
        ended: Whether a training finished before the budget.
    """

    runs: pandas.DataFrame
    budget: Budget
    outcome: str
    margin: float
    batch_sizes: tuple[int, ...]
    seeds: tuple[int, ...]
    values: np.ndarray
    ran: np.ndarray
    rates: np.ndarray
    on_edge: np.ndarray
    tuned: np.ndarray
    at_first: np.ndarray
    falling: np.ndarray
    ended: np.ndarray

    @property
    def taken(self) -> bool:
        """Whether it is what was taken to a target, which is compared as a ratio."""
        return self.budget.kind == TARGET

    @property
    def rises(self) -> bool:
        """Whether higher is better."""
        return self.outcome.endswith("accuracy")

    @functools.cached_property
    def factors(self) -> dict[str, Any]:
        """The factors of the series, the learning rate apart; None where it has several values."""
        names = [name for name in run_series.factor_columns(self.runs) if name != chosen_rates.RATE]
        single = self.runs[names].nunique(dropna=False) == 1
        return {name: self.runs[name].iloc[0] if single[name] else None for name in names}

    def means(self) -> list[Interval]:
        """Returns the mean of each size with its 95 % t-interval; geometric of what was taken.

        Empty where a run failed, or there is none.
        """
        found = []
        for values, tuned in zip(self.values, self.tuned.tolist(), strict=True):
            values = values[~np.isnan(values)]
            if not len(values) or not np.isfinite(values).all():
                found.append(Interval())
            elif self.taken:
                usable = (values > 0).all()
                found.append(
                    intervals.ratio_interval(values, 1.0, tuned) if usable else Interval()
                )
            else:
                found.append(intervals.t_interval(values, differ=tuned))
        return found


def of_experiment(
    runs: pandas.DataFrame,
    evaluations: pandas.DataFrame,
    stated: Mapping[str, Any],
    margins: Mapping[str, float],
    at_end: Iterable[str] | None = None,
) -> Iterator[Reading]:
    """Yields every outcome of every series with two batch sizes or more, at every budget.

    Args:
        stated: Budgets of the experiment: kind -> value, of a target column -> value.
        margins: Outcome -> largest loss.
        at_end: The columns of runs.csv that are read at each training's own end; those with a
            margin where it is left out.
    """
    raise NotImplementedError
