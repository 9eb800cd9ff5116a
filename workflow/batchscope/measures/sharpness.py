"""Sharpness of a minimiser: how much the training loss can rise in a small box around it.

Metric 2.1 of Keskar et al. 2017 (arXiv 1609.04836), with f the mean training loss without
dropout, x the trainable weights and A+ the pseudo-inverse of A::

    C = { z in R^p : |z_i| <= epsilon * (|(A+ x)_i| + 1) }
    sharpness = 100 * ( max over y in C of f(x + A y)  -  f(x) ) / ( 1 + f(x) )

Full space: A is the identity. Subspace: A is n x p with columns of N(0, 1), not normalised.
The maximum is searched by L-BFGS-B, stopped after a few iterations, from several starts: the
value is a lower bound of what is defined.
"""

from __future__ import annotations

import hashlib
import math
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import numpy as np

from batchscope.catalogue import name_codec
from batchscope.catalogue.measures import MEASURES
from batchscope.measures import FinishedRun, Measured
from batchscope.measures.maximiser import LossAndGradient, Maximum, NotFinite, maximise
from batchscope.measures.subspace import Subspace

if TYPE_CHECKING:
    from batchscope.training import losses

# Seeds are fixed and the same for every run, so that runs are compared on the same examples,
# in the same subspace (where they have the same number of weights), from the same starts.
SUBSET_SEED = 0
SUBSPACE_SEED = 0
START_SEED = 0


def sharpness(maximum: float, loss: float) -> float:
    """Returns 100 * (maximum - f(x)) / (1 + f(x)), without unit (like a percentage)."""
    return 100.0 * (maximum - loss) / (1.0 + loss)


def column(space: str, epsilon: float) -> str:
    """Returns the column of the tables for a space and a box size."""
    return f"sharpness_{space}_{name_codec.number_text(float(epsilon))}"


def subset(available: int, examples: int) -> np.ndarray:
    """Returns the indices of the training examples behind the loss, int64.

    The first `examples` of one fixed permutation, so that smaller subsets lie in larger ones; 0, or
    more than there are, for all.
    """
    order = np.random.default_rng(SUBSET_SEED).permutation(available).astype(np.int64)
    return order[: examples or available]


def describe_subset(indices: np.ndarray, available: int) -> dict[str, Any]:
    """Returns what identifies a subset: count, seed, and the digest of the indices."""
    digest = hashlib.sha256(indices.astype("<i8").tobytes()).hexdigest()
    counts = {"examples": len(indices), "available": available}
    return {**counts, "seed": SUBSET_SEED, "sha256": digest}


def measure(
    loss_and_gradient: LossAndGradient, x: np.ndarray, settings: dict[str, Any]
) -> tuple[dict[str, float | None], dict[str, Any]]:
    """Measures sharpness in every space and box of the settings.

    Args:
        loss_and_gradient: Weights, float64 of shape (n,), -> mean loss and its gradient.
        x: The minimiser, float64 of shape (n,), exactly representable by the model.

    Returns:
        Column -> sharpness (None where the loss at x is not finite), and the details that say
        how far each value can be trusted.

    Raises:
        UserError: If the subspace does not fit.
    """
    at_x = loss_and_gradient(x)
    details: dict[str, Any] = {
        "loss": at_x[0],
        "parameters": len(x),
        "lower_bound": True,
        "start_seed": START_SEED,
    }
    values: dict[str, float | None] = dict.fromkeys(MEASURES["sharpness"].columns_for(settings))
    searches = details["searches"] = {}
    for space in settings["spaces"]:
        function, at_zero, coordinates, described = _space(
            space, loss_and_gradient, x, at_x, settings
        )
        details.update(described)
        for epsilon in settings["epsilons"]:
            name = column(space, epsilon)
            width = epsilon * (np.abs(coordinates) + 1.0)
            search = searches[name] = {"space": space, "epsilon": epsilon}
            limits = settings["iterations"], settings["starts"], START_SEED
            try:
                maximum = maximise(function, at_zero, width, *limits)
            except NotFinite as error:
                search["message"] = str(error)
                continue
            values[name] = sharpness(maximum.value, at_x[0])
            search |= {"sharpness": values[name], **describe(maximum, at_x[0])}
    return values, details


def _space(
    space: str,
    loss_and_gradient: LossAndGradient,
    x: np.ndarray,
    at_x: tuple[float, np.ndarray],
    settings: dict[str, Any],
) -> tuple[LossAndGradient, tuple[float, np.ndarray], np.ndarray, dict[str, Any]]:
    """Returns the loss over y, its value at 0, A+ x, and what the record says of A."""
    if space == "full":
        return lambda y: loss_and_gradient(x + y), at_x, x, {}
    subspace = Subspace(len(x), settings["dimensions"], SUBSPACE_SEED, settings["memory_mb"])
    coordinates, condition = subspace.coordinates(x)

    def function(y: np.ndarray) -> tuple[float, np.ndarray]:
        loss, gradient = loss_and_gradient(x + subspace.times(y))
        return loss, subspace.transposed_times(gradient)

    described = {
        "dimensions": subspace.dimensions,
        "distribution": "N(0, 1), columns not normalised",
        "seed": SUBSPACE_SEED,
        "in_memory": subspace.in_memory,
        "columns_per_block": subspace.block,
        "gram_condition": condition,
    }
    at_zero = at_x[0], subspace.transposed_times(at_x[1])
    return function, at_zero, coordinates, {"subspace": described}


def describe(maximum: Maximum, loss: float) -> dict[str, Any]:
    """Returns what says how far a value can be trusted, for the record."""
    starts = [
        {**asdict(search), "sharpness": sharpness(search.maximum, loss)}
        for search in maximum.searches
    ]
    best = starts[maximum.best]
    own = ("iterations", "evaluations", "message", "share_at_bound")
    return {
        "maximum": maximum.value,
        "best_start": maximum.best,
        "best_start_kind": best["start"],
        **{key: best[key] for key in own},
        "total_evaluations": sum(search["evaluations"] for search in starts),
        "non_finite": sum(search["non_finite"] for search in starts),
        "starts": starts,
    }


def measure_run(run: FinishedRun, settings: dict[str, Any]) -> Measured:
    """Measures the sharpness of a run; raises `UserError` if the subspace does not fit."""
    loss, described = objective(run, settings)
    values, details = measure(loss.loss_and_gradient, loss.weights(), settings)
    return Measured(values, {**details, **described})


def objective(
    run: FinishedRun, settings: dict[str, Any], chunk: int | None = None
) -> tuple[losses.Objective, dict[str, Any]]:
    """Returns the mean loss of a run's network over the recorded subset of training examples.

    Args:
        settings: `examples`; `weights` (`final` where missing) and `batch_norm` (`moving`).
        chunk: Examples per forward pass; even chunks by the images' size where None.

    Returns:
        The loss at the run's weights, and what the record says of it: subset and chunk size.
    """
    # Imported here: the pure functions above need no TensorFlow.
    from batchscope.training import losses

    train = run.data.examples("train")
    indices = subset(len(train.labels), settings["examples"])
    most = losses.chunk_size(run.data.input_shape, train.images.dtype)
    chunk = chunk or even_chunk(len(indices), most)
    found = losses.Objective(
        run.model(settings.get("weights", "final")),
        train.rows(indices),
        chunk,
        batch_statistics=settings.get("batch_norm") == "batch",
    )
    return found, {"subset": describe_subset(indices, len(train.labels)), "chunk": chunk}


def even_chunk(examples: int, most: int) -> int:
    """Returns the chunk that splits the examples most evenly into chunks of at most `most`.

    One shape for nearly all chunks compiles once, and where batch statistics are used no chunk
    is left with a few examples.
    """
    return math.ceil(examples / math.ceil(examples / most))
