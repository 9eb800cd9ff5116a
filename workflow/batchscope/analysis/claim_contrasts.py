"""From a tidy table to the contrasts of a claim: numbers by replicate and cell.

A claim holds of every series of the rows that it selects and, where it is of single cells, of each
of them. A ratio is stated of logarithms.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import pandas

from batchscope.analysis import contrasts, run_series, trajectories
from batchscope.analysis.contrasts import Contrast, Groups, Statement
from batchscope.catalogue import claim_tables, tables
from batchscope.catalogue.outcomes import RISES, Reason
from batchscope.store import records
from batchscope.study.claims import Cells, Test

Cell = dict[str, Any]  # factor or key -> its value, or [of, to] of what is compared
Parts = Iterator[Statement]  # which must all hold
_NONE = "_all"  # the column of a table without a factor along it


def selected(frame: pandas.DataFrame, cells: Cells) -> pandas.DataFrame:
    """Returns the rows that have one of the values of every factor or key."""
    for name, values in cells.items():
        if name not in frame.columns:
            return frame.iloc[:0]
        frame = frame[frame[name].isin(values)]
    return frame


def absent(frame: pandas.DataFrame, test: Test) -> Cell:
    """Returns the first named cell that no row has; empty where all are there.

    A budget names no cell: it is read within a run.
    """
    for cells in test.selections():
        named = {name: values for name, values in cells.items() if name not in test.budget}
        for name, values in named.items():
            for value in values:
                if selected(frame, {**named, name: (value,)}).empty:
                    return {name: value}
    return {}


def rows(frame: pandas.DataFrame, test: Test) -> pandas.DataFrame:
    """Returns the rows that a test reads; the column is NaN where a run gave no value.

    Of trajectories, every run at the budget in its cells.
    """
    if frame.empty or test.column not in frame:
        return frame.iloc[:0]
    for budget, value in test.budget.items():
        frame = _at_budget(frame, budget, value, test.column)
    every = [selected(frame, cells).index for cells in test.selections()]
    found = frame[frame.index.isin(np.concatenate(every))]
    if "status" not in found:
        return found
    values = found[test.column].where(found["status"] == records.FINISHED)
    return found.assign(**{test.column: values})


def _at_budget(frame: pandas.DataFrame, budget: str, value: float, column: str) -> pandas.DataFrame:
    """Returns one row per machine and run: a column at a budget."""
    found = []
    for _, run in frame.groupby(["machine", "run"], sort=False):
        at = trajectories.at_budget(run[budget], run[column], value, column.endswith("loss"))
        found.append({**run.iloc[0].to_dict(), budget: value, column: at})
    others = {*claim_tables.BUDGETS} - {budget, column}
    return pandas.DataFrame(found).drop(columns=[*others])


def lacking(rows: pandas.DataFrame, test: Test) -> Reason:
    """Returns why the replicates that are left decide nothing.

    A training that failed leaves its seed out. But whether one ends before a budget, or a value has
    a logarithm, goes along with what is measured: the seeds that are left would be a choice.
    """
    if test.column not in rows:
        return Reason.NONE
    values = (run_series.finished(rows) if "status" in rows else rows)[test.column].astype(float)
    if test.budget and values.isna().any():
        return Reason.NO_BUDGET
    return Reason.NOT_POSITIVE if test.ratio and (values <= 0).any() else Reason.NONE


def replicate(frame: pandas.DataFrame, test: Test) -> str:
    """Returns the column that distinguishes replicates of a row; empty where there is none."""
    name = tables.REPEAT if test.timed else "seed"
    return name if name in frame else ""


def doublings(rows: pandas.DataFrame, test: Test) -> bool:
    """Returns whether slopes are per doubling: 0 and what is below it have none."""
    if test.over not in rows:
        return True
    return not (pandas.to_numeric(rows[test.over], errors="coerce") <= 0).any()


def statement(rows: pandas.DataFrame, test: Test) -> Statement:
    """Returns what a test states of its `rows`; without contrasts where these lack its cells."""
    if rows.empty:
        return Statement(())
    if test.ratio:
        values = rows[test.column].astype(float)
        rows = rows.assign(**{test.column: np.log(values.where(values > 0))})
    parts = [*_OF_TYPE[test.type](rows, test)]
    if not parts:
        return Statement(())
    # Where the weakest part is shown every other one is; one that fails shows the contrary.
    weakest = max(range(len(parts)), key=lambda at: parts[at].p[0])
    starts = np.cumsum([0, *(len(each.contrasts) for each in parts)]).tolist()
    groups = [
        tuple(_moved(groups, start) for groups in each.groups)
        for each, start in zip(parts, starts, strict=False)
    ]
    return Statement(
        tuple(itertools.chain(*(each.contrasts for each in parts))),
        supported_by=groups[weakest][0],
        contradicted_by=tuple(itertools.chain(*(against for _, against in groups))),
        steps=tuple(itertools.chain(*(each.steps for each in parts))),
    )


def _moved(groups: Groups, start: int) -> Groups:
    return tuple(tuple(start + at for at in group) for group in groups)


def _contrast(test: Test, values: Any, cells: Cell) -> Contrast:
    """Returns a contrast with the bounds of a test, of a ratio their logarithms."""
    low, high = test.bounds
    if test.ratio:
        low, high = (math.log(low) if low > 0 else -math.inf), math.log(high)
    return Contrast(np.asarray(values, float), low, high, cells=cells)


def _single(test: Test, values: Any, cells: Cell) -> Statement:
    return Statement((_contrast(test, values, cells),))


def _series(
    frame: pandas.DataFrame, test: Test, *sides: Cells
) -> Iterator[tuple[Cell, pandas.DataFrame]]:
    """Yields a series as a cell, and its rows: all that neither sides nor the test distinguish."""
    named = {test.over, *itertools.chain.from_iterable(sides)}
    keys = [
        name
        for name in claim_tables.TABLES[test.table].keys
        if name in frame and name not in {*named, test.column} and frame[name].nunique() > 1
    ]
    factors = [name for name in run_series.series_factors(frame) if name not in named]
    # With another factor than the batch size in its place, each batch size is a series.
    sizes = ["batch_size"] if "batch_size" not in named and "batch_size" in frame else []
    split = [name for name in (*factors, *sizes, *keys) if frame[name].nunique(dropna=False) > 1]
    if not split:
        yield {}, frame
        return
    for values, group in frame.groupby(split, sort=False, dropna=False):
        yield dict(zip(split, values, strict=True)), group


def _table(frame: pandas.DataFrame, test: Test, *over: str) -> pandas.DataFrame:
    """Returns a column by replicate and cell; what lies within one cell of a run is averaged."""
    by = replicate(frame, test)
    cells = [name for name in over if name in frame] or [_NONE]
    frame = frame.assign(
        _replicate=frame[by] if by else 0, _value=frame[test.column].astype(float), **{_NONE: 0}
    )
    # Cells without a value stay, so that what is missing is seen.
    found = frame.groupby(["_replicate", *cells], dropna=False)["_value"].mean().unstack(cells)
    return found[sorted(found.columns)]


def _along(frame: pandas.DataFrame, test: Test) -> Iterator[tuple[Cell, pandas.DataFrame]]:
    """Yields a series as a cell, and its replicates by values of the factor of the test."""
    for cells, group in _series(frame, test):
        yield cells, _table(group, test, test.over)


def _positions(at: Sequence[Any], frame: pandas.DataFrame, test: Test) -> np.ndarray:
    """Returns positions on the scale of which slopes are taken."""
    found = np.asarray(at, float)
    return np.log2(found) if doublings(frame, test) else found


def _trend(frame: pandas.DataFrame, test: Test) -> Parts:
    for cells, table in _along(frame, test):
        if table.shape[1] > 1:
            at = _positions(table.columns, frame, test)
            rises = test.direction == RISES
            yield contrasts.trend(table.to_numpy(), at, rises, cells=cells)


def _equivalence(frame: pandas.DataFrame, test: Test) -> Parts:
    for cells, table in _along(frame, test):
        for to, of in itertools.combinations(table.columns, 2):
            yield _single(test, table[of] - table[to], _named(cells, table, [of, to]))


def _value(frame: pandas.DataFrame, test: Test) -> Parts:
    for cells, table in _along(frame, test):
        for at in table.columns:
            yield _single(test, table[at], _named(cells, table, at))


def _comparison(frame: pandas.DataFrame, test: Test) -> Parts:
    return _differences(frame, test, test.of, test.to)


def _order(frame: pandas.DataFrame, test: Test) -> Parts:
    for lower, upper in itertools.pairwise(test.order):
        yield from _differences(frame, test, upper, lower)


def _differences(frame: pandas.DataFrame, test: Test, of: Cells, to: Cells) -> Parts:
    for cells, one, other in _sides(frame, test, of, to):
        for at in one.columns.intersection(other.columns):
            yield _single(test, one[at] - other[at], _named(cells, one, at))


def _interaction(frame: pandas.DataFrame, test: Test) -> Parts:
    for cells, of, to in _sides(frame, test, test.of, test.to):
        at = sorted(of.columns.intersection(to.columns))
        if len(at) > 1:
            difference = (of[at] - to[at]).dropna().to_numpy()
            slopes = contrasts.slopes(difference, _positions(at, frame, test))
            yield _single(test, slopes, cells)


def _sides(
    frame: pandas.DataFrame, test: Test, of: Cells, to: Cells
) -> Iterator[tuple[Cell, pandas.DataFrame, pandas.DataFrame]]:
    """Yields a series as a cell, and both sides: replicates by values of the factor.

    Every cell of one side is compared with every one of the other.
    """
    over = [test.over] if test.over not in of else []
    for pair in itertools.product(_each(of), _each(to)):
        sides = [selected(frame, side) for side in pair]
        named = {name: [side[name][0] for side in pair] for name in of}
        for cells, group in _series(pandas.concat(sides), test, *pair):
            rows = [selected(group, side) for side in pair]
            if not any(each.empty for each in rows):
                tables = (_table(each, test, *over) for each in rows)
                yield {**cells, **named}, *tables


def _each(cells: Cells) -> list[Cells]:
    """Returns the cells with one value of everything."""
    return [
        {name: (value,) for name, value in zip(cells, values, strict=True)}
        for values in itertools.product(*cells.values())
    ]


def _argmax(frame: pandas.DataFrame, test: Test) -> Parts:
    """One of those chosen is better than all others; not where another one beats all of these."""
    for cells, table in _along(frame, test):
        complete = table.dropna()
        chosen = [at for at in table.columns if at in test.chosen]
        others = [at for at in table.columns if at not in test.chosen]
        pairs = [
            _contrast(test, complete[of] - complete[to], _named(cells, table, [of, to]))
            for of, to in itertools.product(chosen, others)
        ]
        if pairs:
            at = np.arange(len(pairs)).reshape(len(chosen), -1)
            rivals, against = (tuple(map(tuple, each.tolist())) for each in (at, at.T))
            yield Statement(tuple(pairs), rivals, against)


def _exception(frame: pandas.DataFrame, test: Test) -> Parts:
    """A size lies off the straight line between its neighbours, both axes logarithmic."""
    for cells, table in _along(frame, test):
        at = [*table.columns]
        for left, here, right in zip(at, at[1:], at[2:], strict=False):
            if here in test.chosen and left > 0:
                share = math.log(here / left) / math.log(right / left)
                line = (1 - share) * table[left] + share * table[right]
                yield _single(test, table[here] - line, _named(cells, table, here))


def _named(cells: Cell, table: pandas.DataFrame, at: Any) -> Cell:
    """Returns the cell of one or two columns of a series' table."""
    return cells if table.columns.name == _NONE else {**cells, table.columns.name: at}


_OF_TYPE: dict[str, Callable[[pandas.DataFrame, Test], Parts]] = {
    "trend": _trend,
    "equivalence": _equivalence,
    "value": _value,
    "comparison": _comparison,
    "interaction": _interaction,
    "argmax": _argmax,
    "order": _order,
    "exception": _exception,
}
