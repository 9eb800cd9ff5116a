"""How outcomes change from one batch size to another, run by run, paired by seed."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas

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
