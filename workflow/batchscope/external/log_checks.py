"""Find contradictions in the logs of runs. A new check is called by `find_problems`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pandas

from batchscope.core import display
from batchscope.external.log_table import LogTable
from batchscope.study.external_columns import COST_COLUMNS


def find_problems(table: LogTable, rows: pandas.DataFrame) -> Iterator[str]:
    """Yield the problems of runs.

    Args:
        rows: Rows in order of progress, with the column `run`.
    """
    yield from decreasing_progress(table, rows)
    names = (*COST_COLUMNS, *table.outcomes, "run", "seed", "epoch", "order", "status", "stated")
    keys = [name for name in rows if name not in names]
    if pair := find_copied_run(rows, "run", keys, table.outcomes):
        row, first = (rows.index[rows["run"] == name][0] for name in pair)
        size, seed, other = rows.at[row, "batch_size"], rows.at[row, "seed"], rows.at[first, "seed"]
        yield (
            f"{table.place(row)}: received batch size {size}, seed {seed} with the very numbers of "
            f"seed {other} ({table.place(first)}); another training for each seed is expected."
        )


def decreasing_progress(table: LogTable, rows: pandas.DataFrame) -> Iterator[str]:
    """Yield the first row of every column in which the progress of a run decreases."""
    for name in (name for name in (*COST_COLUMNS, "epoch") if name in rows):
        amounts = rows[name].dropna()
        before = amounts.groupby(rows["run"]).shift()
        for row in amounts.index[amounts < before][:1]:
            received, last = (display.shortest(values[row]) for values in (amounts, before))
            yield (
                f"{table.place(row)}, {table.name(name)}: received {received} after {last}, where "
                "the run had made fewer updates; amounts since the start are expected."
            )


def find_copied_run(
    rows: pandas.DataFrame, run: str | list[str], keys: Sequence[str], outcomes: Sequence[str]
) -> Any:
    """Return a run and an earlier run with equal evaluations, bit for bit; None if there is none.

    Runs with a single row may be equal if they reach a target at the same evaluation. They are
    copies only if all replicates are equal.

    Args:
        run: Columns that identify a run.
        keys: Columns that are equal in replicates.
    """
    evaluated = [name for name in outcomes if name in rows]
    names = [name for name in (*COST_COLUMNS, *evaluated) if name in rows]
    evaluations = (
        rows[np.isfinite(rows[evaluated].astype(float)).any(axis=1)] if evaluated else rows[:0]
    )
    single = not evaluations.duplicated(run).any()
    bits = pandas.util.hash_pandas_object(evaluations[names], index=False)
    runs = evaluations.assign(bits=bits).groupby(run, sort=False)
    runs = runs.agg({**dict.fromkeys(keys, "first"), "bits": tuple})
    runs = runs[single | (runs["bits"].map(len) > 1)]
    again, groups = runs[runs.duplicated()], runs.drop_duplicates([*keys])
    if again.empty or (single and len(again) + len(groups) < len(runs)):
        return None
    return again.index[0], runs.index[(runs == again.iloc[0]).all(axis=1)][0]
