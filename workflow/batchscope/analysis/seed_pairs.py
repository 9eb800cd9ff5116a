"""How far batch sizes or series are apart, paired by seed, and the error of a counted share."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pandas

from batchscope.analysis import intervals, run_series
from batchscope.analysis.intervals import Interval
from batchscope.catalogue import outcomes


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


@dataclass(frozen=True)
class Differences:
    """Series beside the first of them.

    Attributes:
        batch_size: Where they are compared: the largest that all of them have.
        against: Words for the first series, which the others are compared with.
        series: Words for the others.
        of: Outcome -> for each of the others the mean over seeds of its value less that of the
            first, with its 95 % t-interval. Only seeds that finished in both count.
    """

    batch_size: int
    against: str
    series: tuple[str, ...]
    of: dict[str, tuple[Interval, ...]]


def differences(frame: pandas.DataFrame) -> Differences | None:
    """Returns how the series of an experiment differ; None where there is nothing to compare."""
    groups = run_series.series(frame)
    shared = set.intersection(*({*group.frame["batch_size"]} for group in groups))
    if len(groups) < 2 or not shared:
        return None
    size = int(max(shared))
    every = (run_series.finished(group.frame) for group in groups)
    first, *others = (rows[rows["batch_size"] == size].set_index("seed") for rows in every)
    if any(rows.index.has_duplicates for rows in (first, *others)):
        return None
    of = {}
    for column in filter(outcomes.outcome, frame.columns):
        less = [(other[column] - first[column]).dropna().astype(float) for other in others]
        # Series of the same configuration have the same times, seed by seed.
        if any(each.any() for each in less):
            of[column] = tuple(map(intervals.t_interval, less))
    label, *labels = (group.label for group in groups)
    return Differences(size, label, tuple(labels), of) if of else None
