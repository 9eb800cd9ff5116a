"""Branches in, local_critical_batch_size.csv out: for each multiple of the batch size, whether it
raises the loss, and the mean over seeds of the largest that does not.

A point is a share of the training's examples at which branches begin. They use multiples of its
batch size (the column `factor`). For each multiple k the tested statement is: the loss of k exceeds
the loss of no smaller multiple by more than the tolerance. It has one contrast per smaller
multiple, paired by seed. A new column goes into `_rows` and `decision_columns.LOCAL_CRITICAL`.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence

import numpy as np
import pandas

from batchscope.analysis import intervals, noise_scales, run_series, verdicts
from batchscope.analysis.contrasts import Contrast
from batchscope.analysis.verdicts import Row, Statement
from batchscope.study.decision_columns import LOCAL_CRITICAL
from batchscope.study.outcomes import Reason, Verdict


def table(
    branches: pandas.DataFrame,
    points: pandas.DataFrame,
    tolerance: float,
    analyses: Sequence[int] = (),
) -> pandas.DataFrame:
    """Return one row per series, batch size, point and multiple above 1; all are one family.

    Args:
        branches: branches.csv; `points` is branch_points.csv.
        tolerance: Negligible difference, in the unit of the loss.
        analyses: Numbers of seeds at the interim analyses.
    """
    rows = _rows(branches, points, tolerance, analyses)
    return verdicts.table(rows, LOCAL_CRITICAL, run_series.factor_columns(branches))


def _rows(
    branches: pandas.DataFrame, points: pandas.DataFrame, tolerance: float, analyses: Sequence[int]
) -> Iterator[Row]:
    for series in run_series.split_series(branches) if len(branches) else ():
        series_points = points[points["run"].isin(series.frame["run"])]
        for (size, share), rows in series.frame.groupby(["batch_size", "share"]):
            selected = (series_points["batch_size"] == size) & (series_points["share"] == share)
            size_points = series_points[selected]
            losses = rows.pivot_table(
                "branch_loss", "factor", "seed", aggfunc="first", dropna=False
            ).astype(float)
            row = {
                **run_series.constant_factors(series.frame),
                "batch_size": size,
                "share": share,
                "examples_used": float(size_points["examples_used"].mean()),
                **_critical_size_columns(size_points, size * losses.index.to_numpy()),
                **_noise_scale_columns(size_points),
            }
            # The multiple 1 is always first (`measures.branches`), with nothing to compare with.
            for multiple in losses.index[1:]:
                smaller = losses[losses.index < multiple].dropna(how="all")
                columns = _statement_of_multiple(losses.loc[multiple], smaller, tolerance, analyses)
                yield {**row, "factor": multiple, **columns}


def _statement_of_multiple(
    losses: pandas.Series, smaller: pandas.DataFrame, tolerance: float, analyses: Sequence[int]
) -> Row:
    """Return the statement about a multiple, or its verdict if one of its branches diverged.

    A smaller multiple that diverged for some seeds is compared over the other seeds.
    """
    if losses.isna().any() or smaller.empty:
        verdict = Verdict.NOT_TESTABLE if smaller.empty else Verdict.BEYOND
        return {"verdict": verdict, "reason": Reason.FAILED, "n": int(losses.notna().sum())}
    contrasts = (
        Contrast(losses - smaller_losses, high=tolerance, cells={"against": multiple})
        for multiple, smaller_losses in smaller.iterrows()
    )
    statement = Statement.all_hold(contrasts, is_about_margin=True)
    statement = verdicts.at_analyses(len(losses), analyses, statement.with_first)
    return {"bound": tolerance, "statement": statement}


def _critical_size_columns(points: pandas.DataFrame, sizes: np.ndarray) -> dict[str, float]:
    """Return the geometric mean over seeds with its interval.

    A seed's value (`measures.branches`) is the largest tried size that passes. The true one is
    below the next size, so the upper end is raised by that step. An end at the edge of the sizes is
    unbounded (NaN).
    """
    by_seed = points["local_critical_batch_size"].to_numpy(float)
    mean, low, high = map(verdicts.exponential, intervals.t_interval(np.log(by_seed))[:3])
    next_size = dict(itertools.pairwise(sizes.tolist()))
    if (by_seed == sizes[0]).any():
        low = math.nan
    if (by_seed == sizes[-1]).any():
        high = math.nan
    else:
        high *= max(next_size[size] / size for size in by_seed)
    return intervals.columns("critical_batch_size", (mean, low, high))


def _noise_scale_columns(points: pandas.DataFrame) -> dict[str, float]:
    scale = noise_scales.from_runs(points)
    if not scale.is_resolved:
        return {}
    ratio, high = (math.nan, math.nan) if scale.is_lower_bound else (scale.ratio, scale.high)
    return intervals.columns("noise_scale", (ratio, scale.low, high))
