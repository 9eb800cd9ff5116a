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

from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np

from batchscope.catalogue import parameters
from batchscope.catalogue.measures import MEASURES
from batchscope.measures import FinishedRun, Measured
from batchscope.measures.maximiser import LossAndGradient, Maximum, NotFinite, maximise
from batchscope.measures.subspace import Subspace

# The same for every run, so that runs are compared in the same subspace (where they have the same
# number of weights), from the same starts.
SUBSPACE_SEED = 0
START_SEED = 0


def sharpness(maximum: float, loss: float) -> float:
    """Returns 100 * (maximum - f(x)) / (1 + f(x)), without unit (like a percentage)."""
    return 100.0 * (maximum - loss) / (1.0 + loss)


def column(space: str, epsilon: float) -> str:
    """Returns the column of the tables for a space and a box size."""
    return f"sharpness_{space}_{parameters.number_text(float(epsilon))}"


@dataclass(frozen=True)
class _Space:
    """The loss over y, where x + A y are the weights."""

    function: LossAndGradient
    at_zero: tuple[float, np.ndarray]  # value and gradient at y = 0
    coordinates: np.ndarray  # A+ x
    described: dict[str, Any] = field(default_factory=dict)  # what the record says of A


def measure(
    loss_and_gradient: LossAndGradient, x: np.ndarray, settings: dict[str, Any]
) -> Measured:
    """Measures sharpness in every space and box of the settings.

    The details say how far each value can be trusted; a value is None where the loss at x is not
    finite.

    Args:
        x: The minimiser, float64 of shape (n,), exactly representable by the model.

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
    for name in settings["spaces"]:
        space = _space(name, loss_and_gradient, x, at_x, settings)
        details.update(space.described)
        for epsilon in settings["epsilons"]:
            width = epsilon * (np.abs(space.coordinates) + 1.0)
            search = searches[column(name, epsilon)] = {"space": name, "epsilon": epsilon}
            limits = settings["iterations"], settings["starts"], START_SEED
            try:
                maximum = maximise(space.function, space.at_zero, width, *limits)
            except NotFinite as error:
                search["message"] = str(error)
                continue
            search |= {"sharpness": sharpness(maximum.value, at_x[0])}
            search |= _describe(maximum, at_x[0])
            values[column(name, epsilon)] = search["sharpness"]
    return Measured(values, details)


def _space(
    name: str,
    loss_and_gradient: LossAndGradient,
    x: np.ndarray,
    at_x: tuple[float, np.ndarray],
    settings: dict[str, Any],
) -> _Space:
    if name == "full":
        return _Space(lambda y: loss_and_gradient(x + y), at_x, x)
    matrix = Subspace(len(x), settings["dimensions"], SUBSPACE_SEED, settings["memory_mb"])
    coordinates, condition = matrix.coordinates(x)

    def function(y: np.ndarray) -> tuple[float, np.ndarray]:
        loss, gradient = loss_and_gradient(x + matrix.times(y))
        return loss, matrix.transposed_times(gradient)

    described = {
        "dimensions": matrix.dimensions,
        "distribution": "N(0, 1), columns not normalised",
        "seed": SUBSPACE_SEED,
        "in_memory": matrix.in_memory,
        "columns_per_block": matrix.block,
        "gram_condition": condition,
    }
    at_zero = at_x[0], matrix.transposed_times(at_x[1])
    return _Space(function, at_zero, coordinates, {"subspace": described})


def _describe(maximum: Maximum, loss: float) -> dict[str, Any]:
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
    loss, described = run.training_loss(settings)
    return measure(loss.loss_and_gradient, loss.weights(), settings).also(described)
