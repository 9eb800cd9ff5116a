"""Means over seeds at each batch size, and how far two of them are apart, paired by seed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import pandas

from batchscope.analysis import intervals
from batchscope.store import records

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

    interval: intervals.Interval
    by_seed: pandas.Series
    seeds: int
    rates: tuple[float, ...]

    @property
    def differ(self) -> bool:
        """Whether seeds are read at different rates (see `intervals.correction`)."""
        return len(self.rates) > 1


def by_batch_size(rows: pandas.DataFrame, column: str) -> dict[int, Mean]:
    """Returns the mean of every batch size of a series that has a finite value."""
    values = rows[column].astype(float)
    finished = (rows["status"] == records.FINISHED) & np.isfinite(values)
    found, seeds = {}, rows["seed"].nunique()
    for size, own in rows.assign(**{column: values})[finished].groupby("batch_size"):
        rates = tuple(sorted(own[CHOSEN_RATE].unique())) if CHOSEN_RATE in own else ()
        by_seed = own.groupby("seed")[column].mean()
        interval = intervals.t_interval(by_seed, differ=len(rates) > 1)
        found[int(size)] = Mean(interval, by_seed, seeds, rates)
    return found


def apart(larger: Mean, smaller: Mean, ratio: bool = True) -> tuple[intervals.Interval, bool]:
    """Returns how far two means are apart over the seeds that are in both, and if by a ratio.

    Of what is above zero, and where `ratio` allows, it is the geometric mean of ratios, unless
    single seeds turn that against the order of the means; else the mean difference.
    """
    high, low = larger.by_seed.align(smaller.by_seed, join="inner")
    differ = larger.differ or smaller.differ
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
