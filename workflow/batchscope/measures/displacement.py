"""Distance from the initial weights as an exact product: number of updates, their mean norm, and
the straightness of the path (distance over path length).

With the norms u_k = ||w_{k+1} - w_k|| of the updates and the distance D = ||w_T - w_0||, the path
has the length L = sum of u_k and the straightness D / L, in [0, 1] up to rounding. So

    log D = log(updates) + log(mean update) + log(straightness)

and a difference of log D between two runs is the sum of three differences: fewer updates, smaller
updates, or a less straight path.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from batchscope.core.errors import UserError
from batchscope.measures import Measured
from batchscope.study.specifications import (
    Column,
    Figure,
    IntegerColumn,
    Measure,
    Panel,
    PositiveColumn,
    Scale,
    Table,
)

if TYPE_CHECKING:
    from batchscope.measures.measure_job import FinishedRun

_BIN_COLUMNS = {
    "low": Column("Lower edge of a bin of update norms."),
    "high": Column("Upper edge of the bin."),
    "count": IntegerColumn("Updates in it.", "updates"),
    "share": Column("Their share of all the run's updates."),
}


def _bin_rows(record: dict[str, Any], path: Path) -> Iterator[dict[str, Any]]:
    """Yield the bins of a histogram of update norms, with shares of all the run's updates."""
    histogram = record.get("histogram")
    for index, count in enumerate(histogram["counts"] if histogram else ()):
        low, high = histogram["edges"][index : index + 2]
        share = count / record["values"]["updates"]
        yield {"low": low, "high": high, "count": count, "share": share}


ENTRY = Measure(
    version="displacement-v1",
    columns={
        "updates": IntegerColumn(
            "Number of recorded updates.", unit="updates", label="Number of updates"
        ),
        "update_norm_mean": PositiveColumn(
            "Mean Euclidean norm of an update.", label="Mean norm of an update"
        ),
        "update_norm_median": PositiveColumn(
            "Median Euclidean norm of an update.", label="Median norm of an update"
        ),
        "path_length": PositiveColumn(
            "Sum of the norms of all updates.", label="Length of the path"
        ),
        "straightness": Column(
            "Distance from the initial weights over path_length: 1 for a straight path.",
            label="Straightness of the path",
        ),
    },
    data=False,
    factors={"update_norms": True},
    figures=(
        Figure(
            "displacement",
            "Number and size of the updates",
            "Weights",
            "Fewer or smaller updates? The distance from the initial weights is the number of "
            "updates times their mean norm times the straightness of the path. So the "
            "doublings of these three from the smallest batch size, paired by seed, add up to "
            "those of the distance.",
            panels=tuple(
                Panel(column, title, "doublings from the smallest size", Scale.DOUBLINGS)
                for column, title in (
                    ("updates", "Number of updates"),
                    ("update_norm_mean", "Mean norm of an update"),
                    ("straightness", "Straightness"),
                    ("distance", "Distance: their sum"),
                )
            ),
        ),
        Figure(
            "update_norms",
            "Sizes of the updates",
            "Weights",
            "Left: norms of all updates, at the best learning rate of each batch size. Right: the "
            "median norm.",
            kind="norms",
            table="updates",
            panels=(Panel("update_norm_median", "Median", "median ‖update‖"),),
            columns=("low", "high", "count", "share"),
        ),
    ),
    tables={"updates": Table(_BIN_COLUMNS, _bin_rows)},
    memory_mb=1000,
    order=4,
)

# Exponents of the outermost edges. All runs have the same edges, so that histograms are comparable.
MIN_EXPONENT, MAX_EXPONENT, BINS_PER_DECADE = -8, 3, 20


def path_columns(norms: np.ndarray, distance: float) -> dict[str, float | None]:
    """Return the columns of the measure; straightness is None for a path of length 0."""
    length = math.fsum(norms)
    return {
        "updates": len(norms),
        "update_norm_mean": length / len(norms),
        "update_norm_median": float(np.median(norms)),
        "path_length": length,
        "straightness": distance / length if length > 0 else None,
    }


def histogram(norms: np.ndarray) -> dict[str, list]:
    """Return the histogram of the norms: `counts` between `edges` that are even in log10.

    Empty bins at both ends are left out. Norms beyond 1e-8 and 1e3 count in the outermost bins.
    Updates that changed nothing have no logarithm and are in no bin.
    """
    decades = MAX_EXPONENT - MIN_EXPONENT
    edges = 10.0 ** (np.arange(decades * BINS_PER_DECADE + 1) / BINS_PER_DECADE + MIN_EXPONENT)
    moved = np.asarray(norms, np.float64)[np.asarray(norms) > 0]
    counts, _ = np.histogram(np.clip(moved, edges[0], edges[-1]), edges)
    occupied = np.flatnonzero(counts)
    if not len(occupied):
        return {"edges": [], "counts": []}
    first, last = occupied[0], occupied[-1] + 1
    return {"edges": edges[first : last + 1].tolist(), "counts": counts[first:last].tolist()}


def measure_run(run: FinishedRun, settings: dict[str, Any]) -> Measured:
    """Measure the path of a run's weights; raise `UserError` if it has no norms of updates."""
    from batchscope.store import weights

    norms = run.files.arrays("updates.npz", "update_norms")["update_norms"].astype(np.float64)
    if not len(norms):
        raise UserError(
            f"{run.name}: received no norms of its updates; update_norms: true is expected."
        )
    distance = weights.distance(run.weights("initial")[0], run.weights("final")[0])
    return Measured(path_columns(norms, distance), {"histogram": histogram(norms)})
