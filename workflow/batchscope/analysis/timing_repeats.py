"""One row over the timing jobs of a configuration, from a row for each of them.

A timing job is a process of its own: what differs between processes and between moments is seen
over jobs, and hardly at all within one.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pandas
from pandas.api import types

_QUARTILES = {"q1": 0.25, "q3": 0.75}


def combined(
    rows: pandas.DataFrame, keys: Iterable[str], counted: Iterable[str] = ()
) -> pandas.DataFrame:
    """Returns one row per configuration; rows of a single job stay as they are.

    Of several jobs a quantity has their median, and its quartiles where it has any; of whole
    numbers one that was seen, and of words the most frequent. Counts add up. The ends of the
    interval of a fit to one job are none over several.
    """

    def over(jobs: pandas.DataFrame) -> dict[str, Any]:
        return {name: _over(rows[name], name, jobs, counted) for name in rows.columns.drop(keys)}

    keys = list(keys)
    if not rows.duplicated(keys).any():
        return rows
    found = [
        jobs.iloc[0].to_dict() | (over(jobs) if len(jobs) > 1 else {})
        for _, jobs in rows.groupby(keys, sort=False, dropna=False)
    ]
    return pandas.DataFrame(found, columns=rows.columns)


def _over(every: pandas.Series, name: str, jobs: pandas.DataFrame, counted: Iterable[str]) -> Any:
    """Returns a column over several jobs, of the kind that `every` value of it is."""
    base, _, end = name.rpartition("_")
    if name in counted:
        return jobs[name].sum(min_count=1)
    if end in ("low", "high") and base in jobs:
        return None
    if end in _QUARTILES and base in jobs:
        return jobs[base].quantile(_QUARTILES[end])
    known = every.dropna()
    if types.is_bool_dtype(known) or not types.is_numeric_dtype(known):
        return next(iter(jobs[name].mode()), None)
    return jobs[name].quantile(interpolation="lower" if types.is_integer_dtype(known) else "linear")
