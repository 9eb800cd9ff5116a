"""Surfaces and profiles of the training loss along filter-normalised random directions (Li et al.
2018, arXiv 1712.09913).

A random direction d is N(0, 1). Each of its filters is scaled to the norm of the weights' filter::

    d_j <- d_j * ||w_j|| / (||d_j|| + 1e-10)        surface(a, b) = f(w + a * d_1 + b * d_2)

with f the mean training loss without dropout. This makes networks with weights of different
size comparable. Batch normalisation keeps its moving statistics.

Source: H. Li et al., "Visualizing the Loss Landscape of Neural Nets", arXiv 1712.09913,
section 4.
"""

from __future__ import annotations

import contextlib
import itertools
import math
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Self

import numpy as np
from pydantic import Field, model_validator

from batchscope.core import disk
from batchscope.core.errors import UserError
from batchscope.measures import Measured
from batchscope.study.common_settings import Examples, OfWeights
from batchscope.study.model import Integer
from batchscope.study.setting import Setting
from batchscope.study.specifications import (
    Column,
    Figure,
    IntegerColumn,
    Measure,
    Panel,
    Table,
    TextColumn,
)

if TYPE_CHECKING:
    from batchscope.measures.finished_run import FinishedRun
    from batchscope.store.weights import Arrays
    from batchscope.training.losses import Objective


class LandscapeSettings(OfWeights):
    """Settings of `landscape`."""

    examples: Examples = 2000
    """Training examples for the loss; 0 means `all`."""
    points: Annotated[Integer, Field(ge=3), Setting("pt")] = 51
    """Points along each axis, from -1 to 1 in norms of the filters; odd."""
    pairs: Annotated[Integer, Field(ge=0), Setting("pa")] = 1
    """Surfaces, each over its own pair of directions."""
    lines: Annotated[Integer, Field(ge=0), Setting("ln")] = 5
    """One-dimensional profiles."""

    @model_validator(mode="after")
    def _check(self) -> Self:
        if self.points % 2 == 0:
            raise ValueError("points should be odd: 0 is one of them")
        if self.pairs == self.lines == 0:
            raise ValueError("pairs or lines should be at least 1")
        return self


_LANDSCAPES = {
    "kind": TextColumn("surface or line."),
    "index": IntegerColumn("Number of the surface or line, from 0."),
    "a": Column("Position along the first direction."),
    "b": Column("Position along the second direction; 0 on a line."),
    "loss": Column("Training loss.", "nats"),
}


def _rows(record: dict[str, Any], path: Path) -> Iterator[dict[str, Any]]:
    """Yield the points of surfaces and lines; rows of a surface follow the second direction."""
    if record.get("status") != "finished":
        return
    members = disk.read_arrays(path.with_suffix(".npz"), "axis")
    axis = members.pop("axis").tolist()
    for member, losses in members.items():
        kind, _, index = member.partition(":")
        if kind in ("surface", "line"):
            points = itertools.product(axis if kind == "surface" else [0.0], axis)
            for (b, a), loss in zip(points, losses.ravel().tolist(), strict=True):
                yield {"kind": kind, "index": int(index), "a": a, "b": b, "loss": loss}


ENTRY = Measure(
    version="landscape-v1",
    settings=LandscapeSettings,
    columns={
        "landscape_rise": Column(
            "Mean over random lines of (f(-r) + f(r)) / 2 - f(0), f the training loss and r half "
            "of the norm of each filter (Li et al. 2018).",
            label="Rise of the loss along random directions",
        )
    },
    also_writes=(".npz",),
    figures=(
        Figure(
            "landscape",
            "Loss surface",
            "Landscape",
            caption=(
                "Training loss over a plane through the trained weights (cross), along two random "
                "directions with the norms of the model's filters (Li et al. 2018, arXiv "
                "1712.09913). Closer lines are steeper slopes."
            ),
            kind="surface",
            table="landscapes",
            panels=(Panel("loss", "Loss surface", "training loss{nats}"),),
        ),
        Figure(
            "landscape_lines",
            "Loss along random directions",
            "Landscape",
            caption=(
                "Rise of the training loss from the trained weights along random directions (Li et "
                "al. 2018, arXiv 1712.09913). Thin lines are means over the directions of a run, "
                "thick ones means over seeds with 95 % intervals."
            ),
            kind="curves",
            table="landscapes",
            panels=(Panel("rise", "Rise of the loss", "f(a) − f(0){nats}"),),
            over=("a",),
        ),
    ),
    tables={"landscapes": Table(_LANDSCAPES, _rows, keys=("kind", "index", "a", "b"))},
    order=8,
)

Loss = Callable[[float, float], float]
# Two directions -> the loss at (a, b) of the plane that they span.
Plane = Callable[["Arrays", "Arrays"], Loss]

# Fixed and the same for every run: runs are compared along directions of the same draws.
DIRECTION_SEED = 0
SAVE_SECONDS = 1.0  # at least, between two writes of the finished rows


def direction(weights: Arrays, seed: int | Sequence[int]) -> Arrays:
    """Return a filter-normalised random direction, float32, which seed and shapes fix.

    A filter is all that makes one feature map or one neuron's input: the last axis counts the
    filters. Tensors of one dimension or less (biases, scales and shifts of normalisations) get 0.
    """
    random = np.random.default_rng(seed)
    filters = {key: np.zeros(array.shape, np.float32) for key, array in weights.items()}
    for key, array in weights.items():
        if array.ndim > 1:
            drawn = random.standard_normal(array.shape)
            axes = tuple(range(array.ndim - 1))
            target = np.sqrt(np.square(array.astype(np.float64)).sum(axes))
            norm = np.sqrt(np.square(drawn).sum(axes))
            filters[key] = (drawn * (target / (norm + 1e-10))).astype(np.float32)
    return filters


def axis(points: int) -> np.ndarray:
    """Return the positions along a direction, float64 of shape (points,), 0 in the middle."""
    half = points // 2
    return np.arange(-half, half + 1) / half


def rise(losses: np.ndarray) -> float:
    middle = len(losses) // 2
    r = max(1, middle // 2)  # of two that are equally near to a half, the nearer to 0
    with np.errstate(invalid="ignore"):  # a loss may be infinite
        return float((losses[middle - r] + losses[middle + r]) / 2 - losses[middle])


def rows(settings: dict[str, Any]) -> list[tuple[int, int, float]]:
    """Return the rows to compute: first and second direction, and the position b along the second.

    A row has f(w + a * first + b * second) for every a of the axis. Pair k is directions 2k and
    2k + 1; line i is direction i. A line with a direction of a pair is part of that pair's surface.
    """
    grid, pairs = axis(settings["points"]).tolist(), settings["pairs"]
    surfaces = [(2 * pair, 2 * pair + 1, b) for pair in range(pairs) for b in grid]
    return surfaces + [(line, line, 0.0) for line in range(2 * pairs, settings["lines"])]


def members(losses: np.ndarray, settings: dict[str, Any]) -> Arrays:
    """Return the arrays of the npz, `axis`, `surface:0` ..., `line:0` ..., by the rows' losses."""
    points, pairs = settings["points"], settings["pairs"]
    surfaces = losses[: pairs * points].reshape(pairs, points, points)
    extra_lines = losses[pairs * points :]  # the lines outside all surfaces
    within = [
        line for surface in surfaces for line in (surface[points // 2], surface[:, points // 2])
    ]
    lines = [*within, *extra_lines][: settings["lines"]]
    return {
        "axis": axis(points),
        **{f"surface:{pair}": surface for pair, surface in enumerate(surfaces)},
        **{f"line:{index}": line for index, line in enumerate(lines)},
    }


def measure(
    plane: Plane, weights: Arrays, settings: dict[str, Any], kept: Path | None = None, key: str = ""
) -> Measured:
    """Compute every surface and line of the settings around the minimiser `weights`.

    The rise is None without lines, or if a loss on them is not finite.

    Args:
        kept: File of finished rows, from which a killed job continues.
        key: Rows in a file with another key are not used.
    """
    grid, saved = axis(settings["points"]).tolist(), time.monotonic()
    computed = kept_rows(kept, key) if kept else []
    remaining = itertools.groupby(rows(settings)[len(computed) :], key=lambda row: row[:2])
    for spanned, of_plane in remaining:
        loss = plane(*(direction(weights, (DIRECTION_SEED, i)) for i in spanned))
        for *_, b in of_plane:
            computed.append(np.array([loss(a, b) for a in grid]))
            if kept and time.monotonic() - saved >= SAVE_SECONDS:
                disk.write_arrays(kept, {"key": np.array(key), "losses": np.array(computed)})
                saved = time.monotonic()
    arrays = members(np.array(computed), settings)
    rises = [rise(arrays[f"line:{line}"]) for line in range(settings["lines"])]
    mean = math.fsum(rises) / len(rises) if rises and np.isfinite(rises).all() else None
    return Measured({"landscape_rise": mean}, arrays=arrays)


def kept_rows(path: Path, key: str) -> list[np.ndarray]:
    with contextlib.suppress(UserError):
        arrays = disk.read_arrays(path, "key", "losses")
        if str(arrays["key"]) == key:
            return list(arrays["losses"])
    return []


def plane_of(objective: Objective) -> Plane:
    """Return the planes through an objective's current weights.

    The weights are moved inside the graph, in float32; at (0, 0) they are unchanged.
    """
    import tensorflow as tf

    # Directions are 0 elsewhere.
    moved = [variable for variable in objective.variables if len(variable.shape) > 1]
    origins = [tf.constant(variable.numpy()) for variable in moved]
    directions = [[tf.Variable(tf.zeros_like(origin)) for origin in origins] for _ in range(2)]

    @tf.function(autograph=False, input_signature=[tf.TensorSpec([], tf.float32)] * 2)
    def sums(a: tf.Tensor, b: tf.Tensor) -> tf.Tensor:
        for variable, origin, first, second in zip(moved, origins, *directions, strict=True):
            variable.assign(origin + a * first + b * second)
        return objective.totals()[0]

    def loss(a: float, b: float) -> float:
        chunk_sums = sums(tf.constant(a, tf.float32), tf.constant(b, tf.float32))
        return sum(chunk_sums.numpy().tolist()) / objective.examples

    def plane(first: Arrays, second: Arrays) -> Loss:
        for variables, arrays in zip(directions, (first, second), strict=True):
            # Both are in the model's order.
            values = [array for array in arrays.values() if array.ndim > 1]
            for variable, value in zip(variables, values, strict=True):
                variable.assign(value)
        return loss

    return plane


def measure_run(run: FinishedRun, settings: dict[str, Any]) -> Measured:
    """Measure the landscape around a run's weights; a killed job continues from its rows."""
    from batchscope.training import models

    objective = run.training_loss(settings)
    key = f"{ENTRY.version} {disk.file_sha256(run.weights_file(settings['weights']))}"
    weights, _ = models.weights(objective.model)
    return measure(plane_of(objective), weights, settings, run.scratch / "rows.npz", key)
