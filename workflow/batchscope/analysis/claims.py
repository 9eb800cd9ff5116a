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

Cell = dict[str, Any]  # factor or key -> its value, or [of, to] of what is compared
Parts = Iterator[Statement | Contrast]  # which must all hold
_NONE = "_all"  # the column of a table without a factor along it


def table(
    claims: Iterable[Claim],
    read: Callable[[str, str], pandas.DataFrame],
    machine: str,
    planned: Mapping[str, Sequence[int]],
) -> pandas.DataFrame:
    """Return one row per claim, in order; see `CLAIMS`.

    Args:
        read: (experiment, table) -> its rows.
        machine: This machine, on which claims are tested that name none.
        planned: Experiment -> numbers of replicates at its interim analyses, if it has any.
    """
    rows = [_row(claim, read, machine, planned.get(claim.test.experiment, ())) for claim in claims]
    judged = verdicts.judge(rows, "document")
    for row in judged:
        if "deciding" in row:
            row["replicates"] = row["counts"][-1 - row["later_analyses"]]
            row["part"] = _text(dict(row["deciding"].cells))
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
    reason, of = _missing(claim, frame, rows, statement)
    about, by = tables.column(test.table, test.column), _replicate(rows, test)
    replicates = rows[by].nunique() if by else min(1, len(rows))
    unit = about.unit if about else ""
    if unit.startswith(tasks.NATS):
        unit = tasks.unit(unit, tasks.of_columns(read(test.experiment, "history")))
    per = "doubling" if _doublings(rows, test) else "unit"
    sides = [{test.over: test.chosen}] if test.chosen else test.sides
    low, high = (end if math.isfinite(end) else math.nan for end in test.bounds)
    return {
        **{name: getattr(claim, name) for name in ("id", "document", "place", "sentence")},
        **{name: getattr(test, name) for name in ("type", "experiment", "table", "column", "over")},
        "scale": RATIO if test.ratio else DIFFERENCE,
        "per": per if test.type in ("trend", "interaction") else "",
        "unit": unit,
        "low_bound": low,
        "high_bound": high,
        "cells": _text(_short(test.cells)),
        "sides": _text([*map(_short, sides)]),
        "replicates": replicates,
        "counts": [count for count, _ in stages.seen(replicates, planned)],
        "verdict": Verdict.NOT_TESTABLE,
        "reason": reason,
        "reason_of": _text(of),
        "figure": claim.figure,
        "statement": None if reason else statement,
    }


def _missing(
    claim: Claim, frame: pandas.DataFrame, rows: pandas.DataFrame, statement: Statement
) -> tuple[Reason, dict[str, Any]]:
    """Returns why a claim cannot be tested, and the cells that are missing; else nothing."""
    test = claim.test
    absent = _absent(frame, test)
    lacking = Reason.NONE if absent else _lacking(rows, test)
    of_budget = (lacking, test.budget if lacking == Reason.NO_BUDGET else {})
    if statement.n and not absent:
        return of_budget
    if claim.requires == MACHINE:
        return Reason.NO_MACHINE, {}
    statuses = {*rows["status"]} if "status" in rows else set()
    if claim.requires == GPU or requirements.NO_GPU in statuses:
        several = any("replicas" in cells for cells in test.selections())
        return Reason.FEW_GPUS if several else Reason.NO_GPU, {}
    if requirements.NO_CORES in statuses:
        return Reason.NO_CORES, {}
    if requirements.NOT_INSTALLED in statuses:
        return Reason.NOT_INSTALLED, _only_among(
            frame, frame["status"] == requirements.NOT_INSTALLED
        )
    if frame.empty:
        return Reason.NO_RESULTS, {}
    if absent or not statement.contrasts:
        return Reason.NOT_IN_GRID, absent
    if lacking:
        return of_budget
    return Reason.NO_VALUE, next(dict(each.cells) for each in statement.contrasts if not each.n)


def _only_among(frame: pandas.DataFrame, chosen: pandas.Series) -> dict[str, list[Any]]:
    """Return factor -> values that no other row than the chosen ones has."""
    found = {}
    for name in run_series.varying(frame):
        others = {*frame.loc[~chosen, name]}
        found[name] = [value for value in frame.loc[chosen, name].unique() if value not in others]
    return {name: values for name, values in found.items() if values}


def _absent(frame: pandas.DataFrame, test: Test) -> dict[str, Any]:
    """Returns the first named cell that no row has; empty where all are there.

    A budget names no cell: it is read within a run.
    """
    for cells in test.selections():
        named = {name: values for name, values in cells.items() if name not in test.budget}
        for name, values in named.items():
            for value in values:
                if _selected(frame, {**named, name: (value,)}).empty:
                    return {name: value}
    return {}


def _lacking(rows: pandas.DataFrame, test: Test) -> Reason:
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


def _short(cells: dict[str, tuple[Any, ...]]) -> dict[str, Any]:
    return {name: each[0] if len(each) == 1 else [*each] for name, each in cells.items()}


def _text(cells: Any) -> str:
    return json.dumps(cells, ensure_ascii=False, default=lambda one: one.item()) if cells else ""


def _selected(frame: pandas.DataFrame, cells: Mapping[str, tuple[Any, ...]]) -> pandas.DataFrame:
    """Returns the rows that have one of the values of every factor or key."""
    for name, values in cells.items():
        if name not in frame.columns:
            return frame.iloc[:0]
        frame = frame[frame[name].isin(values)]
    return frame


def _rows(frame: pandas.DataFrame, test: Test) -> pandas.DataFrame:
    """Return the rows that a test reads; the column is NaN if a run has no value.

    Trajectories have a row per run, at the budget in the cells.
    """
    if frame.empty or test.column not in frame:
        return frame.iloc[:0]
    for budget, value in test.budget.items():
        frame = _at_budget(frame, budget, value, test.column)
    every = [_selected(frame, cells).index for cells in test.selections()]
    found = frame[frame.index.isin(np.concatenate(every))]
    if "status" not in found:
        return found
    values = found[test.column].where(found["status"] == records.FINISHED)
    return found.assign(**{test.column: values})


def _at_budget(frame: pandas.DataFrame, budget: str, value: float, column: str) -> pandas.DataFrame:
    """Returns one row per machine and run: a column at a budget."""
    found = []
    for _, run in frame.groupby(["machine", "run"], sort=False):
        at = targets.at_budget(run[budget], run[column], value, tasks.logarithmic(column))
        found.append({**run.iloc[0].to_dict(), budget: value, column: at})
    return pandas.DataFrame(found).drop(columns=[*({*tables.BUDGETS} - {budget, column})])


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
        return Statement(())
    if test.ratio:
        values = rows[test.column].astype(float)
        rows = rows.assign(**{test.column: np.log(values.where(values > 0))})
    parts = _staged(rows, test, planned)
    if not parts:
        return Statement(())
    # If the weakest part is shown, so is every other one; one that fails shows the contrary.
    weakest = max(range(len(parts)), key=lambda at: parts[at].p[0])
    starts = np.cumsum([0, *(len(part.contrasts) for part in parts)]).tolist()
    groups = [
        [tuple(tuple(start + at for at in group) for group in groups) for groups in part.groups]
        for part, start in zip(parts, starts, strict=False)
    ]
    return Statement(
        tuple(itertools.chain(*(part.contrasts for part in parts))),
        supported_by=groups[weakest][0],
        contradicted_by=tuple(itertools.chain(*(against for _, against in groups))),
        steps=tuple(itertools.chain(*(part.steps for part in parts))),
        ratio=test.ratio,
    )


def _staged(rows: pandas.DataFrame, test: Test, planned: Sequence[int]) -> list[Statement]:
    """Return the parts of a claim, each tested by the first replicates of every analysis."""
    by = _replicate(rows, test)
    replicates = np.unique(rows[by]) if by else np.zeros(1)
    analyses = [
        (_parts(rows[rows[by].isin(replicates[:count])] if by else rows, test), share)
        for count, share in stages.seen(len(replicates), planned)
    ]
    last = analyses[-1][0]
    alike = [(parts, share) for parts, share in analyses if len(parts) == len(last)]
    shares = [share for _, share in alike]
    return [verdicts.staged([parts[at] for parts, _ in alike], shares) for at in range(len(last))]


def _parts(rows: pandas.DataFrame, test: Test) -> list[Statement]:
    found = itertools.chain(*(_OF_TYPE[test.type](each) for each in _series(rows, test)))
    return [Statement((each,)) if isinstance(each, Contrast) else each for each in found]


@dataclass(frozen=True)
class _TestSeries:
    """The numbers of one series: a table of replicates x values of `test.over` for each side."""

    test: Test
    cells: Cell  # what distinguishes it
    doublings: bool  # whether positions are binary logarithms
    of: pandas.DataFrame
    to: pandas.DataFrame | None = None  # the other side, where two are compared

    def contrast(self, values: Any, at: Any = None) -> Contrast:
        """Returns a contrast with the bounds of the test, of a ratio their logarithms."""
        low, high = self.test.bounds
        if self.test.ratio:
            low, high = (math.log(low) if low > 0 else -math.inf), math.log(high)
        along = {} if at is None or self.of.columns.name == _NONE else {self.of.columns.name: at}
        return Contrast(np.asarray(values, float), low, high, cells={**self.cells, **along})

    def positions(self, at: Sequence[Any]) -> np.ndarray:
        return np.log2(np.asarray(at, float)) if self.doublings else np.asarray(at, float)


def _series(frame: pandas.DataFrame, test: Test) -> Iterator[_TestSeries]:
    """Yields every series of the rows; where sides are compared, of each cell of one with each.

    A series are the rows that neither the sides nor the test distinguish.
    """
    per = _doublings(frame, test)
    for pair in test.compared:
        over = [test.over] if test.over not in pair[0] else []
        for sides in itertools.product(*map(_each, pair)):
            named = {name: [side[name][0] for side in sides] for name in pair[0]}
            both = pandas.concat([_selected(frame, side) for side in sides])
            for cells, group in _groups(both, test, {test.over, *named}):
                rows = [_selected(group, side) for side in sides]
                if not any(each.empty for each in rows):
                    tables = (_table(each, test, over) for each in rows)
                    yield _TestSeries(test, {**cells, **named}, per, *tables)


def _each(cells: Mapping[str, tuple[Any, ...]]) -> list[dict[str, Any]]:
    """Returns the cells with one value of everything."""
    return [
        {name: (value,) for name, value in zip(cells, values, strict=True)}
        for values in itertools.product(*cells.values())
    ]


def _groups(
    frame: pandas.DataFrame, test: Test, named: set[str]
) -> Iterator[tuple[Cell, pandas.DataFrame]]:
    """Yields the rows that share all that is not named, with what distinguishes them."""
    keys = [name for name in tables.CLAIMED[test.table].keys if name != test.column]
    # With another factor than the batch size in its place, each batch size is a series.
    names = [*run_series.series_factors(frame), "batch_size", *keys]
    split = [
        name
        for name in dict.fromkeys(names)
        if name in frame and name not in named and frame[name].nunique(dropna=False) > 1
    ]
    groups = frame.groupby(split, sort=False, dropna=False) if split else [((), frame)]
    for values, group in groups:
        yield dict(zip(split, values, strict=True)), group


def _table(frame: pandas.DataFrame, test: Test, over: list[str]) -> pandas.DataFrame:
    """Return a column by replicate and cell; several values of a run in one cell are averaged."""
    by = _replicate(frame, test)
    cells = [name for name in over if name in frame] or [_NONE]
    frame = frame.assign(
        _replicate=frame[by] if by else 0, _value=frame[test.column].astype(float), **{_NONE: 0}
    )
    # Cells without a value stay, so that missing values are seen.
    found = frame.groupby(["_replicate", *cells], dropna=False)["_value"].mean().unstack(cells)
    return found[sorted(found.columns)]


def _trend(series: _TestSeries) -> Parts:
    sizes = series.of.columns
    if len(sizes) > 1:
        rises = series.test.direction == RISES
        values, at = series.of.to_numpy(), series.positions(sizes)
        yield verdicts.trend(values, at, rises, cells=series.cells)


def _equivalence(series: _TestSeries) -> Parts:
    for to, of in itertools.combinations(series.of.columns, 2):
        yield series.contrast(series.of[of] - series.of[to], [of, to])


def _value(series: _TestSeries) -> Parts:
    for at in series.of.columns:
        yield series.contrast(series.of[at], at)


def _difference(series: _TestSeries) -> Parts:
    for at in series.of.columns.intersection(series.to.columns):
        yield series.contrast(series.of[at] - series.to[at], at)


def _interaction(series: _TestSeries) -> Parts:
    at = sorted(series.of.columns.intersection(series.to.columns))
    if len(at) > 1:
        difference = (series.of[at] - series.to[at]).dropna().to_numpy()
        yield series.contrast(verdicts.slopes(difference, series.positions(at)))


def _argmax(series: _TestSeries) -> Parts:
    """One of the chosen values is better than all others; wrong if another one beats them all."""
    complete, sizes, test = series.of.dropna(), series.of.columns, series.test
    chosen = [at for at in sizes if at in test.chosen]
    others = [at for at in sizes if at not in test.chosen]
    pairs = [
        series.contrast(complete[of] - complete[to], [of, to])
        for of, to in itertools.product(chosen, others)
    ]
    if pairs:
        at = np.arange(len(pairs)).reshape(len(chosen), -1)
        rivals, against = (tuple(map(tuple, each.tolist())) for each in (at, at.T))
        yield Statement(tuple(pairs), rivals, against)


def _exception(series: _TestSeries) -> Parts:
    """A size lies off the straight line between its neighbours, both axes logarithmic."""
    table, at = series.of, [*series.of.columns]
    for left, here, right in zip(at, at[1:], at[2:], strict=False):
        if here in series.test.chosen and left > 0:
            share = math.log(here / left) / math.log(right / left)
            line = (1 - share) * table[left] + share * table[right]
            yield series.contrast(table[here] - line, here)


_OF_TYPE: dict[str, Callable[[_TestSeries], Parts]] = {
    "trend": _trend,
    "equivalence": _equivalence,
    "value": _value,
    "comparison": _difference,
    "interaction": _interaction,
    "argmax": _argmax,
    "order": _difference,
    "exception": _exception,
}
