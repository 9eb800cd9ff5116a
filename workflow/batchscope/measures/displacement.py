"""How far the updates of a run carried its weights, and by what way: many, large or straight.

With the norms u_k = ||w_{k+1} - w_k|| of the updates and the distance D = ||w_T - w_0||: the
path has the length L = sum of u_k and the straightness D / L, in [0, 1] up to rounding. So

    log D = log(updates) + log(mean update) + log(straightness)

and a difference of log D between two runs is the sum of three differences: whether one made fewer
updates, smaller ones, or strayed more.
"""

import math
from typing import Any

import numpy as np

from batchscope import disk
from batchscope.errors import UserError
from batchscope.measures import FinishedRun, Measured
from batchscope.store import paths, weights

QUANTILES = (0, 0.01, 0.05, 0.1, 0.25, 0.5, 0.75, 0.9, 0.95, 0.99, 1)
# The same edges for all runs, so that their histograms can be laid over each other.
SMALLEST, LARGEST, BINS_PER_DECADE = -8, 3, 20


def path(norms: np.ndarray, distance: float) -> dict[str, float | None]:
    """Returns the measure's columns; straightness is None where the weights never moved."""
    length = math.fsum(norms)
    return {
        "updates": len(norms),
        "update_norm_mean": length / len(norms),
        "update_norm_median": float(np.median(norms)),
        "path_length": length,
        "straightness": distance / length if length > 0 else None,
    }


def logs(values: dict[str, float | None], distance: float) -> dict[str, float | None]:
    """Returns log D and its three parts, natural logarithms, by the columns of `path`."""
    parts = {"distance": distance, "updates": values["updates"]}
    parts |= {"mean_update": values["update_norm_mean"], "straightness": values["straightness"]}
    return {name: math.log(part) if part else None for name, part in parts.items()}


def quantiles(norms: np.ndarray) -> dict[str, float]:
    found = np.quantile(np.asarray(norms, np.float64), QUANTILES)
    return {str(share): float(norm) for share, norm in zip(QUANTILES, found, strict=True)}


def histogram(norms: np.ndarray) -> dict[str, list]:
    """Returns `counts` of the norms between the `edges`, even in log10, of the occupied range.

    Norms beyond the outermost edges, 1e-8 and 1e3, count in the outermost bins. Updates that
    changed nothing have no logarithm and are in no bin.
    """
    decades = LARGEST - SMALLEST
    edges = 10.0 ** (np.arange(decades * BINS_PER_DECADE + 1) / BINS_PER_DECADE + SMALLEST)
    moved = np.asarray(norms, np.float64)[np.asarray(norms) > 0]
    counts, _ = np.histogram(np.clip(moved, edges[0], edges[-1]), edges)
    occupied = np.flatnonzero(counts)
    if not len(occupied):
        return {"edges": [], "counts": []}
    first, last = occupied[0], occupied[-1] + 1
    return {"edges": edges[first : last + 1].tolist(), "counts": counts[first:last].tolist()}


def measure_run(run: FinishedRun, settings: dict[str, Any]) -> Measured:
    """Measures the way of a run's weights; raises `UserError` without norms of its updates."""
    delete = paths.run_record(run.folder)
    arrays = disk.read_arrays(run.folder / "updates.npz", "update_norms", delete=delete)
    norms = arrays["update_norms"].astype(np.float64)
    if not len(norms):
        raise UserError(
            f"{run.name}: received no norms of its updates; update_norms: true is expected."
        )
    distance = weights.distance(run.weights("initial")[0], run.weights("final")[0])
    values = path(norms, distance)
    details = {
        "distance": distance,
        "logs": logs(values, distance),
        "quantiles": quantiles(norms),
        "histogram": histogram(norms),
        "zero_updates": int(np.count_nonzero(norms == 0)),
    }
    return Measured(values, details)
