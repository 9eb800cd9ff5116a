"""Means over seeds, and how far batch sizes or series are apart, paired by seed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import pandas

from batchscope.analysis import intervals, run_series
from batchscope.analysis.intervals import Interval
from batchscope.catalogue import outcomes

# Column of the rates at which seeds are read, where they are chosen.
CHOSEN_RATE = "chosen_learning_rate"


class Mean(NamedTuple):
    """The mean of the finished runs at one batch size.

    Attributes:
        interval: At 95 %, Student's t.
        by_seed: Seed -> its value.
        seeds: How many there are, with those that have no value.
        rates: That are chosen here; empty where there is no choice.
    """

    interval: Interval
    by_seed: pandas.Series
    seeds: int
    rates: tuple[float, ...]


def by_batch_size(rows: pandas.DataFrame, column: str) -> dict[int, Mean]:
    """Returns the mean of every batch size of a series that has a finite value."""
    finished = run_series.finished(rows.astype({column: float}))
    found, seeds = {}, rows["seed"].nunique()
    for size, own in finished[np.isfinite(finished[column])].groupby("batch_size"):
        rates = tuple(sorted(own[CHOSEN_RATE].unique())) if CHOSEN_RATE in own else ()
        by_seed = own.groupby("seed")[column].mean()
        interval = intervals.t_interval(by_seed, differ=len(rates) > 1)
        found[int(size)] = Mean(interval, by_seed, seeds, rates)
    return found


def apart(larger: Mean, smaller: Mean, ratio: bool = True) -> tuple[Interval, bool]:
    """Returns how far two means are apart over the seeds that are in both, and if by a ratio.

    Of what is above zero, and where `ratio` allows, it is the geometric mean of ratios, unless
    single seeds turn that against the order of the means; else the mean difference.
    """
    high, low = larger.by_seed.align(smaller.by_seed, join="inner")
    differ = len(larger.rates) > 1 or len(smaller.rates) > 1
    if ratio and ((high > 0) & (low > 0)).all():
        found = intervals.ratio_interval(high, low, differ)
        if not (found.mean - 1) * (high.mean() - low.mean()) < 0:
            return found, True
    return intervals.t_interval(high - low, differ=differ), False


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


def ratio_of_extremes(rows: pandas.DataFrame, column: str) -> tuple[list[int], pandas.DataFrame]:
    """Returns smallest and largest batch size, and their ratio: a table of epochs by seeds.

    Of the epochs of the runs of a series, and a column of a positive outcome.
    """
    finished = run_series.finished(rows)
    finished = finished[finished[column] > 0]
    sizes = sorted(finished["batch_size"].unique().tolist())
    if len(sizes) < 2:
        return sizes, pandas.DataFrame()
    table = finished.pivot_table(column, ["batch_size", "epoch"], "seed")
    return [sizes[0], sizes[-1]], (table.loc[sizes[0]] / table.loc[sizes[-1]]).astype(float)


def over_seeds(table: pandas.DataFrame, geometric: bool = False) -> pandas.DataFrame:
    """Returns the mean of every row, with the ends of its 95 % t-interval, `low` and `high`."""
    values = table.to_numpy(float)
    ends = intervals.t_intervals(np.log(values) if geometric else values)[:3]
    found = pandas.DataFrame(dict(zip(("mean", "low", "high"), ends, strict=True)), table.index)
    return np.exp(found) if geometric else found


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
