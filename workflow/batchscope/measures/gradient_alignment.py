"""Norm of the mean gradient of 1, 2, 4 ... examples over the mean norm of single ones, at the
start, middle and end of the training.

The article argues that larger batches take smaller steps, because the gradients in a batch compete:
their mean is shorter than a single gradient. The ratio is 1 if all gradients are equal, and
1/sqrt(b) if they are orthogonal and equally long. A mean of norms is at most their root mean square
(Jensen), so the ratio of unrelated gradients may be below 1/sqrt(b). The same gradients with random
signs are therefore the reference: they keep lengths and axes, but share no direction. With
G_ij = g_i . g_j::

    || mean of g_i over a batch ||^2  =  sum of G_ij over the batch's i and j  /  b^2

So the norms of all batches follow from the gradients of single examples, which are computed once.
There is no dropout, and batch normalisation uses its moving statistics.

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
from batchscope.measures.sharpness import TILE_WEIGHTS
from batchscope.study.model import Integer, Model, Setting
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
    from batchscope.measures.measure_job import FinishedRun


class GradientAlignmentSettings(Model):
    """Settings of `gradient_alignment`."""

    examples: Annotated[Integer, Field(ge=2), Setting("ex", "examples")] = 256
    """Training examples."""
    draws: Annotated[Integer, Field(ge=1), Setting("dr")] = 20
    """Random divisions into batches."""


_ALIGNMENT_COLUMNS = {
    "place": TextColumn("start, middle or end of the training."),
    "epoch": IntegerColumn("Epoch of the weights.", "epochs"),
    "examples": IntegerColumn("Examples in a batch.", "examples"),
    "norm": Column("Mean norm of the gradient of a batch."),
    "ratio": Column("norm over the mean norm of single examples' gradients."),
    "independent": Column("Mean ratio with random signs."),
}


def _alignment_rows(record: dict[str, Any], path: Path) -> Iterator[dict[str, Any]]:
    """Yield the alignment at each place, by number of examples in a batch."""
    names = ("norm", "ratio", "independent")
    for place in record.get("places") or ():
        lists = [place[name] for name in ("batch_sizes", *names)]
        for values in zip(*lists, strict=True):
            row = dict(zip(("examples", *names), values, strict=True))
            yield {"place": place["place"], "epoch": place["epoch"], **row}


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
            kind="norms",
            table="alignment",
            panels=(Panel("ratio", "", "‖mean of b‖ / mean ‖single‖", Scale.LOG),),
            columns=("place", "epoch", "examples", "norm", "independent"),
        ),
    ),
    tables={"alignment": Table(_ALIGNMENT_COLUMNS, _alignment_rows, keys=("place", "examples"))},
    order=5,
)

DRAW_SEED = 0  # all runs and places have the same seed, and so the same batches
SIGN_SEED = 1
SIGN_DRAWS = 4  # draws of random signs per random order
MEMORY_BYTES = 2048 * 10**6  # maximum size of the gradients in memory

Gradient = Callable[[int], np.ndarray]  # index of an example -> its gradient, shape (size,)


def gram_matrix(gradient: Gradient, examples: int, size: int) -> np.ndarray:
    """Return the inner products of all pairs of gradients of shape (size,), float64.

    A pass computes all gradients and keeps a share of their components as float32, in at most
    `MEMORY_BYTES` bytes.
    """
    passes = math.ceil(4 * examples * size / MEMORY_BYTES)
    width = math.ceil(size / passes)
    gram = np.zeros((examples, examples))
    rows = np.empty((examples, width), np.float32)
    for start in range(0, size, width):
        stop = min(start + width, size)
        for index in range(examples):
            rows[index, : stop - start] = gradient(index)[start:stop]
        for tile in range(0, stop - start, TILE_WEIGHTS):
            part = rows[:, tile : min(tile + TILE_WEIGHTS, stop - start)].astype(np.float64)
            gram += part @ part.T
    return gram


def mean_cosine(gram: np.ndarray) -> float | None:
    """Return the mean cosine between two different vectors from their inner products.

    Vectors of length 0 have no direction and are left out. Return None if fewer than two remain.
    """
    lengths = np.sqrt(np.diag(gram))
    nonzero = lengths > 0
    count = int(nonzero.sum())
    if count < 2 or not np.isfinite(gram).all():
        return None
    cosines = gram[np.ix_(nonzero, nonzero)] / np.outer(lengths[nonzero], lengths[nonzero])
    return float((cosines.sum() - np.trace(cosines)) / (count * (count - 1)))


def batch_norms(gram: np.ndarray, draws: int) -> dict[str, list[float]]:
    """Return the mean norm of the mean of b vectors by b, from the inner products of all vectors.

    Each draw is a random order of the vectors, divided into batches that do not overlap; a last,
    smaller batch is left out.

    Returns:
        `batch_sizes` 1, 2, 4, ... up to n; `norm`, their mean norms over batches and draws;
        `ratio`, norm over the norm of single vectors (NaN if it is 0); `independent`, the
        average ratio if every vector has a random sign.
    """
    sizes = [2**power for power in range(len(gram).bit_length())]
    random_order = np.random.default_rng(DRAW_SEED)
    random_sign = np.random.default_rng(SIGN_SEED)
    norms = np.empty((draws, len(sizes)))
    signed_norms = np.empty((draws, SIGN_DRAWS, len(sizes)))
    for draw in range(draws):
        order = random_order.permutation(len(gram))
        ordered = gram[np.ix_(order, order)]
        norms[draw] = [_mean_norm(ordered, size) for size in sizes]
        for sign_draw in range(SIGN_DRAWS):
            signs = random_sign.choice([-1.0, 1.0], len(gram))
            signed = ordered * signs * signs[:, None]
            signed_norms[draw, sign_draw] = [_mean_norm(signed, size) for size in sizes]
    norm = norms.mean(axis=0)
    single_norm = norm[0] if norm[0] > 0 else math.nan
    return {
        "batch_sizes": sizes,
        "norm": norm.tolist(),
        "ratio": (norm / single_norm).tolist(),
        "independent": (signed_norms.mean(axis=(0, 1)) / single_norm).tolist(),
    }


def _mean_norm(gram: np.ndarray, size: int) -> float:
    """Return the mean norm over batches of `size` consecutive vectors, by their mean vectors."""
    batches = len(gram) // size
    used = batches * size
    blocks = gram[:used, :used].reshape(batches, size, batches, size)
    sums = np.einsum("iaib->i", blocks)
    # If vectors cancel, rounding may leave a negative sum.
    return float(np.sqrt(np.maximum(sums, 0.0)).mean() / size)


def measure_run(run: FinishedRun, settings: dict[str, Any]) -> Measured:
    """Measure a run at start, middle and end; a cosine is None without a middle or directions."""
    from batchscope.study import snapshot_epochs
    from batchscope.training import models

    epochs_run = run.record["epochs_run"]
    loss = run.training_loss(settings, chunk=1)
    values: dict[str, float | None] = {}
    places = []
    for place, epoch, name in (
        ("start", 0, "initial"),
        ("middle", snapshot_epochs.middle_epoch(epochs_run), f"epochs/{snapshot_epochs.MIDDLE}"),
        ("end", epochs_run, "final"),
    ):
        if epoch is None:
            continue
        models.set_weights(loss.model, *run.weights(name))
        gram = gram_matrix(loss.chunk_gradient, loss.examples, loss.size)
        values[f"gradient_cosine_{place}"] = mean_cosine(gram)
        places.append({"place": place, "epoch": epoch, **batch_norms(gram, settings["draws"])})
    return Measured(values, {"places": places})
