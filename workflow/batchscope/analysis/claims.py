"""Claims: verdicts on the sentences of documents.

A claim must hold for every series of the rows that it selects and, if it is about single cells, for
each of them. A ratio is a statement about logarithms. The claims of one document in one study are a
family of statements; see `verdicts`.
"""

from __future__ import annotations

import itertools
import json
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas

from batchscope.analysis import run_series, targets, verdicts
from batchscope.analysis.verdicts import Contrast, Row, Statement
from batchscope.host import requirements
from batchscope.store import records
from batchscope.study import common_settings, stages, tables, tasks
from batchscope.study.claims import DIFFERENCE, GPU, MACHINE, RATIO, Claim, Test
from batchscope.study.decision_columns import CLAIMS
from batchscope.study.outcomes import RISES, Reason, Verdict

Cells = Mapping[str, tuple[Any, ...]]  # factor or key -> selected values
_ALL = "_all"  # column with a single value, for tests along no factor


def table(
    claims: Iterable[Claim],
    read: Callable[[str, str], pandas.DataFrame],
    machine: str,
    planned: Mapping[str, Sequence[int]],
) -> pandas.DataFrame:
    """Return one row per claim, in order; see `CLAIMS`.

    Args:
        read: (experiment, table) -> its rows.
        machine: This machine. It tests the claims that name no machine.
        planned: Experiment -> numbers of replicates at its interim analyses, if it has any.
    """
    rows = [_row(claim, read, machine, planned.get(claim.test.experiment, ())) for claim in claims]
    judged = verdicts.judge(rows, "document")
    for row in judged:
        if "deciding" in row:
            row["replicates"] = row["counts"][-1 - row["later_analyses"]]
            row["part"] = _json(dict(row["deciding"].cells))
            row["parts"] = len(row["statement"].contrasts)
    return run_series.table(judged, CLAIMS)


def _row(
    claim: Claim,
    read: Callable[[str, str], pandas.DataFrame],
    machine: str,
    planned: Sequence[int],
) -> Row:
    """Return the row of a claim, with its statement if it can be tested."""
    test = claim.test
    frame = read(test.experiment, test.table)
    if "machine" in frame and not any("machine" in cells for cells in test.selections()):
        frame = frame[frame["machine"] == machine]
    rows = _rows(frame, test)
    statement = _statement(rows, test, planned)
    reason, reason_of = _missing(claim, frame, rows, statement)
    column, by = tables.column(test.table, test.column), _replicate(rows, test)
    replicates = rows[by].nunique() if by else min(1, len(rows))
    unit = column.unit if column else ""
    if unit.startswith(tasks.NATS):
        unit = tasks.unit(unit, tasks.from_columns(read(test.experiment, "history")))
    per = "doubling" if _doublings(rows, test) else "unit"
    sides = [{test.over: test.chosen}] if test.chosen else test.sides
    low, high = (end if math.isfinite(end) else math.nan for end in test.bounds)
    return {
        **{
            name: getattr(claim, name) for name in ("id", "document", "place", "sentence", "figure")
        },
        **{name: getattr(test, name) for name in ("type", "experiment", "table", "column", "over")},
        "scale": RATIO if test.ratio else DIFFERENCE,
        "per": per if test.type in ("trend", "interaction") else "",
        "unit": unit,
        "low_bound": low,
        "high_bound": high,
        "cells": _json(_single_values(test.cells)),
        "sides": _json([*map(_single_values, sides)]),
        "replicates": replicates,
        "counts": [count for count, _ in stages.analyses_so_far(replicates, planned)],
        "verdict": Verdict.NOT_TESTABLE,
        "reason": reason,
        "reason_of": _json(reason_of),
        "statement": None if reason else statement,
    }


def _missing(
    claim: Claim, frame: pandas.DataFrame, rows: pandas.DataFrame, statement: Statement
) -> tuple[Reason, dict[str, Any]]:
    """Return the reason why a claim cannot be tested, with the cells that are missing, if any."""
    test = claim.test
    absent = _absent(frame, test)
    reason = Reason.NONE if absent else _unusable(rows, test)
    unusable = reason, (test.budget if reason == Reason.NO_BUDGET else {})
    if statement.n and not absent:
        return unusable
    if claim.requires == MACHINE:
        return Reason.NO_MACHINE, {}
    statuses = {*rows["status"]} if "status" in rows else set()
    if claim.requires == GPU or requirements.NO_GPU in statuses:
        replicas = any("replicas" in cells for cells in test.selections())
        return Reason.FEW_GPUS if replicas else Reason.NO_GPU, {}
    if requirements.NO_CORES in statuses:
        return Reason.NO_CORES, {}
    if requirements.NOT_INSTALLED in statuses:
        return Reason.NOT_INSTALLED, _only_in(frame, frame["status"] == requirements.NOT_INSTALLED)
    if frame.empty:
        return Reason.NO_RESULTS, {}
    if absent or not statement.contrasts:
        return Reason.NOT_IN_GRID, absent
    if reason:
        return unusable
    return Reason.NO_VALUE, next(dict(part.cells) for part in statement.contrasts if not part.n)


def _only_in(frame: pandas.DataFrame, selected: pandas.Series) -> dict[str, list[Any]]:
    """Return factor -> values that only the selected rows have."""
    by_factor = {
        name: frame.loc[selected & ~frame[name].isin(frame.loc[~selected, name]), name].unique()
        for name in run_series.varying(frame)
    }
    return {name: [*values] for name, values in by_factor.items() if len(values)}


def _absent(frame: pandas.DataFrame, test: Test) -> dict[str, Any]:
    """Return the first named cell that no row has; empty if there are rows of all.

    A budget names no cell: it is read within a run.
    """
    for selection in test.selections():
        cells = {name: values for name, values in selection.items() if name not in test.budget}
        for name, values in cells.items():
            for value in values:
                if _selected(frame, {**cells, name: (value,)}).empty:
                    return {name: value}
    return {}


def _unusable(rows: pandas.DataFrame, test: Test) -> Reason:
    """Return the reason why the remaining replicates decide nothing.

    A training that failed leaves its seed out. But the end before a budget, or a value without a
    logarithm, depends on the measured value: the remaining seeds would be a biased choice.
    """
    if test.column not in rows:
        return Reason.NONE
    values = (run_series.finished(rows) if "status" in rows else rows)[test.column].astype(float)
    if test.budget and values.isna().any():
        return Reason.NO_BUDGET
    return Reason.NOT_POSITIVE if test.ratio and (values <= 0).any() else Reason.NONE


def _single_values(cells: Cells) -> dict[str, Any]:
    return {name: values[0] if len(values) == 1 else [*values] for name, values in cells.items()}


def _json(cells: Any) -> str:
    return (
        json.dumps(cells, ensure_ascii=False, default=lambda value: value.item()) if cells else ""
    )


def _selected(frame: pandas.DataFrame, cells: Cells) -> pandas.DataFrame:
    for name, values in cells.items():
        frame = frame[frame[name].isin(values)] if name in frame else frame.iloc[:0]
    return frame


def _rows(frame: pandas.DataFrame, test: Test) -> pandas.DataFrame:
    """Return the rows that a test reads; the column is NaN if a run has no value.

    Trajectories have a row per run, at the budget in the cells.
    """
    if frame.empty or test.column not in frame:
        return frame.iloc[:0]
    for budget, value in test.budget.items():
        frame = _at_budget(frame, budget, value, test.column)
    selections = [_selected(frame, cells).index for cells in test.selections()]
    rows = frame[frame.index.isin(np.concatenate(selections))]
    if "status" not in rows:
        return rows
    values = rows[test.column].where(rows["status"] == records.FINISHED)
    return rows.assign(**{test.column: values})


def _at_budget(frame: pandas.DataFrame, budget: str, value: float, column: str) -> pandas.DataFrame:
    """Return one row per machine and run: a column at a budget."""
    rows = []
    for _, run in frame.groupby(["machine", "run"], sort=False):
        at = targets.at_budget(run[budget], run[column], value, tasks.logarithmic(column))
        rows.append({**run.iloc[0].to_dict(), budget: value, column: at})
    return pandas.DataFrame(rows).drop(columns=[*({*tables.BUDGETS} - {budget, column})])


def _replicate(frame: pandas.DataFrame, test: Test) -> str:
    """Return the column that distinguishes replicates of a row; empty without one."""
    name = common_settings.REPEAT if test.timed else "seed"
    return name if name in frame else ""


def _doublings(rows: pandas.DataFrame, test: Test) -> bool:
    """Return whether slopes are per doubling, which needs positive values."""
    if test.over not in rows:
        return True
    return not (pandas.to_numeric(rows[test.over], errors="coerce") <= 0).any()


def _statement(rows: pandas.DataFrame, test: Test, planned: Sequence[int]) -> Statement:
    """Return the statement of a test about its rows; without contrasts if these lack its cells."""
    if rows.empty:
        return Statement.of_all(())
    by, values = _replicate(rows, test), rows[test.column].astype(float)
    rows = rows.copy().assign(
        **{_ALL: 0},
        _replicate=rows[by] if by else 0,
        _value=np.log(values.where(values > 0)) if test.ratio else values,
    )
    statements = [part for series in _series(rows, test) for part in _PARTS[test.type](series)]
    statement = Statement(
        tuple(part for statement in statements for part in statement.parts),
        tuple(step for statement in statements for step in statement.steps),
        ratio=test.ratio,
    )
    return verdicts.at_analyses(rows["_replicate"].nunique(), planned, statement.first)


@dataclass(frozen=True)
class _TestSeries:
    """The numbers of one series.

    Attributes:
        cells: Values that distinguish it; pairs of values if two sides are compared.
        doublings: Whether positions are binary logarithms.
        values: Replicates x values of `test.over`, for each of the compared sides.
    """

    test: Test
    cells: dict[str, Any]
    doublings: bool
    values: list[pandas.DataFrame]

    def contrast(self, numbers: pandas.Series | np.ndarray, at: Any = None) -> Contrast:
        """Return a contrast with the bounds of the test; for a ratio, their logarithms."""
        low, high = self.test.bounds
        if self.test.ratio:
            low, high = (math.log(low) if low > 0 else -math.inf), math.log(high)
        name = self.values[0].columns.name
        along = {} if at is None or name == _ALL else {name: at}
        return Contrast(numbers, low, high, cells={**self.cells, **along})

    def part(self, numbers: pandas.Series | np.ndarray, at: Any = None) -> Statement:
        return Statement.of_all([self.contrast(numbers, at)])

    def positions(self, at: Sequence[Any]) -> np.ndarray:
        return np.log2(np.asarray(at, float)) if self.doublings else np.asarray(at, float)


def _series(rows: pandas.DataFrame, test: Test) -> Iterator[_TestSeries]:
    """Yield every series of the rows; if sides are compared, of each cell of one with each.

    A series are the rows that neither the sides nor the test distinguish.
    """
    doublings, replicates = _doublings(rows, test), np.unique(rows["_replicate"])
    for compared in test.compared:
        over = test.over if test.over in rows and test.over not in compared[0] else _ALL
        for sides in itertools.product(*map(_single_cells, compared)):
            pairs = {name: [side[name][0] for side in sides] for name in compared[0]}
            compared_rows = pandas.concat([_selected(rows, side) for side in sides])
            for cells, group in _groups(compared_rows, test, {test.over, *pairs}):
                selected = [_selected(group, side) for side in sides]
                if not any(side.empty for side in selected):
                    values = [_table(side, over, replicates) for side in selected]
                    yield _TestSeries(test, {**cells, **pairs}, doublings, values)


def _single_cells(cells: Cells) -> list[dict[str, Any]]:
    """Return the cells with a single value of every factor."""
    return [
        {name: (value,) for name, value in zip(cells, values, strict=True)}
        for values in itertools.product(*cells.values())
    ]


def _groups(
    frame: pandas.DataFrame, test: Test, excluded: set[str]
) -> Iterator[tuple[dict[str, Any], pandas.DataFrame]]:
    """Yield the rows that share all factors but the excluded ones, with the factors that vary."""
    keys = [name for name in tables.CLAIMED[test.table].keys if name != test.column]
    # If another factor takes its place, each batch size is a series.
    names = dict.fromkeys([*run_series.series_factors(frame), "batch_size", *keys])
    split = run_series.varying(
        frame, [name for name in names if name in frame and name not in excluded]
    )
    for values, group in frame.groupby(split, sort=False, dropna=False) if split else [((), frame)]:
        yield dict(zip(split, values, strict=True)), group


def _table(frame: pandas.DataFrame, over: str, replicates: np.ndarray) -> pandas.DataFrame:
    """Return a column by replicate and cell; several values of a run in one cell are averaged."""
    # Cells without a value stay, so that missing values are seen.
    values = frame.groupby(["_replicate", over], dropna=False)["_value"].mean().unstack(over)
    return values[sorted(values.columns)].reindex(replicates)


def _trend(series: _TestSeries) -> Iterator[Statement]:
    (values,) = series.values
    if len(values.columns) > 1:
        rises, positions = series.test.direction == RISES, series.positions(values.columns)
        yield verdicts.trend(values, positions, rises, cells=series.cells)


def _equivalence(series: _TestSeries) -> Iterator[Statement]:
    (values,) = series.values
    for lower, upper in itertools.combinations(values.columns, 2):
        yield series.part(values[upper] - values[lower], [upper, lower])


def _value(series: _TestSeries) -> Iterator[Statement]:
    for at, values in series.values[0].items():
        yield series.part(values, at)


def _difference(series: _TestSeries) -> Iterator[Statement]:
    upper, lower = series.values
    for at in upper.columns.intersection(lower.columns):
        yield series.part(upper[at] - lower[at], at)


def _interaction(series: _TestSeries) -> Iterator[Statement]:
    upper, lower = series.values
    at = sorted(upper.columns.intersection(lower.columns))
    if len(at) > 1:
        yield series.part(verdicts.slopes(upper[at] - lower[at], series.positions(at)))


def _argmax(series: _TestSeries) -> Iterator[Statement]:
    """One of the chosen values is better than all others; wrong if another one beats them all."""
    (values,), chosen = series.values, series.test.chosen
    complete = values.where(values.notna().all(axis=1))
    rivals = [at for at in values if at in chosen]
    losers = [at for at in values if at not in chosen]
    if rivals and losers:
        rows = (
            tuple(series.contrast(complete[best] - complete[at], [best, at]) for at in losers)
            for best in rivals
        )
        yield Statement((tuple(rows),))


def _exception(series: _TestSeries) -> Iterator[Statement]:
    """A size is off the straight line between its neighbours, both axes logarithmic."""
    (values,) = series.values
    at = [*values.columns]
    for left, middle, right in zip(at, at[1:], at[2:], strict=False):
        if middle in series.test.chosen and left > 0:
            share = math.log(middle / left) / math.log(right / left)
            line = (1 - share) * values[left] + share * values[right]
            yield series.part(values[middle] - line, middle)


_PARTS: dict[str, Callable[[_TestSeries], Iterator[Statement]]] = {
    "trend": _trend,
    "equivalence": _equivalence,
    "value": _value,
    "comparison": _difference,
    "interaction": _interaction,
    "argmax": _argmax,
    "order": _difference,
    "exception": _exception,
}
