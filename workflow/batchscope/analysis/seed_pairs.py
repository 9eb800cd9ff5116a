"""How far batch sizes are apart, paired by seed, and the error of a counted share."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas

from batchscope.analysis import intervals, run_series


def binomial(rows: pandas.DataFrame, column: str, by: Sequence[str]) -> pandas.DataFrame:
    """Returns the mean of an accuracy and its 95 % binomial half width, for each value of `by`.

    As it is counted on so many examples, which no interval over seeds knows.
    """
    items = column.replace("_accuracy", "_examples")
    means = rows.groupby([*by], dropna=False)[[column, items]].mean()
    half = intervals.binomial_half_width(means[column], means[items])
    return pandas.DataFrame({"mean": means[column], "half": half})


def doublings(rows: pandas.DataFrame, parts: Sequence[str], whole: str) -> pandas.DataFrame:
    """Returns log2 of each part, positive, and of their product less those at the smallest size.

    Seeds without a finished run at that batch size are left out.
    """
    logs = run_series.finished(rows).astype(dict.fromkeys(parts, float))
    logs = logs[(logs[parts] > 0).all(axis=1)]
    logs[parts] = np.log2(logs[parts])
    first = logs[logs["batch_size"] == logs["batch_size"].min()].set_index("seed")[parts]
    logs = logs[logs["seed"].isin(first.index)]
    logs[parts] -= first.loc[logs["seed"]].to_numpy()
    return logs.assign(**{whole: logs[parts].sum(axis=1)})
