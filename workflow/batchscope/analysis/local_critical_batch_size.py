"""Local critical batch size: the largest one that does not raise the loss at a point of a training.

Branches of a training use multiples of its batch size. A statement says that no smaller factor ends
at a loss lower by more than a tolerance: one contrast for each smaller factor, paired by seed. The
local critical batch size of a seed is read off its own losses (`measures.branches`).
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence

import numpy as np
import pandas

from batchscope.analysis import intervals, noise_scales, run_series, verdicts
from batchscope.analysis.verdicts import Contrast, Row, Statement
from batchscope.study.decision_columns import LOCAL_CRITICAL
from batchscope.study.outcomes import Reason, Verdict


def table(
    branches: pandas.DataFrame,
    points: pandas.DataFrame,
    tolerance: float,
    planned: Sequence[int] = (),
) -> pandas.DataFrame:
    """Return one row per series, batch size, point and factor above 1, as one family.

    Args:
        branches: branches.csv; `points` is branch_points.csv.
        tolerance: In the unit of the loss.
        planned: Numbers of seeds at the interim analyses.
    """
    rows = _rows(branches, points, tolerance, planned)
    return verdicts.table(rows, LOCAL_CRITICAL, run_series.factor_columns(branches))


def _rows(
    branches: pandas.DataFrame, points: pandas.DataFrame, tolerance: float, planned: Sequence[int]
) -> Iterator[Row]:
    for series in run_series.series(branches) if len(branches) else ():
        of_series = points[points["run"].isin(series.frame["run"])]
        for (size, share), rows in series.frame.groupby(["batch_size", "share"]):
            at = of_series[(of_series["batch_size"] == size) & (of_series["share"] == share)]
            losses = rows.pivot_table(
                "branch_loss", "factor", "seed", aggfunc="first", dropna=False
            ).astype(float)
            row = {
                **run_series.constants(series.frame),
                "batch_size": size,
                "share": share,
                "examples_used": float(at["examples_used"].mean()),
                **_critical(at, size * losses.index.to_numpy()),
                **_noise(at),
            }
            for factor in losses.index[1:]:
                smaller = losses.loc[: factor - 1].dropna(how="all")
                compared = _compared(losses.loc[factor], smaller, tolerance, planned)
                yield {**row, "factor": factor, **compared}


def _compared(
    losses: pandas.Series, smaller: pandas.DataFrame, tolerance: float, planned: Sequence[int]
) -> Row:
    """Return the statement about a factor, or its verdict if a branch of it diverged.

    A smaller factor that diverged for some seeds is compared over the others.
    """
    if losses.isna().any() or smaller.empty:
        verdict = Verdict.NOT_TESTABLE if smaller.empty else Verdict.BEYOND
        return {"verdict": verdict, "reason": Reason.FAILED, "n": int(losses.notna().sum())}
    contrasts = (
        Contrast(losses - other, high=tolerance, cells={"against": factor})
        for factor, other in smaller.iterrows()
    )
    statement = Statement.of_all(contrasts, of_margin=True)
    statement = verdicts.at_analyses(len(losses), planned, statement.first)
    return {"bound": tolerance, "statement": statement}


def _critical(points: pandas.DataFrame, sizes: np.ndarray) -> dict[str, float]:
    """Return the geometric mean over seeds with its interval; `sizes` are all that were tried."""
    by_seed = points["local_critical_batch_size"].to_numpy(float)
    mean, low, high = map(verdicts.exponential, intervals.t_interval(np.log(by_seed))[:3])
    following = dict(itertools.pairwise(sizes.tolist()))
    if (by_seed == sizes[0]).any():
        low = math.nan
    if (by_seed == sizes[-1]).any():
        high = math.nan
    else:
        high *= max(following[size] / size for size in by_seed)
    return intervals.columns("critical_batch_size", (mean, low, high))


def _noise(points: pandas.DataFrame) -> dict[str, float]:
    scale = noise_scales.from_runs(points)
    if not scale.resolved:
        return {}
    ratio, high = (math.nan, math.nan) if scale.open else (scale.ratio, scale.high)
    return intervals.columns("noise_scale", (ratio, scale.low, high))
