"""Measurements that a claim's rows lack: those that leave it untested, and those it does without.

A training that failed leaves its seed out, and the row of the ledger says how many remain. But
whether a training ends before a budget, or a value has a logarithm, goes along with what is
measured: the seeds that are left would be a choice.
"""

from __future__ import annotations

import pandas

from batchscope import wording
from batchscope.analysis import claim_cells, run_series
from batchscope.study.claims import RATIO, Test


def undecidable(rows: pandas.DataFrame, test: Test) -> str:
    """Returns what `claim_cells.rows` lack whose remaining seeds decide nothing; empty for none."""
    if test.column not in rows:
        return ""
    read = _finished(claim_cells.any_of(rows, tuple(test.selections())))
    values = read[test.column].astype(float)
    if test.table == "trajectories" and values.isna().any():
        name, budget = claim_cells.budget(test)
        at = run_series.describe({name: budget})
        return f"a value at {at} of every training: {_some(values.isna())} have none there"
    if (test.scale == RATIO or test.type == "exception") and (values <= 0).any():
        return f"values above 0, of which ratios are taken: {_some(values <= 0)} are not"
    return ""


def survivors(rows: pandas.DataFrame, test: Test, count: int) -> str:
    """Returns `6 of 12 seeds finished in every cell`; empty where all of them count.

    `count`: seeds, or timing jobs, with a value in every cell of `claim_cells.rows`.
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
    return run_series.finished(rows) if "status" in rows else rows


def _some(chosen: pandas.Series) -> str:
    """Returns `3 of 24` for what is chosen of them."""
    return f"{chosen.sum()} of {len(chosen)}"
