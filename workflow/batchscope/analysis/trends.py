"""How outcomes change with the batch size: a slope per series, budget and outcome.

At each training's own end a direction is tested that somebody stated beforehand, in `outcomes` or
in the study; where a budget is held equal, the one in which larger batch sizes are better.
"""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas

from batchscope.analysis import contrasts, intervals, run_series, training_ends
from batchscope.analysis.contrasts import Judged, Statement
from batchscope.analysis.readings import Budget, Reading
from batchscope.catalogue import outcomes
from batchscope.catalogue.budget_kinds import END
from batchscope.catalogue.decision_columns import TRENDS
from batchscope.catalogue.outcomes import FALLS, RISES, Outcome, Reason, Verdict
from batchscope.store import records

# A training that ran all its epochs without being stopped gives no more than a lower bound.
UNTIL_STOPPED = ("epochs_run", "train_seconds")
_TIMED = "seconds_per_epoch"  # of a timing job, which ran whatever became of the training


@dataclass(frozen=True)
class _Asked:
    """An outcome as it was read, with the direction that is stated of it, and by whom.

    Attributes:
        bounds: Whether nothing stopped any run: all values are lower bounds.
    """

    reading: Reading
    direction: str
    source: str = ""
    bounds: bool = False

    @functools.cached_property
    def values(self) -> np.ndarray:
        """On the scale of slopes, shape (sizes, seeds): logarithms of what was taken."""
        with np.errstate(divide="ignore"):
            return np.log(self.reading.values) if self.reading.taken else self.reading.values

    @functools.cached_property
    def kept(self) -> np.ndarray:
        """The indices of the batch sizes with a value, and without a run that failed."""
        failed = np.isinf(self.values).any(axis=1)
        return np.flatnonzero(np.isfinite(self.values).any(axis=1) & ~failed)

    @property
    def positions(self) -> np.ndarray:
        """Binary logarithms of these batch sizes."""
        return np.log2(np.array(self.reading.batch_sizes, float)[self.kept])

    @property
    def left_out(self) -> Reason:
        """Why the smallest or the largest batch size is left out, where one is."""
        for at in {0, len(self.values) - 1} - {*self.kept.tolist()}:
            if np.isinf(self.reading.values[at]).any():
                return Reason.FAILED
            if np.isinf(self.values[at]).any():
                return Reason.NOT_POSITIVE
            return Reason.NO_BUDGET if self.reading.ended[at] else Reason.NO_VALUE
        return Reason.NONE

    @property
    def untestable(self) -> Reason:
        """Why nothing is tested, where nothing is."""
        if self.bounds:
            return Reason.LOWER_BOUND
        return Reason.NONE if len(self.kept) > 1 else self.left_out or Reason.ALONE

    def unknown(self, larger: bool) -> Reason:
        """Returns why larger batch sizes, or smaller ones, may be better than they look."""
        ends, centred = self.kept[[0, -1]], self.positions - self.positions.mean()
        beyond = centred > 0 if larger else centred < 0
        if self.reading.on_edge[ends[int(larger)]]:
            return Reason.RATE_ON_EDGE
        first = self.reading.at_first[self.kept][beyond].any()
        return Reason.AT_FIRST_EVALUATION if first else Reason.NONE

    @property
    def statement(self) -> Statement | None:
        """The slope's; None where nothing is tested."""
        if self.untestable:
            return None
        rises = self.direction == RISES
        return contrasts.trend(
            self.values[self.kept].T,
            self.positions,
            rises,
            tuned=bool(self.reading.tuned[self.kept].any()),
            open_up=bool(self.unknown(larger=self.reading.rises)),
            open_down=bool(self.unknown(larger=not self.reading.rises)),
        )

    def reason(self, judged: Judged) -> Reason:
        """Returns what an open end leaves unresolved, what is left out, or the verdict's own."""
        closed, unknown = replace(judged.deciding, open_low=False, open_high=False), Reason.NONE
        outside = closed.outside(judged.level)
        if judged.verdict == Verdict.NOT_RESOLVED and (outside or closed.inside(judged.level)):
            unknown = self.unknown(larger=outside)
        return unknown or self.left_out or judged.reason


def table(
    runs: pandas.DataFrame, at_budgets: Iterable[Reading], claims: Mapping[str, Outcome]
) -> pandas.DataFrame:
    """Returns one row per series, budget and outcome of an experiment, all of them one family.

    Args:
        at_budgets: Every outcome of every series where a budget is held equal.
        claims: Column -> what the study states about it, in place of what is asked of every study.
    """
    asked = _at_end(runs, claims) if len(runs) else []
    larger = (_Asked(each, RISES if each.rises else FALLS) for each in at_budgets)
    asked = [each for each in (*asked, *larger) if len(each.kept)]
    statements = [each.statement for each in asked]
    judged = iter(contrasts.judge([each for each in statements if each]))
    lines = [
        _line(each, next(judged) if statement else None)
        for each, statement in zip(asked, statements, strict=True)
    ]
    return run_series.table(lines, TRENDS, run_series.factor_columns(runs))


def _at_end(runs: pandas.DataFrame, claims: Mapping[str, Outcome]) -> Iterator[_Asked]:
    known = [name for name in runs if runs[name].notna().any()]
    asked = filter(None, (claims.get(name) or outcomes.outcome(name) for name in known))
    for outcome, group in itertools.product(asked, run_series.series(runs)):
        rows, column = group.frame, outcome.column
        chosen = column in UNTIL_STOPPED and training_ends.epochs_chosen(rows)
        if column == "epochs_run" and chosen:
            continue  # the horizon, not an outcome
        ran_out = column in UNTIL_STOPPED and not chosen and training_ends.all_ran_out(rows)
        yield _Asked(at_end(rows, column), outcome.direction, outcome.source, ran_out)


def at_end(rows: pandas.DataFrame, column: str) -> Reading:
    """Reads a column of runs.csv of one series; a seed has no value where its run failed.

    A batch size at which no run has one, and some failed, has failed.
    """
    sizes, seeds = (sorted(rows[name].unique().tolist()) for name in ("batch_size", "seed"))
    cells = rows.drop_duplicates(["batch_size", "seed"], keep="last")
    cells = cells.set_index(["batch_size", "seed"])[[column, "status"]]
    cells = cells.reindex(pandas.MultiIndex.from_product([sizes, seeds]))
    values, statuses = (cells[name].to_numpy().reshape(len(sizes), -1) for name in cells)
    finished, failed = statuses == records.FINISHED, np.isin(statuses, records.UNSUCCESSFUL)
    values = values.astype(float)
    values[~np.isfinite(values) | ~(finished | (column == _TIMED))] = math.nan
    values[np.isnan(values).all(axis=1) & failed.any(axis=1)] = math.inf
    none, ran = np.zeros(len(sizes), bool), finished | failed
    known = (rows, Budget(END), column, math.nan, tuple(sizes), tuple(seeds), values, ran)
    return Reading(*known, np.full(len(sizes), math.nan), none, none, none, none, none)


def _line(asked: _Asked, judged: Judged | None) -> dict[str, Any]:
    """Returns the row of an outcome, whose slope is judged where it is tested."""
    reading, means = asked.reading, asked.reading.means()
    rates = reading.runs["learning_rate"].unique()
    line = {
        **reading.factors,
        "learning_rate": rates[0] if len(rates) == 1 else None,
        "budget": reading.budget.kind,
        "budget_value": reading.budget.value,
        "budget_column": reading.budget.column,
        "stated": int(reading.budget.stated),
        "outcome": reading.outcome,
        "direction": asked.direction,
        "source": asked.source,
        "seeds": int(reading.ran.any(axis=0).sum()),
        "n": int(np.isfinite(asked.values[asked.kept]).all(axis=0).sum()),
        "verdict": Verdict.NOT_TESTABLE,
        "reason": asked.untestable,
    }
    for name, at in (("smallest", asked.kept[0]), ("largest", asked.kept[-1])):
        line[name] = reading.batch_sizes[at]
        line |= intervals.columns(f"{name}_mean", means[at][:3])
    if judged is None:
        return line
    estimate = [math.exp(end) if reading.taken else end for end in judged.estimate[:3]]
    return {
        **line,
        **dict(zip(("estimate", "low", "high"), estimate, strict=True)),
        "level": judged.level,
        "p": judged.p,
        "p_against": judged.p_against,
        "verdict": judged.verdict,
        "reason": asked.reason(judged),
        "seeds_to_resolve": judged.to_resolve,
    }
