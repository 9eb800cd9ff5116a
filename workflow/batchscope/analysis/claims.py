"""Claims and tables of experiments in, claims.csv out: a verdict on each sentence of a document.

A claim must hold for every series of the rows that it selects. A claim about single cells must hold
for each cell. A ratio is a statement about logarithms. The claims of one document in one study are
a family of statements (see `verdicts`). A new column goes into `_claim_row` and
`decision_columns.CLAIMS`, a new reason into `_reason_untestable`, and a new type of test into
`_STATEMENTS` and `study.claims.AnyTest`.
"""

import itertools
import json
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas

from batchscope.analysis import run_series, targets, verdicts
from batchscope.analysis.contrasts import Contrast
from batchscope.analysis.verdicts import Row, Statement
from batchscope.host import requirements
from batchscope.store import records
from batchscope.study import specifications, stages, table_entries, tasks
from batchscope.study.claims import DIFFERENCE, GPU, MACHINE, RATIO, Claim, Test
from batchscope.study.decision_columns import CLAIMS
from batchscope.study.outcomes import RISES, Reason, Verdict

Cells = Mapping[str, tuple[Any, ...]]  # factor or key -> selected values
_ALL = "_all"  # column with a single value, for tests that are not over a factor


def table(
    claims: Iterable[Claim],
    read: Callable[[str, str], pandas.DataFrame],
    machine: str,
    analyses: Mapping[str, Sequence[int]],
) -> pandas.DataFrame:
    """Return one row per claim, in order (see `CLAIMS`).

    Args:
        read: (experiment, table) -> its rows.
        machine: This machine. Claims that name no machine are tested on its rows.
        analyses: Experiment -> numbers of replicates at its interim analyses, if it has any.
    """
    rows = [_claim_row(claim, read, machine, analyses) for claim in claims]
    judged = verdicts.judge(rows, "document")
    for row in judged:
        if "deciding" in row:  # `judge` adds `deciding` and `later_analyses` to a tested row
            row["replicates"] = row["counts"][-1 - row["later_analyses"]]
            row["part"] = _json(dict(row["deciding"].cells))
            row["parts"] = len(row["statement"].contrasts)
    return run_series.table(judged, CLAIMS)


def _claim_row(
    claim: Claim,
    read: Callable[[str, str], pandas.DataFrame],
    machine: str,
    analyses: Mapping[str, Sequence[int]],
) -> Row:
    """Return the row of a claim, with its statement if it can be tested."""
    test = claim.test
    frame = read(test.experiment, test.table)
    if "machine" in frame and not any("machine" in cells for cells in test.selections()):
        frame = frame[frame["machine"] == machine]
    rows = _tested_rows(frame, test)
    counts, replicates = analyses.get(test.experiment, ()), rows["_replicate"].nunique()
    statement = _statement(rows, test, counts)
    reason, missing_cells = _reason_untestable(claim, frame, rows, statement)
    column = table_entries.describe(test.column, table=test.table)
    unit = column.unit if column else ""
    if unit.startswith(tasks.NATS):
        unit = tasks.unit_for_tasks(unit, tasks.from_columns(read(test.experiment, "history")))
    per = "doubling" if _has_doublings(rows, test) else "unit"
    sides = [{test.over: test.chosen}] if test.chosen else test.sides
    low, high = (end if math.isfinite(end) else math.nan for end in test.bounds)
    claim_columns = ("id", "document", "place", "sentence", "figure")
    return {
        **{name: getattr(claim, name) for name in claim_columns},
        **{name: getattr(test, name) for name in ("type", "experiment", "table", "column", "over")},
        "scale": RATIO if test.ratio else DIFFERENCE,
        "per": per if test.type in ("trend", "interaction") else "",
        "unit": unit,
        "low_bound": low,
        "high_bound": high,
        "cells": _json(_single_values(test.cells)),
        "sides": _json([*map(_single_values, sides)]),
        "replicates": replicates,
        "counts": [count for count, _ in stages.analyses_so_far(replicates, counts)],
        "verdict": Verdict.NOT_TESTABLE,
        "reason": reason,
        "reason_of": _json(missing_cells),
        "statement": None if reason else statement,
    }


def _reason_untestable(
    claim: Claim, frame: pandas.DataFrame, rows: pandas.DataFrame, statement: Statement
) -> tuple[Reason, dict[str, Any]]:
    """Return the first reason why a claim cannot be tested, with the missing cells, if any."""
    test = claim.test
    absent_cell = _first_absent_cell(frame, test)
    reason = Reason.NONE if absent_cell else _reason_values_unusable(rows, test)
    unusable = reason, (test.budget if reason == Reason.NO_BUDGET else {})
    if statement.n and not absent_cell:
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
        missing = frame["status"] == requirements.NOT_INSTALLED
        return Reason.NOT_INSTALLED, _values_only_in(frame, missing)
    if frame.empty:
        return Reason.NO_RESULTS, {}
    if absent_cell or not statement.contrasts:
        return Reason.NOT_IN_GRID, absent_cell
    if reason:
        return unusable
    empty = next(contrast for contrast in statement.contrasts if not contrast.n)
    return Reason.NO_VALUE, dict(empty.cells)


def _values_only_in(frame: pandas.DataFrame, selected: pandas.Series) -> dict[str, list[Any]]:
    """Return factor -> its values that occur in the selected rows only."""
    by_factor = {
        name: frame.loc[selected & ~frame[name].isin(frame.loc[~selected, name]), name].unique()
        for name in run_series.varying_factors(frame)
    }
    return {name: [*values] for name, values in by_factor.items() if len(values)}


def _first_absent_cell(frame: pandas.DataFrame, test: Test) -> dict[str, Any]:
    """Return the first stated factor value that no row has; empty if every value has rows.

    A budget is no factor: it is read within a run.
    """
    for selection in test.selections():
        cells = {name: values for name, values in selection.items() if name not in test.budget}
        for name, values in cells.items():
            for value in values:
                if _selected(frame, {**cells, name: (value,)}).empty:
                    return {name: value}
    return {}


def _reason_values_unusable(rows: pandas.DataFrame, test: Test) -> Reason:
    """Return the reason why a test may not use the values of its rows; `Reason.NONE` if it may.

    The end before a budget, or a value without a logarithm, depends on the measured value: the
    remaining seeds would be a biased choice.
    """
    if test.column not in rows:
        return Reason.NONE
    rows = run_series.finished_runs(rows) if "status" in rows else rows
    values = rows[test.column].astype(float)
    if test.budget and values.isna().any():
        return Reason.NO_BUDGET
    return Reason.NOT_POSITIVE if test.ratio and (values <= 0).any() else Reason.NONE


def _single_values(cells: Cells) -> dict[str, Any]:
    return {name: values[0] if len(values) == 1 else [*values] for name, values in cells.items()}


def _json(cells: Any) -> str:
    text = json.dumps(cells, ensure_ascii=False, default=lambda value: value.item())
    return text if cells else ""


def _selected(frame: pandas.DataFrame, cells: Cells) -> pandas.DataFrame:
    for name, values in cells.items():
        frame = frame[frame[name].isin(values)] if name in frame else frame.iloc[:0]
    return frame


def _tested_rows(frame: pandas.DataFrame, test: Test) -> pandas.DataFrame:
    """Return the rows that a test reads, with three further columns.

    `_value` is the tested value, or its logarithm for a ratio; NaN if a run did not finish.
    `_replicate` is its seed or timing job, and `_ALL` is constant. With a budget there is one row
    per run, with the value at the budget.
    """
    if frame.empty or test.column not in frame:
        rows, values = frame.iloc[:0], pandas.Series(dtype=float)
    else:
        for budget, value in test.budget.items():
            frame = _at_budget(frame, budget, value, test.column)
        selections = [_selected(frame, cells).index for cells in test.selections()]
        rows = frame[frame.index.isin(np.concatenate(selections))]
        values = rows[test.column].astype(float)
        if "status" in rows:
            values = values.where(rows["status"] == records.FINISHED)
    values = np.log(values.where(values > 0)) if test.ratio else values
    replicates = rows.get(specifications.REPEAT_COLUMN if test.timed else "seed", 0)
    return rows.assign(**{_ALL: 0}, _replicate=replicates, _value=values)


def _at_budget(frame: pandas.DataFrame, budget: str, value: float, column: str) -> pandas.DataFrame:
    """Return one row per machine and run, with the value of a column at a budget."""
    rows, logarithmic = [], tasks.is_logarithmic(column)
    for _, run in frame.groupby(["machine", "run"], sort=False):
        value_there = targets.value_at_budget(run[budget], run[column], value, logarithmic)
        rows.append({**run.iloc[0].to_dict(), budget: value, column: value_there})
    return pandas.DataFrame(rows).drop(columns=[*({*table_entries.BUDGETS} - {budget, column})])


def _has_doublings(rows: pandas.DataFrame, test: Test) -> bool:
    """Return whether slopes are per doubling: all values of the factor are positive."""
    if test.over not in rows:
        return True
    return not (pandas.to_numeric(rows[test.over], errors="coerce") <= 0).any()


def _statement(rows: pandas.DataFrame, test: Test, counts: Sequence[int]) -> Statement:
    """Return the statement of a test; it has no contrasts if the rows lack its cells."""
    analyses = stages.analyses_so_far(rows["_replicate"].nunique(), counts)
    statements: list[Statement] = []
    for series in _test_series(rows, test, analyses) if len(rows) else ():
        statements += _STATEMENTS[test.type](series)
    return Statement(
        tuple(part for statement in statements for part in statement.parts),
        tuple(step for statement in statements for step in statement.steps),
        ratio=test.ratio,
    )


@dataclass(frozen=True)
class _TestSeries:
    """The numbers of one series that a test compares."""

    test: Test
    cells: dict[str, Any]  # factor -> value of the series, or the pair of values of two sides
    doublings: bool  # whether positions are binary logarithms
    values: list[pandas.DataFrame]  # for each side, a table of replicates x values of `test.over`
    analyses: list[tuple[int, float]]  # replicates and share of the level at each analysis so far

    def contrast(self, numbers: pandas.Series | np.ndarray, value: Any = None) -> Contrast:
        """Return a contrast about a value of `test.over`; bounds of a ratio are logarithms."""
        low, high = self.test.bounds
        if self.test.ratio:
            low, high = (math.log(low) if low > 0 else -math.inf), math.log(high)
        name = self.values[0].columns.name
        cells = self.cells if value is None or name == _ALL else {**self.cells, name: value}
        return Contrast(numbers, low, high, cells=cells).at_analyses(self.analyses)

    def statement(self, numbers: pandas.Series | np.ndarray, value: Any = None) -> Statement:
        return Statement.all_hold([self.contrast(numbers, value)])

    def positions(self, values: Sequence[Any]) -> np.ndarray:
        return np.log2(np.asarray(values, float)) if self.doublings else np.asarray(values, float)


def _test_series(
    rows: pandas.DataFrame, test: Test, analyses: list[tuple[int, float]]
) -> Iterator[_TestSeries]:
    """Yield one series per combination of the factors that the test does not itself vary.

    If the test compares two sides, a series pairs one cell of each side.
    """
    doublings, replicates = _has_doublings(rows, test), np.unique(rows["_replicate"])
    for compared in test.compared:
        over = test.over if test.over in rows and test.over not in compared[0] else _ALL
        for sides in itertools.product(*map(_single_cells, compared)):
            pairs = {name: [side[name][0] for side in sides] for name in compared[0]}
            compared_rows = pandas.concat([_selected(rows, side) for side in sides])
            for cells, group in _rows_by_factors(compared_rows, test, {test.over, *pairs}):
                selected = [_selected(group, side) for side in sides]
                if not any(side.empty for side in selected):
                    values = [_values_by_cell(side, over, replicates) for side in selected]
                    yield _TestSeries(test, {**cells, **pairs}, doublings, values, analyses)


def _single_cells(cells: Cells) -> list[dict[str, Any]]:
    """Return every combination of the selected values, with a single value per factor."""
    return [
        {name: (value,) for name, value in zip(cells, values, strict=True)}
        for values in itertools.product(*cells.values())
    ]


def _rows_by_factors(
    frame: pandas.DataFrame, test: Test, excluded: set[str]
) -> Iterator[tuple[dict[str, Any], pandas.DataFrame]]:
    """Yield (factors, rows): the rows that share all factors except the excluded ones."""
    keys = [name for name in table_entries.CLAIMABLE_TABLES[test.table].keys if name != test.column]
    # A test over another factor has one series per batch size.
    names = dict.fromkeys([*run_series.series_factors(frame), "batch_size", *keys])
    split = run_series.varying_factors(
        frame, [name for name in names if name in frame and name not in excluded]
    )
    for values, group in frame.groupby(split, sort=False, dropna=False) if split else [((), frame)]:
        yield dict(zip(split, values, strict=True)), group


def _values_by_cell(frame: pandas.DataFrame, over: str, replicates: np.ndarray) -> pandas.DataFrame:
    """Return a table of replicates x cells; several values of a run in one cell are averaged."""
    # Cells without a value stay, so that the statement is not tested without them.
    values = frame.groupby(["_replicate", over], dropna=False)["_value"].mean().unstack(over)
    return values[sorted(values.columns)].reindex(replicates)


def _trend(series: _TestSeries) -> Iterator[Statement]:
    (values,) = series.values
    if len(values.columns) > 1:
        rises, positions = series.test.direction == RISES, series.positions(values.columns)
        yield verdicts.trend(
            verdicts.trend_contrasts(values[:count], positions, rises, share, cells=series.cells)
            for count, share in series.analyses
        )


def _equivalence(series: _TestSeries) -> Iterator[Statement]:
    (values,) = series.values
    for lower, upper in itertools.combinations(values.columns, 2):
        yield series.statement(values[upper] - values[lower], [upper, lower])


def _value(series: _TestSeries) -> Iterator[Statement]:
    for cell, values in series.values[0].items():
        yield series.statement(values, cell)


def _difference(series: _TestSeries) -> Iterator[Statement]:
    upper, lower = series.values
    for cell in upper.columns.intersection(lower.columns):
        yield series.statement(upper[cell] - lower[cell], cell)


def _interaction(series: _TestSeries) -> Iterator[Statement]:
    upper, lower = series.values
    common = sorted(upper.columns.intersection(lower.columns))
    if len(common) > 1:
        slopes = verdicts.slopes(upper[common] - lower[common], series.positions(common))
        yield series.statement(slopes)


def _argmax(series: _TestSeries) -> Iterator[Statement]:
    """State that one of the chosen values beats all others; wrong if another beats all chosen."""
    (values,), chosen = series.values, series.test.chosen
    complete = values.where(values.notna().all(axis=1))
    claimed_best = [value for value in values if value in chosen]
    others = [value for value in values if value not in chosen]
    if claimed_best and others:
        rows = []
        for best in claimed_best:
            pairs = ((complete[best] - complete[other], [best, other]) for other in others)
            rows.append(tuple(series.contrast(*pair) for pair in pairs))
        yield Statement((tuple(rows),))


def _exception(series: _TestSeries) -> Iterator[Statement]:
    """State that a size is off the line between its neighbours, both axes logarithmic."""
    (values,) = series.values
    sizes = [*values.columns]
    for left, middle, right in zip(sizes, sizes[1:], sizes[2:], strict=False):
        if middle in series.test.chosen and left > 0:
            share = math.log(middle / left) / math.log(right / left)
            line = (1 - share) * values[left] + share * values[right]
            yield series.statement(values[middle] - line, middle)


_STATEMENTS: dict[str, Callable[[_TestSeries], Iterator[Statement]]] = {
    "trend": _trend,
    "equivalence": _equivalence,
    "value": _value,
    "comparison": _difference,
    "interaction": _interaction,
    "argmax": _argmax,
    "order": _difference,
    "exception": _exception,
}
