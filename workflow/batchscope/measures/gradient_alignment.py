"""Norm of the mean gradient of 1, 2, 4 ... examples over the mean norm of single ones, at the
start, middle and end of the training.

Larger batches take smaller steps, the article argues, since the gradients in a batch compete, so
that their mean is shorter than they are. The measure is the mean norm of the mean gradient of b
examples, b = 1, 2, 4, ..., over the mean norm of single ones: 1 if all gradients are equal,
1/sqrt(b) if they are orthogonal and equally long. A mean of norms is at most their root mean
square (Jensen), so the value may be below 1/sqrt(b) for unrelated gradients. They are compared with
themselves, by the same means, after every one has been given a random sign, which leaves lengths
and axes as they are and no direction in common. With G_ij = g_i . g_j::

    || mean of g_i over a batch ||^2  =  sum of G_ij over the batch's i and j  /  b^2

so that every batch's norm comes from the gradients of single examples, computed once. Without
dropout; batch normalisation uses its moving statistics.

Source: D. Chang and A. Pathak 2020, "Effect of Batch Size on Neural Net Training", figures 14
to 16.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
from pydantic import Field

from batchscope.measures import Measured
from batchscope.measures.subspace import MEMORY, TILE
from batchscope.study.model import Integer, Model
from batchscope.study.setting import Setting
from batchscope.study.specifications import (
    Column,
    Figure,
    IntegerColumn,
    Measure,
    Panel,
    Scale,
    Table,
    TextColumn,
)

if TYPE_CHECKING:
    from batchscope.measures.finished_run import FinishedRun


class GradientAlignmentSettings(Model):
    """Settings of `gradient_alignment`."""

    examples: Annotated[Integer, Field(ge=2), Setting("ex", "examples")] = 256
    """Training examples."""
    draws: Annotated[Integer, Field(ge=1), Setting("dr")] = 20
    """Random divisions into batches."""


_ALIGNMENT = {
    "place": TextColumn("start, middle or end of the training."),
    "epoch": IntegerColumn("Epoch of the weights.", "epochs"),
    "examples": IntegerColumn("Examples in a batch.", "examples"),
    "norm": Column("Mean norm of the gradient of a batch."),
    "ratio": Column("norm over the mean norm of single examples' gradients."),
    "independent": Column("Mean ratio with random signs."),
}


def _rows(record: dict[str, Any], path: Path) -> Iterator[dict[str, Any]]:
    """Yield the alignment at each place, by number of examples in a batch."""
    names = ("norm", "ratio", "independent")
    for place in record.get("places") or ():
        same = {name: place[name] for name in ("place", "epoch")}
        for examples, *values in zip(
            place["batch_sizes"], *(place[name] for name in names), strict=True
        ):
            yield {**same, "examples": examples, **dict(zip(names, values, strict=True))}


ENTRY = Measure(
    version="gradient_alignment-v3",
    settings=GradientAlignmentSettings,
    columns={
        f"gradient_cosine_{place}": Column(
            f"Mean cosine between the gradients of two training examples ({place} of training)."
        )
        for place in ("start", "middle", "end")
    },
    middle=True,
    figures=(
        Figure(
            "gradient_alignment",
            "Alignment of gradients",
            "Gradients",
            "Norm of the mean gradient of b examples over the mean norm of single gradients. The "
            "thin line is the same with random signs. Above it gradients agree, on it they share "
            "no direction, below it they cancel.",
            kind="curves",
            table="alignment",
            panels=(Panel("ratio", "", "‖mean of b‖ / mean ‖single‖", Scale.LOG),),
            columns=("place", "epoch", "examples", "norm", "independent"),
        ),
    ),
    tables={"alignment": Table(_ALIGNMENT, _rows, keys=("place", "examples"))},
    order=5,
)

DRAW_SEED = 0  # the same for every run and place: the same batches
SIGN_SEED = 1
SIGN_DRAWS = 4  # random signs per random order

Gradient = Callable[[int], np.ndarray]


def gram_matrix(gradient: Gradient, examples: int, size: int) -> np.ndarray:
    """Return the inner products of all pairs of gradients of shape (size,), float64.

    Each pass over all gradients keeps a share of the weights as float32 in `MEMORY` bytes.
    """
    passes = math.ceil(4 * examples * size / MEMORY)
    width = math.ceil(size / passes)
    gram = np.zeros((examples, examples))
    rows = np.empty((examples, width), np.float32)
    for start in range(0, size, width):
        stop = min(start + width, size)
        for index in range(examples):
            rows[index, : stop - start] = gradient(index)[start:stop]
        for tile in range(0, stop - start, TILE):
            part = rows[:, tile : min(tile + TILE, stop - start)].astype(np.float64)
            gram += part @ part.T
    return gram


def mean_cosine(gram: np.ndarray) -> float | None:
    """Return the mean cosine between two different vectors, by their inner products.

    Vectors of length 0 have no direction and are left out. None if fewer than two remain.
    """
    lengths = np.sqrt(np.diag(gram))
    kept = lengths > 0
    count = int(kept.sum())
    if count < 2 or not np.isfinite(gram).all():
        return None
    cosines = gram[np.ix_(kept, kept)] / np.outer(lengths[kept], lengths[kept])
    return float((cosines.sum() - np.trace(cosines)) / (count * (count - 1)))


def batch_norms(gram: np.ndarray, draws: int) -> dict[str, list[float]]:
    """Return the mean norm of the mean vector of b vectors, by b, from their inner products.

    Each draw is a random order of the vectors, divided into batches that do not overlap; a
    last, smaller batch is left out.

    Returns:
        `batch_sizes` 1, 2, 4, ... up to n; `norm`, their mean norms over batches and draws;
        `ratio`, norm over the norm of single vectors (NaN if it is 0); `independent`, the
        average ratio if every vector has a random sign.
    """
    sizes = [2**power for power in range(len(gram).bit_length())]
    random, signs = np.random.default_rng(DRAW_SEED), np.random.default_rng(SIGN_SEED)
    norms, signed = np.empty((draws, len(sizes))), np.empty((draws, SIGN_DRAWS, len(sizes)))
    for draw in range(draws):
        order = random.permutation(len(gram))
        ordered = gram[np.ix_(order, order)]
        norms[draw] = [_mean_norm(ordered, size) for size in sizes]
        for flip in range(SIGN_DRAWS):
            sign = signs.choice([-1.0, 1.0], len(gram))
            flipped = ordered * sign * sign[:, None]
            signed[draw, flip] = [_mean_norm(flipped, size) for size in sizes]
    norm = norms.mean(axis=0)
    single = norm[0] if norm[0] > 0 else math.nan
    return {
        "batch_sizes": sizes,
        "norm": norm.tolist(),
        "ratio": (norm / single).tolist(),
        "independent": (signed.mean(axis=(0, 1)) / single).tolist(),
    }


def _mean_norm(gram: np.ndarray, size: int) -> float:
    """Return the mean norm of the means of `size` vectors that follow each other."""
    batches = len(gram) // size
    used = batches * size
    blocks = gram[:used, :used].reshape(batches, size, batches, size)
    sums = np.einsum("iaib->i", blocks)
    # Vectors that cancel may leave a rounding below zero.
    return float(np.sqrt(np.maximum(sums, 0.0)).mean() / size)


def measure_run(run: FinishedRun, settings: dict[str, Any]) -> Measured:
    """Measure a run at start, middle and end; a cosine is None without a middle or direction."""
    from batchscope.study import snapshot_epochs
    from batchscope.training import models

    epochs_run = run.record["epochs_run"]
    loss = run.training_loss(settings, chunk=1)
    values: dict[str, float | None] = {}
    places = []
    for place, epoch, name in (
        ("start", 0, "initial"),
        ("middle", snapshot_epochs.middle(epochs_run), f"epochs/{snapshot_epochs.MIDDLE}"),
        ("end", epochs_run, "final"),
    ):
        if epoch is None:
            continue
        models.set_weights(loss.model, *run.weights(name))
        gram = gram_matrix(loss.chunk_gradient, loss.examples, loss.size)
        values[f"gradient_cosine_{place}"] = mean_cosine(gram)
        places.append({"place": place, "epoch": epoch, **batch_norms(gram, settings["draws"])})
    return Measured(values, {"places": places})
