"""How far the loss rises around trained weights: one value per run, over its directions."""

from __future__ import annotations

import numpy as np
import pandas

from batchscope.store import records


def half_and_edge(positions: pandas.Series) -> list[float]:
    """Returns the distance from 0 nearest half of the longest, and the longest."""
    away = np.unique(positions.abs())
    away = away[away > 0]
    return np.unique([away[np.argmin(np.abs(away - away[-1] / 2))], away[-1]]).tolist()


def over_directions(rows: pandas.DataFrame, column: str) -> pandas.DataFrame:
    """Returns a table of positions by seeds: directions are averaged within each run.

    Directions of one run are no independent runs. A position where any of them has no finite
    value has none.
    """
    values = rows[column].where(np.isfinite(rows[column].astype(float)))
    whole = values.groupby([rows["a"], rows["seed"]]).agg(lambda part: part.mean(skipna=False))
    return whole.unstack("seed")


def along_axes(rows: pandas.DataFrame, aways: list[float]) -> pandas.DataFrame:
    """Returns the mean rise of every run along the axes of its surfaces, by distance.

    A run in which any of these points has no finite loss has none there.
    """
    points = rows[rows["a"].notna() & (rows["status"] == records.FINISHED)]
    points = points.assign(loss=points["loss"].where(np.isfinite(points["loss"])))
    keys = ["batch_size", "seed"]
    feet = points[(points["a"] == 0) & (points["b"] == 0)].set_index([*keys, "index"])["loss"]
    found = {}
    for away in aways:
        on_axis = np.isclose(np.hypot(points["a"], points["b"]), away)
        on_axis &= (points["a"] == 0) | (points["b"] == 0)
        there = points[on_axis].set_index([*keys, "index"])["loss"]
        rise = there - feet.reindex(there.index)
        found[away] = rise.groupby(keys).agg(lambda part: part.mean(skipna=False))
    return pandas.DataFrame(found).rename_axis(keys)
