"""One row over the timing jobs of a configuration, from a row for each of them.

What is fitted over batch sizes is fitted anew, to what all jobs timed: `batchscope.analysis.
step_summary`.

A timing job is a process of its own: what differs between processes and between moments is seen
over jobs, and hardly at all within one.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas

from batchscope.analysis import intervals
from batchscope.catalogue.timing_columns import QUARTILES

_P = ("step_p", "step_p_holm")


def combined(
    rows: pandas.DataFrame, keys: Sequence[str], counted: Sequence[str] = ()
) -> pandas.DataFrame:
    """Returns one row per configuration; rows of a single job stay as they are.

    Of several jobs a quantity with quartiles has those of the jobs about their median, one with
    the ends of an interval the Hodges-Lehmann estimate with its signed-rank interval over jobs,
    none below six, and any other the median. Counts add up. A p value is twice the median,
    which holds for tests that depend on each other in whatever way (Rüger 1978, Metrika 25, 171).
    Of words the most frequent count. Rates follow from the times: a median of an even number is
    not that of the inverses.
    """
    if not rows.duplicated(list(keys)).any():
        return rows
    found = [
        _one(group, keys, counted) if len(group) > 1 else group.iloc[0].to_dict()
        for _, group in rows.groupby(list(keys), sort=False, dropna=False)
    ]
    return pandas.DataFrame(found, columns=rows.columns)


def _one(group: pandas.DataFrame, keys: Sequence[str], counted: Sequence[str]) -> dict[str, Any]:
    row: dict[str, Any] = {}
    for name in group:
        values = group[name].dropna()
        if name in row:
            continue
        if name in keys or values.empty:
            row[name] = group[name].iloc[0]
        elif not pandas.api.types.is_numeric_dtype(values.dtype) or values.dtype == bool:
            row[name] = values.mode().iloc[0]
        else:
            row |= _number(group, name, values.to_numpy(float), counted)
    return row


def _number(
    group: pandas.DataFrame, name: str, values: np.ndarray, counted: Sequence[str]
) -> dict[str, Any]:
    """Returns a quantity over jobs, and the columns that belong to it."""
    if name in counted:
        return {name: values.sum()}
    if all(name + end in group for end in QUARTILES):
        found = np.percentile(values, [50, 25, 75])
        return {name + end: value for end, value in zip(QUARTILES, found, strict=True)}
    if all(name + end in group for end in intervals.ENDS):
        return intervals.columns(name, intervals.hodges_lehmann(values))
    if name in _P:
        return {name: min(1.0, 2 * float(np.median(values)))}
    whole = pandas.api.types.is_integer_dtype(group[name].dtype)
    # Of whole numbers one that was seen.
    return {name: np.percentile(values, 50, method="inverted_cdf" if whole else "linear")}
