"""How outcomes change with the batch size: a slope per series, budget and outcome.

At each run's own end a direction is tested that somebody stated beforehand, in `outcomes` or in the
study; where a budget is held equal, the one in which larger batch sizes are better.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import pandas

from batchscope.analysis import contrasts, intervals, readings, run_series, trainings
from batchscope.analysis.contrasts import Judged, Statement
from batchscope.analysis.readings import Reading
from batchscope.study import outcomes
from batchscope.study.decision_columns import TRENDS
from batchscope.study.outcomes import FALLS, RISES, Outcome, Reason, Verdict

# A run that ran all its epochs without being stopped gives no more than a lower bound.
UNTIL_STOPPED = ("epochs_run", "train_seconds")


class _TrendRow(NamedTuple):
    """The trend that is stated of an outcome."""

    row: dict[str, Any]  # all that is known of it before it is judged
    statement: Statement | None = None  # None where nothing is tested
    # Why smaller batch sizes may be better than they look, and why larger ones.
    unknown: tuple[Reason, ...] = ()
    taken: bool = False

    def judged(self, found: Judged) -> dict[str, Any]:
        """Returns the row with a verdict; its reason is an open end, or a size that is left out."""
        closed = replace(found.deciding, open_low=False, open_high=False)
        outside, unknown = closed.p_against < found.level, Reason.NONE
        if found.verdict == Verdict.NOT_RESOLVED and (outside or closed.p < found.level):
            unknown = self.unknown[int(outside)]
        reason = unknown or self.row["reason"] or found.reason
        return {**self.row, **found.columns(self.taken), "reason": reason}


def table(
    runs: pandas.DataFrame,
    at_budgets: Iterable[Reading],
    claims: Mapping[str, Outcome],
    looks: Sequence[int] = (),
) -> pandas.DataFrame:
    """Returns one row per series, budget and outcome of an experiment, all of them one family.

    Args:
        at_budgets: Every outcome of every series where a budget is held equal.
        claims: Column -> what the study states about it, in place of what is asked of every study.
        looks: Numbers of seeds at which one looks.
    """
    larger = (_stated(each, RISES if each.rises else FALLS) for each in at_budgets)
    stated = [*filter(None, (*_at_end(runs, claims, looks), *larger))]
    judged = iter(contrasts.judge([each.statement for each in stated if each.statement]))
    rows = [each.judged(next(judged)) if each.statement else each.row for each in stated]
    return run_series.table(rows, TRENDS, run_series.factor_columns(runs))


def _at_end(
    runs: pandas.DataFrame, claims: Mapping[str, Outcome], looks: Sequence[int]
) -> Iterator[_TrendRow | None]:
    if trainings.at_own_ends(runs):  # compared at an equal budget alone
        return
    known = [name for name in runs if runs[name].notna().any()]
    asked = filter(None, (claims.get(name) or outcomes.outcome(name) for name in known))
    for outcome, group in itertools.product(asked, run_series.series(runs)):
        rows, column = group.frame, outcome.column
        ended = run_series.finished(rows)
        ran_out = column in UNTIL_STOPPED and len(ended) > 0
        ran_out = ran_out and bool((ended["epochs_run"] == ended["epochs"]).all())
        chosen = ran_out and not run_series.unstopped(rows).any()
        if column == "epochs_run" and chosen:
            continue  # the horizon, not an outcome
        reading = readings.of_column(rows, column, looks)
        yield _stated(reading, outcome.direction, ran_out and not chosen)


def _stated(reading: Reading, direction: str, bounds: bool = False) -> _TrendRow | None:
    """Return the trend that is stated of a reading; None without any value.

    All values may be lower `bounds`, as nothing stopped any run.
    """
    values = _scaled(reading)
    failed = np.isinf(values).any(axis=1)
    kept = np.flatnonzero(np.isfinite(values).any(axis=1) & ~failed)
    if not len(kept):
        return None
    left_out = _left_out(reading, values, kept)
    untestable = Reason.NONE if len(kept) > 1 else left_out or Reason.ALONE
    untestable = Reason.LOWER_BOUND if bounds else untestable
    paired = np.isfinite(values[kept]).all(axis=0)
    runs, means = reading.trainings.runs, reading.means(paired if paired.any() else slice(None))
    row = {
        **run_series.constants(runs),
        **reading.held_equal,
        "direction": direction,
        "seeds": int(reading.ran.any(axis=0).sum()),
        "n": int(paired.sum()),
        "verdict": Verdict.NOT_TESTABLE,
        "reason": untestable or left_out,
    }
    for name, at in (("smallest", kept[0]), ("largest", kept[-1])):
        row[name] = reading.batch_sizes[at]
        row |= intervals.columns(f"{name}_mean", means[at][:3])
    if untestable:
        return _TrendRow(row)
    positions = np.log2(np.array(reading.batch_sizes, float)[kept])
    centred = positions - positions.mean()
    ends = ((kept[0], centred < 0), (kept[-1], centred > 0))
    unknown = tuple(_unknown(reading, end, kept[beyond]) for end, beyond in ends)
    up, down = map(bool, unknown[::-1] if reading.rises else unknown)
    every, rises = (*reading.earlier, reading), direction == RISES
    looks = [
        contrasts.trend(
            _scaled(each)[kept].T, positions, rises, bool(each.chosen.tuned[kept].any()), up, down
        )
        for each in every
    ]
    statement = contrasts.staged(looks, [each.share for each in every])
    return _TrendRow(row, statement, unknown, reading.taken)


def _scaled(reading: Reading) -> np.ndarray:
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.log(reading.values) if reading.taken else reading.values


def _unknown(reading: Reading, end: int, sizes: np.ndarray) -> Reason:
    if reading.chosen.on_edge[end]:
        return Reason.RATE_ON_EDGE
    return Reason.AT_FIRST_EVALUATION if reading.at_first[sizes].any() else Reason.NONE


def _left_out(reading: Reading, values: np.ndarray, kept: np.ndarray) -> Reason:
    """Returns why the smallest or the largest batch size is left out, where one is."""
    for at in {0, len(values) - 1} - {*kept.tolist()}:
        if np.isinf(reading.values[at]).any():
            return Reason.NOT_REACHED if reading.not_reached[at] else Reason.FAILED
        if np.isinf(values[at]).any():
            return Reason.NOT_POSITIVE
        return Reason.NO_BUDGET if reading.ended[at] else Reason.NO_VALUE
    return Reason.NONE
