"""Whether a batch size that rises pays: beside every constant one, after as many examples.

Each configuration is read at its own best learning rate. Stated of a rising one is that no constant
one is better by more than the margin: a contrast for each of them, paired by seed, all of which
must hold. What it costs, in updates and in seconds, is a ratio to the constant one with the best
mean, stated to be below 1. All are one family.
"""

from __future__ import annotations

import functools
import math
import operator
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from typing import Any

import numpy as np
import pandas

from batchscope.analysis import chosen_rates, contrasts, run_series
from batchscope.analysis.chosen_rates import RATE
from batchscope.analysis.contrasts import Contrast, Statement
from batchscope.analysis.trainings import CHOSEN_ON, Chosen, Trainings
from batchscope.study import batch_phases, factor_words, run_factors, stages, tasks
from batchscope.study.decision_columns import RAMPS
from batchscope.study.outcomes import OF_MARGIN, Reason, Verdict
from batchscope.study.run_factors import Affects, affecting, used_with

COSTS = {"steps_run": "updates", "train_seconds": "seconds"}  # column of runs.csv -> outcome
_OUTCOMES = ("test_loss", CHOSEN_ON)  # the first that is known, where no margin is stated
_OF_SCHEDULE = (*affecting(Affects.HORIZON), *used_with("batch_schedule"))
# What configurations that are compared may differ in, beside the seed.
_FREE = {*_OF_SCHEDULE, RATE, "batch_size", "base_batch_size", "evaluate_every"}
_APART = (*_OF_SCHEDULE, "base_batch_size")  # of those, what tells configurations apart


@dataclass(frozen=True)
class _Arm:
    """A configuration: its runs of all rates and seeds."""

    factors: dict[str, Any]  # of its first run
    trainings: Trainings

    @property
    def rises(self) -> bool:
        return len(batch_phases.batch_sizes(self.factors)) > 1

    def chosen(self, column: str) -> Chosen:
        losses, cube = (self.trainings.column(name) for name in (CHOSEN_ON, column))
        return self.trainings.chosen_by(losses, cube, not column.startswith("test"))

    @property
    def seeds(self) -> list[int]:
        return self.trainings.axes[2]

    def of(self, seeds: Sequence[int]) -> _Arm:
        runs = self.trainings.runs
        return replace(self, trainings=replace(self.trainings, runs=runs[runs["seed"].isin(seeds)]))

    def by_seed(self, values: np.ndarray) -> pandas.Series:
        return pandas.Series(values[0], self.seeds)

    def taken(self, column: str, chosen: Chosen) -> pandas.Series:
        found = chosen_rates.at(self.trainings.column(column), chosen.read)
        return self.by_seed(np.where(chosen.read < 0, math.nan, found))


@dataclass(frozen=True)
class _RampRow:
    """What is stated of a configuration: its row of the table, before it is judged."""

    row: dict[str, Any]
    statement: Statement | None = None  # None where the row has its verdict
    others: Sequence[_Arm] = ()  # by the place that contrasts have as `at`
    sign: float = 1.0  # -1 of an outcome of which higher is better

    def judged(self, found: contrasts.Judged) -> dict[str, Any]:
        """Returns the row with a verdict."""
        cost = self.row["outcome"] in COSTS.values()
        columns = found.columns(ratio=cost)
        if self.sign < 0:
            ends = {"estimate": "estimate", "low": "high", "high": "low"}
            columns |= {name: -columns[other] for name, other in ends.items()}
        return {
            **self.row,
            **columns,
            "verdict": found.verdict if cost else OF_MARGIN.get(found.verdict, found.verdict),
            "against": self.others[found.deciding.cells["at"]].factors["batch_size"],
        }


def table(
    runs: pandas.DataFrame, margins: Mapping[str, float], looks: Sequence[int] = ()
) -> pandas.DataFrame:
    """Returns one row per configuration whose batch size rises, and outcome or cost.

    None without such runs of all factors, or without a constant batch size beside them.

    Args:
        margins: Outcome -> largest loss that counts as negligible, as the study states them.
        looks: Numbers of seeds at which one looks.
    """
    found: list[_RampRow] = []
    for arms in _groups(run_series.own(runs)) if _rise(runs) else ():
        constant = [arm for arm in arms if not arm.rises]
        for arm in arms:
            found += _compared(arm, constant, margins, looks) if arm.rises else ()
    judged = iter(contrasts.judge([each.statement for each in found if each.statement]))
    rows = [each.judged(next(judged)) if each.statement else each.row for each in found]
    named = [name for name in run_series.factor_columns(runs) if name != RATE]
    return run_series.table(rows, RAMPS, named)


def _rise(runs: pandas.DataFrame) -> bool:
    if not {*run_factors.FACTORS} <= {*runs} or runs[[*run_factors.FACTORS]].isna().any(axis=None):
        return False
    return bool((runs["batch_schedule"] != run_factors.CONSTANT).any())


def _groups(runs: pandas.DataFrame) -> Iterator[list[_Arm]]:
    """Yields configurations that differ in their batch sizes and rates over time alone.

    Of runs that all train for as many epochs: not of those that something may stop before.
    """
    runs = runs[(runs[[*run_series.STOPS]] == 0).all(axis=1)]
    varying = run_series.varying(runs)
    alike = [name for name in varying if name not in _FREE]
    apart = ["batch_size", *(name for name in varying if name in _APART)]
    for _, group in runs.groupby(alike, sort=False, dropna=False) if alike else [((), runs)]:
        yield [
            _Arm(
                {name: factor_words.plain(own[name].iloc[0]) for name in run_factors.FACTORS},
                Trainings({}, own, own.iloc[:0]),
            )
            for _, own in group.groupby(apart, sort=False, dropna=False)
        ]


@dataclass(frozen=True)
class _Beside:
    """A rising configuration beside the constant ones, each at its best rate by one outcome."""

    arm: _Arm
    constant: Sequence[_Arm]
    outcome: str

    @property
    def sign(self) -> float:
        return -1.0 if tasks.higher_is_better(self.outcome, self.arm.trainings.metrics) else 1.0

    @functools.cached_property
    def own(self) -> Chosen:
        return self.arm.chosen(self.outcome)

    @functools.cached_property
    def others(self) -> dict[int, Chosen]:
        """Those of the constant ones by their place, but of one that failed: it is no better."""
        found = {at: each.chosen(self.outcome) for at, each in enumerate(self.constant)}
        failed = {at for at, each in found.items() if np.isinf(each.values).any()}
        known = {at for at, each in found.items() if np.isfinite(each.values).any()}
        return {at: found[at] for at in sorted(known - failed)}

    def first(self, seeds: Sequence[int]) -> _Beside:
        arms = (each.of(seeds) for each in (self.arm, *self.constant))
        return replace(self, arm=next(arms), constant=[*arms])

    @property
    def begun(self) -> bool:
        return all(each.seeds for each in (self.arm, *self.constant))

    def losses(self, margin: float) -> list[Contrast]:
        """Returns how much worse it is than each constant one, by seed."""
        values = self.arm.by_seed(self.own.values)
        return [
            Contrast(
                (self.sign * (values - self.constant[at].by_seed(other.values))).to_numpy(),
                high=margin,
                tuned=bool(self.own.tuned[0] or other.tuned[0]),
                cells={"at": at},
            )
            for at, other in self.others.items()
        ]

    def costs(self, column: str) -> list[Contrast]:
        """Returns the logarithm of what it costs beside the constant one with the best mean."""
        if not self.others:
            return []
        means = {at: np.nanmean(self.sign * each.values) for at, each in self.others.items()}
        best = min(means, key=means.__getitem__)
        paid = self.constant[best].taken(column, self.others[best])
        ratios = np.log(self.arm.taken(column, self.own) / paid).to_numpy()
        return [Contrast(ratios, high=0.0, cells={"at": best})] if np.isfinite(ratios).any() else []

    def at_looks(
        self, looks: Sequence[int], stated: Callable[[_Beside], Sequence[Contrast]]
    ) -> Statement:
        """Returns a statement that is tested by the first seeds of every look."""
        seeds = sorted({*chain.from_iterable(each.seeds for each in (self.arm, *self.constant))})
        seen = stages.seen(len(seeds), looks)
        then = (self.first(seeds[:count]) for count, _ in seen)
        found = [Statement(tuple(stated(each) if each.begun else ())) for each in then]
        return contrasts.staged(found, [share for _, share in seen])


def _compared(
    arm: _Arm, constant: Sequence[_Arm], margins: Mapping[str, float], looks: Sequence[int]
) -> Iterator[_RampRow]:
    """Yields what is stated of a configuration whose batch size rises."""
    runs = pandas.concat([each.trainings.runs for each in (arm, *constant)])
    named = dict.fromkeys((*margins, *_OUTCOMES))
    known = [name for name in named if name in runs and runs[name].notna().any()]
    compared = [name for name in known if name in margins] or known[:1]
    for outcome in compared:
        margin = margins.get(outcome, tasks.loss_margin(tasks.of_columns(runs.columns)))
        beside = _Beside(arm, constant, outcome)
        row = _row(arm, beside.own, outcome, beside.sign * margin)
        if not beside.others:
            yield _RampRow({**row, "verdict": Verdict.NOT_TESTABLE, "reason": Reason.ALONE})
            continue
        if np.isinf(beside.own.values).any():
            yield _RampRow({**row, "verdict": Verdict.BEYOND, "reason": Reason.FAILED})
        else:
            stated = beside.at_looks(looks, operator.methodcaller("losses", margin))
            yield _RampRow(row, stated, constant, beside.sign)
        for column, cost in COSTS.items() if outcome == compared[0] else ():
            if beside.costs(column):
                stated = beside.at_looks(looks, operator.methodcaller("costs", column))
                yield _RampRow(_row(arm, beside.own, cost, 1.0), stated, constant)


def _row(arm: _Arm, own: Chosen, outcome: str, bound: float) -> dict[str, Any]:
    return {
        **run_series.constants(arm.trainings.runs),
        "batch_size": arm.factors["batch_size"],
        RATE: own.rates[0],
        "outcome": outcome,
        "bound": bound,
    }
