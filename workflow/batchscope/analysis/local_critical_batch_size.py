"""The batch size that a training bears at a point of it, by its branches with larger batches.

Of each larger factor is stated that no smaller one ends at a loss lower by more than a tolerance:
one contrast for each smaller factor, paired by seed, all of which must hold. The local critical
batch size of a seed is read off its own losses, as `measures.branches` has it.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pandas

from batchscope.analysis import contrasts, intervals, noise_scales, run_series
from batchscope.analysis.contrasts import Contrast, Statement
from batchscope.study.decision_columns import LOCAL_CRITICAL
from batchscope.study.outcomes import OF_MARGIN, Reason, Verdict


def table(
    branches: pandas.DataFrame,
    points: pandas.DataFrame,
    tolerance: float,
    looks: Sequence[int] = (),
) -> pandas.DataFrame:
    """Returns one row per series, batch size, point and factor above 1, all of them one family.

    Args:
        branches: branches.csv; `points` is branch_points.csv.
        tolerance: In the unit of the loss.
        looks: Numbers of seeds at which one looks.
    """
    named = run_series.factor_columns(branches)
    found = [*_rows(branches, points, tolerance, looks)]
    judged = iter(contrasts.judge([statement for _, statement in found if statement]))
    rows = [
        {**row, **_judged(next(judged), tolerance)} if statement else row
        for row, statement in found
    ]
    return run_series.table(rows, LOCAL_CRITICAL, named)


def _rows(
    branches: pandas.DataFrame, points: pandas.DataFrame, tolerance: float, looks: Sequence[int]
) -> Iterator[tuple[dict[str, Any], Statement | None]]:
    """Yields what is known of a row before it is judged, and its statement."""
    for group in run_series.series(branches) if len(branches) else ():
        of_series = points[points["run"].isin(group.frame["run"])]
        for (size, share), own in group.frame.groupby(["batch_size", "share"]):
            here = of_series[(of_series["batch_size"] == size) & (of_series["share"] == share)]
            losses = own.pivot_table(
                "branch_loss", "factor", "seed", aggfunc="first", dropna=False
            ).astype(float)
            row = {
                **run_series.constants(group.frame),
                "batch_size": size,
                "share": share,
                "examples_used": float(here["examples_used"].mean()),
                **_critical(here, size * losses.index.to_numpy()),
                **_noise(here),
            }
            for factor in losses.index[1:]:
                smaller = losses.loc[: factor - 1].dropna(how="all")
                yield (
                    {**row, "factor": factor, **_undecided(losses.loc[factor], smaller)},
                    _statement(losses.loc[factor], smaller, tolerance, looks),
                )


def _undecided(losses: pandas.Series, smaller: pandas.DataFrame) -> dict[str, Any]:
    """Returns the verdict of a factor where branches diverged: its own, or all smaller ones."""
    if losses.notna().all() and len(smaller):
        return {}
    verdict = Verdict.BEYOND if len(smaller) else Verdict.NOT_TESTABLE
    return {"verdict": verdict, "reason": Reason.FAILED, "n": int(losses.notna().sum())}


def _statement(
    losses: pandas.Series, smaller: pandas.DataFrame, tolerance: float, looks: Sequence[int]
) -> Statement | None:
    """Returns the statement of a factor beside smaller ones; None where a branch diverged.

    A smaller one that diverged for some seeds is compared over the others.
    """
    if losses.isna().any() or not len(smaller):
        return None
    found = [
        Contrast((losses - other).to_numpy(), high=tolerance, cells={"factor": at})
        for at, other in smaller.iterrows()
    ]
    return contrasts.by_seeds(found, looks)


def _judged(found: contrasts.Judged, tolerance: float) -> dict[str, Any]:
    verdict = OF_MARGIN.get(found.verdict, found.verdict)
    against = found.deciding.cells["factor"]
    return {**found.columns(), "verdict": verdict, "against": against, "bound": tolerance}


def _critical(points: pandas.DataFrame, sizes: np.ndarray) -> dict[str, float]:
    """Returns the geometric mean over seeds and its interval, of those that were tried, `sizes`."""
    own = points["local_critical_batch_size"].to_numpy(float)
    found = intervals.t_interval(np.log(own))
    following = dict(itertools.pairwise(sizes.tolist()))
    low = high = math.nan
    if not (own == sizes[0]).any():
        low = contrasts.exponential(found.low)
    if not (own == sizes[-1]).any():
        high = contrasts.exponential(found.high) * max(following[each] / each for each in own)
    return intervals.columns("critical_batch_size", (contrasts.exponential(found.mean), low, high))


def _noise(points: pandas.DataFrame) -> dict[str, float]:
    found = noise_scales.of(points)
    if not found.resolved:
        return {}
    ratio = math.nan if found.open else found.ratio
    high = math.nan if found.open else found.high
    return intervals.columns("noise_scale", (ratio, found.low, high))
