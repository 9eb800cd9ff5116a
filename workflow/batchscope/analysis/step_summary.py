"""What the times of all batch sizes of a timing job say together, and of all jobs of one kind."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas

from batchscope.analysis import intervals, step_cost

Row = dict[str, Any]


def of(row: Row, sizes: Sequence[int], blocks: Any, of_jobs: bool = False) -> Row:
    """Returns costs, noise, plateau and knee of what was timed, by name of column.

    Args:
        row: What else is known: the peak of matrix products, operations per example and update,
            device and replicas; None or NaN where they are not known.
        sizes: Batch sizes, at least two.
        blocks: Seconds per step, as `step_cost.fixed_cost` takes them.
    """
    fit = step_cost.fixed_cost(sizes, blocks, of_jobs)
    noise = step_cost.noise_floor(step_cost.within_jobs(blocks) if of_jobs else blocks)
    knee = step_cost.knee(sizes, blocks, fit, noise)
    resolved = not step_cost.too_noisy(noise)
    highest = float((sizes / np.median(blocks, axis=1)).max())
    limit = ceiling(row) if resolved else None
    on_gpus = row["device"] == "gpu" and row["replicas"] > 1  # the peak is of one GPU
    return {
        **intervals.columns("fixed_seconds", fit.fixed),
        **intervals.columns("seconds_per_image", fit.per_image),
        **intervals.columns("knee_fitted", knee.fitted),
        "fixed_seconds_error": fit.fixed_error,
        "half_batch": fit.half_batch.value if resolved else None,
        "line_residual": fit.residual,
        "noise_floor": noise,
        "highest_images_per_second": highest,
        "plateau_images_per_second": knee.plateau,
        "knee_batch_size": knee.batch_size,
        "still_rising": knee.still_rising,
        "ceiling_images_per_second": limit,
        "share_of_ceiling": highest / limit if limit and not on_gpus else None,
    }


def ceiling(row: Row) -> float | None:
    """Returns the examples per second that the measured peak allows; None where unknown."""
    peak, flops = row["matmul_flops_per_second"], row["flops_per_image"]
    return peak / flops if peak and flops else None


def over_jobs(row: Row, medians: pandas.DataFrame) -> Row:
    """Returns what `of` says of the medians of several jobs; nothing of fewer than two.

    The line is that of the medians over jobs, which one disturbed job hardly moves, and its
    intervals are over jobs as well as sizes. A size that not every job timed is in no line.

    Args:
        row: As `of` takes it.
        medians: One row per job (`repeat`) and batch size, with `seconds_per_step`.
    """
    table = medians.pivot(index="batch_size", columns="repeat", values="seconds_per_step")
    table = table.dropna(axis=1, thresh=2).dropna()
    if len(table) < 2 or table.shape[1] < 2:
        return {}
    return of(row, table.index.tolist(), table.to_numpy(float), of_jobs=True)
