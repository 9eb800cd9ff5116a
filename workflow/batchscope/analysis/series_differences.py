"""How the series of an experiment differ at one batch size, seed by seed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from batchscope.analysis import intervals, run_series
from batchscope.analysis.intervals import Interval
from batchscope.catalogue import outcomes

if TYPE_CHECKING:
    import pandas


@dataclass(frozen=True)
class Contrast:
    """Series beside the first of them.

    Attributes:
        batch_size: Where they are compared: the largest that all of them have.
        against: Words for the first series, which the others are compared with.
        series: Words for the others.
        differences: Outcome -> for each of the others the mean over seeds of its value less that
            of the first, with its 95 % t-interval; no test. Only seeds that finished in both count.
    """

    batch_size: int
    against: str
    series: tuple[str, ...]
    differences: dict[str, tuple[Interval, ...]]


def contrast(frame: pandas.DataFrame) -> Contrast | None:
    """Returns how the series of an experiment differ; None where there is nothing to compare."""
    groups = run_series.series(frame)
    shared = set.intersection(*({*group.frame["batch_size"]} for group in groups))
    if len(groups) < 2 or not shared:
        return None
    size = int(max(shared))
    # By seed; runs that did not finish are in no pair.
    here = (group.frame[group.frame["batch_size"] == size] for group in groups)
    tables = [run_series.finished(rows).set_index("seed") for rows in here]
    if any(table.index.has_duplicates for table in tables):
        return None
    differences = {}
    for column in frame.columns:
        if not outcomes.outcome(column) or frame[column].isna().all():
            continue
        first, *others = (table[column].astype(float) for table in tables)
        found = tuple(intervals.t_interval((other - first).dropna()) for other in others)
        # Series of the same configuration have the same times, seed by seed.
        if any(interval.n and tuple(interval[:3]) != (0, 0, 0) for interval in found):
            differences[column] = found
    if not differences:
        return None
    first, *rest = (group.label for group in groups)
    return Contrast(size, first, tuple(rest), differences)
