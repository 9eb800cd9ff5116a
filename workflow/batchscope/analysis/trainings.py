"""The trainings of one series, one number read of each: in a column, at a budget, at a target.

A series holds all learning rates that were tried of it, of which each batch size is read at one.
Numbers are a cube, shape (sizes, rates, seeds), NaN where there is no run.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
import pandas

from batchscope.analysis import chosen_rates, run_series
from batchscope.analysis.chosen_rates import RATE
from batchscope.analysis.targets import Target
from batchscope.catalogue import budget_kinds, own_columns
from batchscope.store.records import FAILED, FINISHED, UNSUCCESSFUL

Evaluated = dict[str, np.ndarray]  # column -> numbers of one training's evaluations, in order
CHOSEN_ON = "best_validation_loss"  # column of runs.csv by which their rates are chosen
_READ = (*budget_kinds.AXES.values(), *own_columns.AXES, *own_columns.OUTCOMES)


def series(frame: pandas.DataFrame) -> list[run_series.Series]:
    """Returns the series of a frame, each with all learning rates that were tried.

    Rates in words, such as those of an external table, are no choice: they distinguish series.
    """
    names = run_series.factor_columns(frame)
    if RATE in names and pandas.api.types.is_numeric_dtype(frame[RATE]):
        names.remove(RATE)
    return run_series.series(frame, names)


class Chosen(NamedTuple):
    """One number of each training of a series, each batch size at the rate that is chosen for it.

    Attributes:
        values: Shape (sizes, seeds).
        rates: Of each size, chosen over all seeds; NaN where none could be, or it is not known.
        on_edge: Whether it is the lowest or the highest of several that were tried, shape (sizes,).
        read: Which rate each seed is read at, of those of the series; -1 for none.
        tuned: Whether the seeds of a size are read at different rates, or would be if each were
            read at the rate that the others choose: then the choice scatters as well.
    """

    values: np.ndarray
    rates: np.ndarray
    on_edge: np.ndarray
    read: np.ndarray
    tuned: np.ndarray


@dataclass(frozen=True)
class Trainings:
    """The trainings of one series.

    Attributes:
        factors: Those that distinguish it, of all that vary in its experiment.
        runs: Their rows of runs.csv: those that left no evaluation too.
        evaluations: Their rows of trajectories.csv, in order of updates.
        along: Factors that change with the batch size -> values in its order.
    """

    factors: dict[str, Any]
    runs: pandas.DataFrame
    evaluations: pandas.DataFrame
    along: dict[str, list[Any]] = field(default_factory=dict)

    @functools.cached_property
    def finished(self) -> pandas.DataFrame:
        """The evaluations of the trainings that finished."""
        return run_series.finished(self.evaluations)

    def whole(self, name: str) -> bool:
        """Returns whether every evaluation of every finished training has a value of a column."""
        known = self.finished.get(name)
        return known is not None and len(known) > 0 and bool(known.notna().all())

    @functools.cached_property
    def _columns(self) -> list[pandas.Series]:
        rates = self.runs.get(RATE, pandas.Series(math.nan, self.runs.index))
        return [self.runs["batch_size"], pandas.to_numeric(rates, "coerce"), self.runs["seed"]]

    @functools.cached_property
    def axes(self) -> tuple[list[int], list[float], list[int]]:
        """The batch sizes, rates and seeds, ascending."""
        sizes, rates, seeds = (np.unique(column).tolist() for column in self._columns)
        return sizes, rates, seeds

    @property
    def tuned(self) -> bool:
        """Whether several rates were tried of a batch size."""
        sizes, rates, _ = self._columns
        return bool((rates.groupby(sizes).nunique() > 1).any())

    @functools.cached_property
    def _evaluated(self) -> dict[str, Evaluated]:
        names = [name for name in dict.fromkeys(_READ) if name in self.evaluations]
        return {
            run: {name: rows[name].to_numpy(float, na_value=math.nan) for name in names}
            for run, rows in self.evaluations.groupby("run", sort=False)
        }

    def by_run(self, read: Callable[[Evaluated], float]) -> np.ndarray:
        """Returns what is read of each training's evaluations, shape (runs,); NaN of none."""
        known = (self._evaluated.get(run) for run in self.runs["run"])
        return np.array([read(rows) if rows else math.nan for rows in known], float)

    def cube(self, values: Any) -> np.ndarray:
        """Returns one number per run as a cube."""
        found = np.full([*map(len, self.axes)], math.nan)
        places = zip(self.axes, self._columns, strict=True)
        found[tuple(np.searchsorted(axis, column) for axis, column in places)] = values
        return found

    def outcome(self, values: Any, rises: bool = False) -> np.ndarray:
        """Returns the numbers of the runs that finished as a cube; infinitely bad of a failed."""
        status = self.runs["status"]
        failed = np.where(status.isin(UNSUCCESSFUL), -math.inf if rises else math.inf, math.nan)
        return self.cube(np.where(status == FINISHED, np.asarray(values, float), failed))

    def column(self, name: str) -> np.ndarray:
        """Returns a column of runs.csv, as `outcome` does."""
        values = self.runs[name].to_numpy(float, na_value=math.nan) if name in self.runs else np.nan
        return self.outcome(np.broadcast_to(values, len(self.runs)), name.endswith("accuracy"))

    @functools.cached_property
    def failed(self) -> np.ndarray:
        """Whether each training diverged or ran out of memory, shape (runs,)."""
        return self.runs["status"].isin(FAILED).to_numpy()

    def taken(self, target: Target, axis: str) -> np.ndarray:
        """Returns what each training took to a target as a cube; infinity if it never got there."""
        found = self.by_run(lambda rows: target.crossing(rows, axis))
        return self.cube(np.where(self.failed, math.inf, found))

    def at_first(self, target: Target) -> np.ndarray:
        """Returns whether each is at a target by its first evaluation, which bounds what it took.

        As a cube; no training that failed is.
        """
        return self.cube(self.by_run(target.at_first) * ~self.failed) == 1

    def chosen_by(self, losses: np.ndarray, cube: np.ndarray, others: bool) -> Chosen:
        """Returns numbers at the rates that losses choose, both cubes.

        A size of which every rate lacks a run has none, and no values.

        Args:
            others: Whether each seed is read at the rate that the others choose.
        """
        chosen = chosen_rates.for_other_data(losses)
        index = np.repeat(chosen[:, None], losses.shape[2], axis=1)
        of_others = chosen_rates.leave_one_out(losses)[1]
        of_others = np.where((index < 0) | (of_others < 0), index, of_others)
        read = of_others if others else index
        values = np.where(read < 0, math.nan, chosen_rates.at(cube, read))
        only = chosen_rates.tried(losses).sum(axis=1) == 1
        rates = self.rates(np.where(only, chosen, chosen_rates.by_lowest(losses)))
        tuned = chosen_rates.differ(of_others)
        on_edge = chosen_rates.on_edge(chosen, losses)
        return Chosen(values, rates, on_edge, read, tuned)

    def chosen_by_itself(self, cube: np.ndarray) -> Chosen:
        """Returns numbers of which lower is better, each seed at the rate that the others choose.

        By the numbers themselves: infinite where no other seed got there at any rate.
        """
        values, read = chosen_rates.leave_one_out(cube)
        tried = chosen_rates.tried(cube)
        only, best = tried.sum(axis=1) == 1, chosen_rates.by_lowest(cube)
        rates = self.rates(np.where(only, tried.argmax(axis=1), best))
        on_edge, tuned = chosen_rates.on_edge(best, cube), chosen_rates.differ(read)
        return Chosen(values, rates, on_edge, read, tuned)

    def rates(self, index: np.ndarray) -> np.ndarray:
        """Returns which rates some indices are of; NaN of -1, which is none."""
        return np.array([*self.axes[1], math.nan])[index]


def of_experiment(runs: pandas.DataFrame, evaluations: pandas.DataFrame) -> list[Trainings]:
    """Returns the runs of every series of an experiment."""
    if runs.empty:
        return []
    keys = [name for name in ("run", "machine") if name in runs and name in evaluations]
    several, found = run_series.varying(runs), []
    # Numbers that follow from others distinguish nothing; words that go with others do beside them.
    words = [name for name in several if not pandas.api.types.is_numeric_dtype(runs[name])]
    for group in series(runs):
        own = evaluations.merge(group.frame[keys], on=keys).sort_values("updates", kind="stable")
        shared = [name for name in words if group.frame[name].nunique(dropna=False) == 1]
        kept = [name for name in several if name in {*shared, *group.factors}]
        factors = {name: group.frame[name].iloc[0] for name in kept}
        sizes = group.frame.drop_duplicates("batch_size").sort_values("batch_size")
        rest = [name for name in several if name not in words and group.frame[name].nunique() > 1]
        each = Trainings(factors, group.frame, own, {name: [*sizes[name]] for name in rest})
        if each.tuned:
            each.along.pop(RATE, None)
        found.append(each)
    return found
