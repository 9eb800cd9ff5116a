"""Surfaces and profiles of the training loss along filter-normalised random directions (Li et al.
2018, arXiv 1712.09913).

A random direction d is N(0, 1). Each of its filters d_j gets the norm of the weights' filter w_j::

    d_j <- d_j * ||w_j|| / (||d_j|| + 1e-10)        surface(a, b) = f(w + a * d_1 + b * d_2)

Here f is the mean training loss without dropout. The scaling makes networks with weights of
different size comparable. Batch normalisation keeps its moving statistics.

Surface k spans the directions 2k and 2k + 1, and line i is the profile along direction i. `measure`
computes the losses row by row, and a killed job continues with the next row.

Source: H. Li et al., "Visualizing the Loss Landscape of Neural Nets", arXiv 1712.09913, section 4.
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
from batchscope.study.model import Integer, Setting
from batchscope.study.specifications import (
    Column,
    Examples,
    Figure,
    IntegerColumn,
    Measure,
    Panel,
    Table,
    TextColumn,
    WeightsSettings,
)

if TYPE_CHECKING:
    from batchscope.measures.measure_job import FinishedRun
    from batchscope.store.weights import Arrays
    from batchscope.training.losses import Objective


class LandscapeSettings(WeightsSettings):
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


_POINT_COLUMNS = {
    "kind": TextColumn("surface or line."),
    "index": IntegerColumn("Number of the surface or line, from 0."),
    "a": Column("Position along the first direction."),
    "b": Column("Position along the second direction; 0 on a line."),
    "loss": Column("Training loss.", "nats"),
}


def _point_rows(record: dict[str, Any], path: Path) -> Iterator[dict[str, Any]]:
    """Yield the points of surfaces and lines; rows of a surface follow the second direction."""
    if record.get("status") != "finished":
        return
    arrays = disk.read_arrays(path.with_suffix(".npz"), "axis")
    axis = arrays.pop("axis").tolist()
    for name, losses in arrays.items():
        kind, _, index = name.partition(":")
        if kind in ("surface", "line"):
            points = itertools.product(axis if kind == "surface" else [0.0], axis)
            for (b, a), loss in zip(points, losses.ravel().tolist(), strict=True):
                yield {"kind": kind, "index": int(index), "a": a, "b": b, "loss": loss}


ENTRY = Measure(
    version="landscape-v1",
    settings=LandscapeSettings,
    columns={
        "landscape_rise": Column(
            "Mean over random lines of (f(-r) + f(r)) / 2 - f(0), f the training loss and r the "
            "point nearest half of the norm of each filter: 0.48 with 51 points (Li et al. 2018).",
            label="Rise of the loss along random directions",
        )
    },
    also_writes=(".npz",),
    figures=(
        Figure(
            "landscape",
            "Loss surface",
            "Landscape",
            "Training loss over a plane through the trained weights (cross), along two random "
            "directions with the norms of the model's filters (Li et al. 2018, arXiv "
            "1712.09913). Closer lines are steeper slopes.",
            kind="landscape",
            table="landscapes",
            panels=(Panel("loss", "Loss surface", "training loss{nats}"),),
        ),
        Figure(
            "landscape_lines",
            "Loss along random directions",
            "Landscape",
            "Rise of the training loss from the trained weights along random directions (Li et "
            "al. 2018, arXiv 1712.09913). Thin lines are means over the directions of a run, "
            "thick ones means over seeds with 95 % intervals.",
            kind="landscape",
            table="landscapes",
            panels=(Panel("rise", "Rise of the loss", "f(a) − f(0){nats}"),),
            x_columns=("a",),
        ),
    ),
    tables={"landscapes": Table(_POINT_COLUMNS, _point_rows, keys=("kind", "index", "a", "b"))},
    order=8,
)

Loss = Callable[[float, float], float]
# Function from two directions to the loss at (a, b) of the plane that they span.
LossOnPlanes = Callable[["Arrays", "Arrays"], Loss]

# All runs have the same seed, so that they are compared along the same random directions.
DIRECTION_SEED = 0
SAVE_SECONDS = 1.0  # minimum time between two writes of the finished rows


def direction(weights: Arrays, seed: int | Sequence[int]) -> Arrays:
    """Return a filter-normalised random direction, float32; seed and shapes determine the draws.

    A filter has all weights of one feature map or of one neuron: the last axis counts the filters.
    Tensors of one dimension or less (biases, scales and shifts of normalisations) get 0.
    """
    random = np.random.default_rng(seed)
    result = {key: np.zeros(array.shape, np.float32) for key, array in weights.items()}
    for key, array in weights.items():
        if array.ndim > 1:
            draws = random.standard_normal(array.shape)
            filter_axes = tuple(range(array.ndim - 1))
            target_norm = np.sqrt(np.square(array.astype(np.float64)).sum(filter_axes))
            norm = np.sqrt(np.square(draws).sum(filter_axes))
            result[key] = (draws * (target_norm / (norm + 1e-10))).astype(np.float32)
    return result


def axis(points: int) -> np.ndarray:
    """Return the positions along a direction, float64 of shape (points,), 0 in the middle."""
    half = points // 2
    return np.arange(-half, half + 1) / half


def rise(losses: np.ndarray) -> float:
    """Return the mean rise of the losses of a line from its middle to half of its ends."""
    middle = len(losses) // 2
    r = max(1, middle // 2)  # the index nearest to a half; the smaller if two are
    with np.errstate(invalid="ignore"):  # a loss may be infinite
        return float((losses[middle - r] + losses[middle + r]) / 2 - losses[middle])


class SavedRows:
    """Rows of losses in the order of their computation. A killed job continues with the next row.

    Args:
        file: File of the rows.
        key: Rows in a file with another key are not used.
    """

    def __init__(self, file: Path, key: str) -> None:
        self._file, self._key, self._last_save = file, key, time.monotonic()
        self._rows: list[np.ndarray] = []
        self._next = 0  # index of the next row
        with contextlib.suppress(UserError):
            arrays = disk.read_arrays(file, "key", "losses")
            if str(arrays["key"]) == key:
                self._rows = list(arrays["losses"])

    def next_row(self, loss: Loss, positions: np.ndarray, b: float) -> np.ndarray:
        """Return the losses at (a, b) for all positions a, from the file or computed."""
        if self._next == len(self._rows):
            self._rows.append(np.array([loss(a, b) for a in positions]))
            if time.monotonic() - self._last_save >= SAVE_SECONDS:
                members = {"key": np.array(self._key), "losses": np.array(self._rows)}
                disk.write_arrays(self._file, members)
                self._last_save = time.monotonic()
        self._next += 1
        return self._rows[self._next - 1]


def measure(
    loss_on_planes: LossOnPlanes, weights: Arrays, settings: dict[str, Any], rows: SavedRows
) -> Measured:
    """Compute every surface and line of the settings around the trained `weights`.

    The rise is None without lines, or if a loss on a line is not finite.
    """
    positions = axis(settings["points"])
    arrays, rises = {"axis": positions}, []

    def loss_along(*indices: int) -> Loss:
        directions = (direction(weights, (DIRECTION_SEED, index)) for index in indices)
        return loss_on_planes(*directions)

    for pair in range(settings["pairs"]):
        loss = loss_along(2 * pair, 2 * pair + 1)
        surface = [rows.next_row(loss, positions, b) for b in positions]
        arrays[f"surface:{pair}"] = np.array(surface)
    for line in range(settings["lines"]):
        row = rows.next_row(loss_along(line, line), positions, 0.0)
        arrays[f"line:{line}"] = row
        rises.append(rise(row))
    mean = math.fsum(rises) / len(rises) if rises and np.isfinite(rises).all() else None
    return Measured({"landscape_rise": mean}, arrays=arrays)


def planes_through_weights(objective: Objective) -> LossOnPlanes:
    """Return the losses of an objective on planes through its current weights.

    The weights are moved inside the graph, in float32; at (0, 0) they are unchanged.
    """
    import tensorflow as tf

    # Directions are 0 for all other variables.
    moved = [variable for variable in objective.variables if len(variable.shape) > 1]
    origins = [tf.constant(variable.numpy()) for variable in moved]
    directions = [[tf.Variable(tf.zeros_like(origin)) for origin in origins] for _ in range(2)]

    @tf.function(autograph=False, input_signature=[tf.TensorSpec([], tf.float32)] * 2)
    def chunk_losses(a: tf.Tensor, b: tf.Tensor) -> tf.Tensor:
        for variable, origin, first, second in zip(moved, origins, *directions, strict=True):
            variable.assign(origin + a * first + b * second)
        return objective.chunk_losses()

    def loss(a: float, b: float) -> float:
        return sum(chunk_losses(np.float32(a), np.float32(b)).numpy().tolist()) / objective.examples

    def loss_on_plane(first: Arrays, second: Arrays) -> Loss:
        for variables, arrays in zip(directions, (first, second), strict=True):
            # Arrays and variables have the same order.
            values = [array for array in arrays.values() if array.ndim > 1]
            for variable, value in zip(variables, values, strict=True):
                variable.assign(value)
        return loss

    return loss_on_plane


def measure_run(run: FinishedRun, settings: dict[str, Any]) -> Measured:
    """Measure the landscape around a run's weights; a killed job continues from its rows."""
    from batchscope.training import models

    objective = run.training_loss(settings)
    weights_file = run.folder / f"{settings['weights']}.npz"
    key = f"{ENTRY.version} {disk.file_sha256(weights_file)}"
    weights, _ = models.weights(objective.model)
    rows = SavedRows(run.scratch / "losses.npz", key)
    return measure(planes_through_weights(objective), weights, settings, rows)
