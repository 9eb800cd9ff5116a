"""How outcomes change from one batch size to another, run by run, paired by seed."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas

from batchscope.analysis import intervals
from batchscope.store import records


def doublings(rows: pandas.DataFrame, parts: Sequence[str], whole: str) -> pandas.DataFrame:
    """Returns log2 of each part, positive, and of their product less those at the smallest size.

    Paired by seed: seeds without a finished run at that batch size are left out.
    """
    finished = rows[(rows["status"] == records.FINISHED) & (rows[parts] > 0).all(axis=1)]
    logs = finished.astype(dict.fromkeys(parts, float))
    if logs.empty:
        return logs.assign(**{whole: []})
    logs[parts] = np.log2(logs[parts])
    first = logs[logs["batch_size"] == logs["batch_size"].min()].set_index("seed")[parts]
    logs = logs[logs["seed"].isin(first.index)]
    logs[parts] -= first.loc[logs["seed"]].to_numpy()
    return logs.assign(**{whole: logs[parts].sum(axis=1)})


def ratio_of_extremes(rows: pandas.DataFrame, column: str) -> tuple[list[int], pandas.DataFrame]:
    """Returns smallest and largest batch size, and their ratio: a table of epochs by seeds.

    Of the epochs of the runs of a series, and a column of a positive outcome.
    """
    finished = rows[(rows["status"] == records.FINISHED) & (rows[column] > 0)]
    sizes = sorted(finished["batch_size"].unique().tolist())
    if len(sizes) < 2:
        return sizes, pandas.DataFrame()
    ends = [sizes[0], sizes[-1]]
    small, large = (
        finished[finished["batch_size"] == size].pivot_table(column, "epoch", "seed")
        for size in ends
    )
    return ends, (small / large).astype(float)


def means(changes: pandas.DataFrame, part: str) -> pandas.DataFrame:
    """Returns the mean of a part of `doublings` by batch size: its `mean`, and the ends."""
    return _over_seeds(changes.pivot_table(part, "batch_size", "seed"))


def geometric_means(ratios: pandas.DataFrame) -> pandas.DataFrame:
    """Returns the geometric mean of every row of a table of epochs by seeds, as `means` does."""
    return np.exp(_over_seeds(np.log(ratios)))


def _over_seeds(table: pandas.DataFrame) -> pandas.DataFrame:
    """Returns the mean of every row, with the ends of its 95 % t-interval, `low` and `high`."""
    found = intervals.t_intervals(table.to_numpy(float))[:3]
    return pandas.DataFrame(dict(zip(("mean", "low", "high"), found, strict=True)), table.index)
