"""Measurements that a claim's rows lack: those that leave it untested, and those it does without.

A training that failed leaves its seed out, and the row of the ledger says how many remain. But
whether a training ends before a budget, or a value has a logarithm, goes along with what is
measured: the seeds that are left would be a choice.
"""

from __future__ import annotations

import numpy as np
import pandas

from batchscope import wording
from batchscope.analysis import claim_cells, run_series
from batchscope.catalogue import claim_tables
from batchscope.study.claims import RATIO, Test


def undecidable(rows: pandas.DataFrame, test: Test) -> str:
    """Returns what rows lack whose remaining seeds decide nothing; empty where they lack nothing.

    Args:
        rows: The rows of the test, from `claim_cells.rows`.
        test: The test.
    """
    if test.column not in rows:
        return ""
    read = _finished(claim_cells.any_of(rows, tuple(test.selections())))
    values = read[test.column].astype(float)
    if test.table == "trajectories" and values.isna().any():
        return f"{_at(test)} of every training: {_some(values.isna())} have none there"
    if (test.scale == RATIO or test.type == "exception") and (values <= 0).any():
        return f"values above 0, of which ratios are taken: {_some(values <= 0)} are not"
    return ""


def survivors(rows: pandas.DataFrame, test: Test, count: int) -> str:
    """Returns `6 of 12 seeds finished in every cell`; empty where all of them count.

    Args:
        rows: The rows of the test, from `claim_cells.rows`.
        test: The test.
        count: Seeds, or timing jobs, with a value in every cell.
    """
    by = claim_cells.replicate(rows, test)
    if not by:
        return ""
    read = claim_cells.any_of(rows, tuple(test.selections()))
    every = read[by].nunique()
    if count >= every:
        return ""
    noun = wording.count(every, "timing job" if test.timed else "seed")
    verb = "finished" if len(_finished(read)) < len(read) else "have a value"
    return f"{count} of {noun} {verb} in every cell"


def _finished(rows: pandas.DataFrame) -> pandas.DataFrame:
    return rows[rows["status"] == "finished"] if "status" in rows else rows


def _at(test: Test) -> str:
    """Returns `a value at updates 200`, the budget of a test."""
    budget = next(name for name in claim_tables.BUDGETS if len(test.cells.get(name, ())) == 1)
    return f"a value at {run_series.describe({budget: test.cells[budget][0]})}"


def _some(chosen: pandas.Series) -> str:
    """Returns `3 of 24` for what is chosen of them."""
    return f"{int(np.sum(chosen))} of {len(chosen)}"
