"""Which columns and parameters of logs are factors, and which change within a training."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import pandas

from batchscope import problems, wording
from batchscope.external import numbers
from batchscope.external.cells import LogCells
from batchscope.study import own_columns, tasks
from batchscope.study.log_columns import RATE
from batchscope.study.log_source import CLOCKS
from batchscope.study.own_columns import LEAST_SIZES, of_metrics, outcomes

# Single rows at a target have the same loss, but for what the last update overshot it.
SAME_LOSS = 1.1
_MOST_SHOWN = 4  # names in a note


def choose(found: LogCells, rows: pandas.DataFrame) -> tuple[dict[str, list[Any]], list[str]]:
    """Returns the factors, by their names in our tables, and notes on what is none.

    A column of words is one, and so is a number of which rows at one point of a training have
    several. A number that changes from row to row of a training is a schedule, or is measured. What
    a path or the user's columns name is one in any case. Where each log is of one training, what
    nobody names is one if each of its values has enough batch sizes for a series.
    """
    texts = _candidates(found)
    run = _numbered([found.places["run"], rows["batch_size"], rows["seed"]])
    kept, changing, passed = [], [], []
    # Words first, then the numbers with the fewest values: by these the others are told apart.
    for name in sorted(texts, key=lambda each: (_numeric(texts[each]), texts[each].nunique())):
        values, stated = texts[name], name in found.stated
        if found.of_runs:
            changes = values.groupby(run).nunique().max() > 1
        else:
            changes = _numeric(values) and _changes(run, rows, values)
        unasked = found.of_runs and name != RATE and values.nunique() > 1
        if changes and not stated:
            changing.append(name)
        elif unasked and not stated and _few_sizes(values, rows["batch_size"]):
            passed.append(name)
        else:
            kept.append(name)
            run = _numbered([run, values])
    factors = [
        own_columns.factor(name, texts[name].replace("", own_columns.NOTHING))
        for name in texts
        if name in kept
    ]
    notes = []
    if changing:
        shown = _shown(f"{name}{_range(texts[name])}" for name in changing)
        notes.append(f"no factor, as it changes within a training: {shown}")
    if passed:
        less = f"no factor, as its values have fewer than {LEAST_SIZES} batch sizes each"
        notes.append(f"{less}: {_shown(passed)}")
    return dict(factors), notes


def _candidates(found: LogCells) -> dict[str, pandas.Series]:
    """Returns what is no column of ours, as texts; and machines, where there are several."""
    table = found.table
    named = [
        name for name in table if name not in (*numbers.KNOWN, *CLOCKS, *of_metrics(found.metrics))
    ]
    named += ["machine"] if "machine" in table and table["machine"].nunique() > 1 else []
    texts = {name: table[name] for name in named}
    for name, values in found.parameters.fillna("").items():
        if values.nunique() > 1 and name not in texts:
            texts[name] = values.loc[found.places["log"]].set_axis(table.index)
    return texts


def _numbered(keys: Sequence[pandas.Series]) -> pandas.Series:
    frame = pandas.concat(keys, axis=1).set_axis([*range(len(keys))], axis=1)
    return frame.groupby([*frame], sort=False).ngroup()


def _numeric(texts: pandas.Series) -> bool:
    found = texts[~texts.str.lower().isin(("", "nan"))]
    return bool(pandas.to_numeric(found, errors="coerce").notna().all())


def _few_sizes(texts: pandas.Series, sizes: pandas.Series) -> bool:
    return bool(sizes.groupby(texts).nunique().min() < LEAST_SIZES)


def _changes(run: pandas.Series, rows: pandas.DataFrame, texts: pandas.Series) -> bool:
    """Returns whether a column changes within a training, and distinguishes no trainings.

    Args:
        run: Number of each row's training, as far as it is known.
    """
    axis = next(name for name in ("updates", "examples", "epoch", "seconds") if name in rows)
    frame = pandas.DataFrame({"run": run, "at": rows[axis], "value": texts}).dropna()
    frame = frame.sort_values(["run", "at"], kind="stable")
    same = frame["run"].eq(frame["run"].shift())
    blocks = (~same | frame["value"].ne(frame["value"].shift())).groupby(frame["run"]).sum()
    distinct = frame.groupby("run")["value"].nunique()
    several = distinct > 1
    if not several.any() or (frame.groupby(["run", "at"])["value"].nunique() > 1).any():
        return False
    counts = frame.value_counts(["run", "value"])
    if (counts == 1).all():  # a row each: its evaluations, or the targets of several trainings
        return _apart(run, rows)
    # A value comes in one stretch of a training; or twice, where a rate rises and falls.
    return bool((blocks == distinct)[several].all() or (counts <= 2).all())


def _apart(run: pandas.Series, rows: pandas.DataFrame) -> bool:
    """Whether rows of one training have losses too far from each other for a target's."""
    known = next((name for name in outcomes() if name in rows), None)
    if known is None:
        return False
    by_run = tasks.falling(rows[known], known).groupby(run)
    return bool(numbers.apart(by_run.min(), by_run.max()).any())


def _range(texts: pandas.Series) -> str:
    values = pandas.to_numeric(texts, errors="coerce")
    if values.isna().all():
        return ""
    return f" ({wording.number(values.min())} to {wording.number(values.max())})"


def _shown(items: Iterable[str]) -> str:
    return wording.some([*map(problems.clip, items)], most=_MOST_SHOWN)
