"""From a tidy table to the parts of a claim: numbers by replicate and cell, and their tests.

A claim holds of every series of the rows that it selects, and, where it is of single cells, of each
of them: all are parts of it.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator

import numpy as np
import pandas

from batchscope.analysis import claim_tests, run_series, trajectories
from batchscope.analysis.claim_tests import Tested
from batchscope.catalogue import claim_tables, tables
from batchscope.store import records
from batchscope.study.claims import RATIO, Cells, Test

Part = tuple[str, Tested]


def replicate(frame: pandas.DataFrame, test: Test) -> str:
    """Returns the column that distinguishes replicates of a row; empty where there is none."""
    name = tables.REPEAT if test.timed else "seed"
    return name if name in frame else ""


def selected(frame: pandas.DataFrame, cells: Cells) -> pandas.DataFrame:
    """Returns the rows that have one of the values of every factor or key."""
    for name, values in cells.items():
        if name not in frame.columns:
            return frame.iloc[:0]
        frame = frame[frame[name].isin(values)]
    return frame


def absent(frame: pandas.DataFrame, test: Test) -> str:
    """Returns words for the first named cell that no row has; empty where all are there.

    A budget names no cell: it is read within a run.
    """
    for cells in test.selections():
        named = {
            name: values
            for name, values in cells.items()
            if test.table != "trajectories" or name not in claim_tables.BUDGETS
        }
        for name, values in named.items():
            for value in values:
                if selected(frame, {**named, name: (value,)}).empty:
                    return run_series.describe({name: value})
    return ""


def rows(frame: pandas.DataFrame, test: Test) -> pandas.DataFrame:
    """Returns the rows that a test is of; the column is NaN where a run gave no value.

    Of trajectories, every run at the budget in its cells.
    """
    if frame.empty:
        return frame
    if test.table == "trajectories":
        frame = _at_budget(frame, *budget(test), test.column)
    found = selected(frame, test.cells)
    if "status" not in found:
        return found
    values = found[test.column].where(found["status"] == records.FINISHED)
    return found.assign(**{test.column: values})


def budget(test: Test) -> tuple[str, float]:
    """Returns the budget in the cells of a test of trajectories: its column and value."""
    return next(
        (name, test.cells[name][0])
        for name in claim_tables.BUDGETS
        if len(test.cells.get(name, ())) == 1
    )


def _at_budget(frame: pandas.DataFrame, budget: str, value: float, column: str) -> pandas.DataFrame:
    """Returns one row per machine and run: a column at a budget."""
    found = []
    for _, run in frame.groupby(["machine", "run"], sort=False):
        at = trajectories.at_budget(run[budget], run[column], value, column.endswith("loss"))
        found.append({**run.iloc[0].to_dict(), budget: value, column: at})
    others = {*claim_tables.BUDGETS} - {budget, column}
    return pandas.DataFrame(found).drop(columns=[*others])


def parts(frame: pandas.DataFrame, test: Test) -> list[Part]:
    """Returns the parts of a claim of some `rows`, each with words for it and its test.

    A ratio is tested on the logarithmic scale.
    """
    if test.scale == RATIO:
        frame = frame.assign(**{test.column: claim_tests.logarithms(frame[test.column])})
    ratio = test.scale == RATIO
    found = _OF_TYPE[test.type](frame, test)
    return [(label, tested.exponentiated() if ratio else tested) for label, tested in found]


def doublings(frame: pandas.DataFrame, test: Test) -> bool:
    """Returns whether slopes are per doubling: 0 and what is below it have none."""
    if test.over not in frame:
        return True
    return not (pandas.to_numeric(frame[test.over], errors="coerce") <= 0).any()


def _series(
    frame: pandas.DataFrame, test: Test, *sides: Cells
) -> Iterator[tuple[str, pandas.DataFrame]]:
    """Yields words for a series and its rows: all that neither side nor the test distinguishes."""
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
        yield "", frame
        return
    for values, group in frame.groupby(split, sort=False, dropna=False):
        yield run_series.describe(dict(zip(split, values, strict=True))), group


def _table(frame: pandas.DataFrame, test: Test, *over: str) -> pandas.DataFrame:
    """Returns a column by replicate and cell; what lies within one cell of a run is averaged."""
    by = replicate(frame, test)
    cells = [name for name in over if name in frame] or ["_all"]
    frame = frame.assign(
        _replicate=frame[by] if by else 0, _all=0, _value=frame[test.column].astype(float)
    )
    # Cells without a value stay, so that what is missing is seen.
    return frame.groupby(["_replicate", *cells], dropna=False)["_value"].mean().unstack(cells)


def _along(frame: pandas.DataFrame, test: Test) -> Iterator[tuple[str, pandas.DataFrame]]:
    """Yields words for a series, and its replicates by values of the factor of the test."""
    for label, group in _series(frame, test):
        table = _table(group, test, test.over)
        yield label, table[sorted(table.columns)]


def _trend(frame: pandas.DataFrame, test: Test) -> Iterator[Part]:
    for label, table in _along(frame, test):
        if table.shape[1] > 1:
            values, at = table.to_numpy(), list(table.columns)
            yield label, claim_tests.trend(values, at, test.direction, doublings(frame, test))


def _equivalence(frame: pandas.DataFrame, test: Test) -> Iterator[Part]:
    _, margin = _scaled(test)
    for label, table in _along(frame, test):
        if table.shape[1] > 1:
            yield label, claim_tests.equivalence(table.to_numpy(), margin)


def _value(frame: pandas.DataFrame, test: Test) -> Iterator[Part]:
    for label, table in _along(frame, test):
        for cell in table.columns:
            tested = claim_tests.between(table[cell], test.low, test.high)
            yield _joined(label, table.columns.name, cell), tested


def _comparison(frame: pandas.DataFrame, test: Test) -> Iterator[Part]:
    for label, of, to in _sides(frame, test):
        for cell in of.columns.intersection(to.columns):
            name = _joined(label, of.columns.name, cell)
            yield name, claim_tests.between((of[cell] - to[cell]).dropna(), *_scaled(test))


def _interaction(frame: pandas.DataFrame, test: Test) -> Iterator[Part]:
    for label, of, to in _sides(frame, test):
        at = sorted(of.columns.intersection(to.columns))
        if len(at) > 1:
            left, right = of[at].align(to[at], join="inner", axis=0)
            sides, ends = (left.to_numpy(), right.to_numpy()), _scaled(test)
            yield label, claim_tests.interaction(*sides, at, *ends, doublings(frame, test))


def _scaled(test: Test) -> tuple[float, float]:
    """Returns the bounds of a difference, or the logarithms of those of a ratio."""
    if test.scale != RATIO:
        return test.low, test.high
    low = float(np.log(test.low)) if test.low > 0 else -np.inf
    return low, float(np.log(test.high))


def _sides(
    frame: pandas.DataFrame, test: Test
) -> Iterator[tuple[str, pandas.DataFrame, pandas.DataFrame]]:
    """Yields words for a series, and both sides: replicates by values of the factor.

    Every cell of one side is compared with every one of the other.
    """
    over = [test.over] if test.over not in test.of else []
    for one, other in itertools.product(_single(test.of), _single(test.to)):
        both = pandas.concat([selected(frame, one), selected(frame, other)])
        several = {name: one[name][0] for name, values in test.of.items() if len(values) > 1}
        words = run_series.describe(several)
        for label, group in _series(both, test, one, other):
            of, to = selected(group, one), selected(group, other)
            if len(of) and len(to):
                name = ", ".join(filter(None, [label, words]))
                yield name, _table(of, test, *over), _table(to, test, *over)


def _single(cells: Cells) -> list[Cells]:
    """Returns the cells with one value of everything."""
    return [
        {name: (value,) for name, value in zip(cells, values, strict=True)}
        for values in itertools.product(*cells.values())
    ]


def _argmax(frame: pandas.DataFrame, test: Test) -> Iterator[Part]:
    for label, table in _along(frame, test):
        chosen = [index for index, cell in enumerate(table.columns) if cell in test.chosen]
        if chosen and len(chosen) < table.shape[1]:
            yield label, claim_tests.argmax(table.to_numpy(), chosen, test.best)


def _order(frame: pandas.DataFrame, test: Test) -> Iterator[Part]:
    named = any_of(frame, test.order)
    for label, group in _series(named, test, *test.order):
        along = group.groupby(test.over) if test.over in group else [("", group)]
        for cell, of_cell in along:
            tables = [
                _table(selected(of_cell, cells), test, *cells)
                for cells in test.order
                if len(selected(of_cell, cells))
            ]
            if len(tables) == len(test.order):
                # Replicates that one group lacks are gaps of it.
                joined = pandas.concat(tables, axis=1, keys=range(len(tables)))
                groups = [joined[index].to_numpy() for index in range(len(tables))]
                over = test.over if test.over in group else "_all"
                yield _joined(label, over, cell), claim_tests.order(groups)


def any_of(frame: pandas.DataFrame, groups: tuple[Cells, ...]) -> pandas.DataFrame:
    """Returns the rows of any of some groups of cells, each once."""
    found = [selected(frame, cells).index for cells in groups]
    return frame[frame.index.isin(np.concatenate(found))]


def _exception(frame: pandas.DataFrame, test: Test) -> Iterator[Part]:
    for label, table in _along(frame, test):
        at = list(table.columns)
        for index in range(1, len(at) - 1):
            # Axes are logarithmic: a neighbour at 0 or below has no place there.
            if at[index] in test.chosen and at[index - 1] > 0:
                tested = claim_tests.exception(table.to_numpy(), at, index, test.direction)
                yield _joined(label, test.over, at[index]), tested


def _joined(label: str, over: str, cell: object) -> str:
    """Returns words for a cell of a series; those of the series where it has but one."""
    words = "" if over == "_all" else run_series.describe({over: cell})
    return ", ".join(filter(None, [label, words]))


_OF_TYPE: dict[str, Callable[[pandas.DataFrame, Test], Iterator[Part]]] = {
    "trend": _trend,
    "equivalence": _equivalence,
    "value": _value,
    "comparison": _comparison,
    "interaction": _interaction,
    "argmax": _argmax,
    "order": _order,
    "exception": _exception,
}
