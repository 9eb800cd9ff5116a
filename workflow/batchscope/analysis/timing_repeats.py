"""One row over the timing jobs of a configuration, from a row for each of them.

A timing job is a process of its own: what differs between processes and between moments is seen
over jobs, and hardly at all within one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
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
    keys = list(keys)
    if not rows.duplicated(keys).any():
        return rows
    over = {name: _over(rows, name, counted) for name in rows.columns.drop(keys)}
    found = [
        group.iloc[0].to_dict()
        | ({name: how(group) for name, how in over.items()} if len(group) > 1 else {})
        for _, group in rows.groupby(keys, sort=False, dropna=False)
    ]
    return pandas.DataFrame(found, columns=rows.columns)


def _over(
    rows: pandas.DataFrame, name: str, counted: Iterable[str]
) -> Callable[[pandas.DataFrame], Any]:
    """Returns what gives a column over several jobs from their rows."""
    base, _, end = name.rpartition("_")
    known = rows[name].dropna()
    if name in counted:
        return lambda group: group[name].sum(min_count=1)
    if end in ("low", "high") and base in rows:
        return lambda group: None
    if end in _QUARTILES and base in rows:
        return lambda group: group[base].quantile(_QUARTILES[end])
    if types.is_bool_dtype(known) or not types.is_numeric_dtype(known):
        return lambda group: next(iter(group[name].mode()), None)
    kind = "lower" if types.is_integer_dtype(known) else "linear"
    return lambda group: group[name].quantile(interpolation=kind)
