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
    """Returns positions by seeds: directions of one run, no independent runs, are averaged."""
    return _whole_means(rows[column], [rows["a"], rows["seed"]]).unstack("seed")


def along_axes(rows: pandas.DataFrame, aways: list[float]) -> pandas.DataFrame:
    """Returns the mean rise of every run along the axes of its surfaces, by distance."""
    points = rows[rows["a"].notna() & (rows["status"] == records.FINISHED)]
    keys, found = ["batch_size", "seed"], {}
    surface = points.set_index([*keys, "index"])["loss"]
    feet = surface[((points["a"] == 0) & (points["b"] == 0)).to_numpy()]
    on_axis = (points["a"] == 0) | (points["b"] == 0)
    for away in aways:
        there = surface[(on_axis & np.isclose(np.hypot(points["a"], points["b"]), away)).to_numpy()]
        found[away] = _whole_means(there - feet.reindex(there.index), keys)
    return pandas.DataFrame(found).rename_axis(keys)


def _whole_means(values: pandas.Series, by: list) -> pandas.Series:
    """Returns the mean of each group, NaN where any value of it is not finite."""
    return values.where(np.isfinite(values)).groupby(by).mean(skipna=False)
