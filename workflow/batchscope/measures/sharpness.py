"""Sharpness of a minimiser: how much the training loss can rise in a small box around it.

Metric 2.1 of Keskar et al. 2017 (arXiv 1609.04836), with f the mean training loss without
dropout, x the trainable weights and A+ the pseudo-inverse of A::

    C = { z in R^p : |z_i| <= epsilon * (|(A+ x)_i| + 1) }
    sharpness = 100 * ( max over y in C of f(x + A y)  -  f(x) ) / ( 1 + f(x) )

Full space: A is the identity. Subspace: A is n x p with columns of N(0, 1), not normalised.
The maximum is searched by L-BFGS-B, stopped after a few iterations, from several starts: the
value is a lower bound of what is defined.
"""

from dataclasses import asdict
from typing import Any

import numpy as np

from batchscope.catalogue import parameters
from batchscope.catalogue.measures import MEASURES
from batchscope.measures import FinishedRun, Measured
from batchscope.measures.maximiser import LossAndGradient, NotFinite, Search, maximise
from batchscope.measures.subspace import Subspace

# The same for every run, so that runs are compared in the same subspace (where they have the same
# number of weights), from the same starts.
SUBSPACE_SEED = 0
START_SEED = 0


def sharpness(maximum: float, loss: float) -> float:
    """Returns 100 * (maximum - f(x)) / (1 + f(x)), without unit (like a percentage)."""
    return 100.0 * (maximum - loss) / (1.0 + loss)


def column(space: str, epsilon: float) -> str:
    return f"sharpness_{space}_{parameters.number_text(float(epsilon))}"


def measure(
    loss_and_gradient: LossAndGradient, x: np.ndarray, settings: dict[str, Any]
) -> Measured:
    """Measures sharpness in every space and box of the settings.

    The details say how far each value can be trusted; a value is None where the loss at x is not
    finite. The minimiser x, float64 of shape (n,), must be exactly representable by the model.
    """
    loss, gradient = loss_and_gradient(x)
    details: dict[str, Any] = {
        "loss": loss,
        "parameters": len(x),
        "lower_bound": True,
        "start_seed": START_SEED,
    }
    values: dict[str, float | None] = dict.fromkeys(MEASURES["sharpness"].columns_for(settings))
    searches = details["searches"] = {}
    for space in settings["spaces"]:
        matrix, coordinates, slope = None, x, gradient
        if space == "subspace":
            matrix = Subspace(len(x), settings["dimensions"], SUBSPACE_SEED, settings["memory_mb"])
            coordinates, condition = matrix.coordinates(x)
            slope = matrix.transposed_times(gradient)
            details["subspace"] = {
                "dimensions": matrix.dimensions,
                "distribution": "N(0, 1), columns not normalised",
                "seed": SUBSPACE_SEED,
                "in_memory": matrix.in_memory,
                "columns_per_block": matrix.block,
                "gram_condition": condition,
            }
        function = _within(loss_and_gradient, x, matrix)
        for epsilon in settings["epsilons"]:
            width = epsilon * (np.abs(coordinates) + 1.0)
            search = searches[column(space, epsilon)] = {"space": space, "epsilon": epsilon}
            limits = settings["iterations"], settings["starts"], START_SEED
            try:
                starts = maximise(function, (loss, slope), width, *limits)
            except NotFinite as error:
                search["message"] = str(error)
                continue
            search |= _describe(starts, loss)
            values[column(space, epsilon)] = search["sharpness"]
    return Measured(values, details)


def _within(function: LossAndGradient, x: np.ndarray, matrix: Subspace | None) -> LossAndGradient:
    """Returns the loss over y, where x + A y are the weights; A is the identity where None."""

    def loss_and_gradient(y: np.ndarray) -> tuple[float, np.ndarray]:
        if matrix is None:
            return function(x + y)
        loss, gradient = function(x + matrix.times(y))
        return loss, matrix.transposed_times(gradient)

    return loss_and_gradient


def _describe(searches: list[Search], loss: float) -> dict[str, Any]:
    """Returns the sharpness, and what says how far it can be trusted, for the record."""
    starts = [
        {**asdict(search), "sharpness": sharpness(search.maximum, loss)} for search in searches
    ]
    best = max(starts, key=lambda start: start["maximum"])  # the first of equals
    own = ("sharpness", "maximum", "iterations", "evaluations", "message", "share_at_bound")
    return {
        **{key: best[key] for key in own},
        "best_start": starts.index(best),
        "best_start_kind": best["start"],
        "total_evaluations": sum(start["evaluations"] for start in starts),
        "non_finite": sum(start["non_finite"] for start in starts),
        "starts": starts,
    }


def measure_run(run: FinishedRun, settings: dict[str, Any]) -> Measured:
    """Measures the sharpness of a run; raises `UserError` if the subspace does not fit."""
    loss, described = run.training_loss(settings)
    return measure(loss.loss_and_gradient, loss.weights(), settings).also(described)
