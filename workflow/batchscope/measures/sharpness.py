"""Sharpness, metric 2.1 of Keskar et al. 2017 (arXiv 1609.04836): a lower bound by L-BFGS-B from
several starts.

With f the mean training loss without dropout, x the trainable weights and A+ the pseudo-inverse of
A::

    C = { z in R^p : |z_i| <= epsilon * (|(A+ x)_i| + 1) }
    sharpness = 100 * ( max over y in C of f(x + A y)  -  f(x) ) / ( 1 + f(x) )

Full space: A is the identity. Subspace: A is n x p with columns of N(0, 1), not normalised.
The maximum is searched by L-BFGS-B, stopped after a few iterations, from several starts: the
value is a lower bound of the definition.
"""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any, Literal

import numpy as np
from pydantic import Field

from batchscope.measures import Measured
from batchscope.measures.maximiser import LossAndGradient, NonFiniteValue, Search, maximise
from batchscope.measures.subspace import Subspace
from batchscope.study.common_settings import Examples, OfWeights
from batchscope.study.model import Integer, Positive, Unique
from batchscope.study.setting import Setting, number_text
from batchscope.study.specifications import Figure, Measure, Panel, PositiveColumn

if TYPE_CHECKING:
    from batchscope.measures.finished_run import FinishedRun


class SharpnessSettings(OfWeights):
    """Settings of `sharpness`."""

    epsilons: Annotated[Unique[Positive], Setting("eps")] = (0.001, 0.0005)
    """Box sizes."""
    spaces: Annotated[Unique[Literal["full", "subspace"]], Setting("sp")] = ("full", "subspace")
    """Spaces to search."""
    examples: Examples = 2000
    """Training examples for the loss; 0 or `all` for the whole training set."""
    iterations: Annotated[Integer, Field(ge=1), Setting("it")] = 10
    """L-BFGS-B iterations per start."""
    starts: Annotated[Integer, Field(ge=1), Setting("st")] = 4
    """Starting points of the maximiser."""
    dimensions: Annotated[Integer, Field(ge=1), Setting("dim")] = 100
    """Columns of the subspace."""
    batch_norm: Annotated[Literal["moving", "batch"], Setting("bn")] = "moving"
    """Statistics that batch normalisation uses."""
    memory_mb: Annotated[Integer, Field(ge=1), Setting("mem", "MB")] = 2048
    """Limit on the subspace."""


ENTRY = Measure(
    version="sharpness-v1",
    settings=SharpnessSettings,
    columns={
        "sharpness_{spaces}_{epsilons}": PositiveColumn(
            "100 * (highest loss found in the box - loss) / (1 + loss), in the `full` space or a "
            "random `subspace`, for a box of size epsilon (Keskar et al. 2017, metric 2.1).",
            unit="% of 1 + loss",
            label="Sharpness ({spaces}, epsilon {epsilons})",
            direction="rises",
            source="Keskar et al. 2017, arXiv 1609.04836",
            words={"full": "full space", "subspace": "random subspace"},
        )
    },
    figures=(
        Figure(
            "sharpness",
            "Sharpness",
            "Sharpness",
            "Highest loss found in a box of size ε around the weights, relative to 1 + loss "
            "(Keskar et al. 2017, metric 2.1). The search is stopped early: a lower bound.",
            panels=(
                Panel(
                    "sharpness_{spaces}_{epsilons}",
                    "{spaces}, ε = {epsilons}",
                    "sharpness (% of 1 + loss)",
                ),
            ),
        ),
    ),
    order=2,
)

# The same for every run: runs with the same number of weights are compared in the same subspace,
# from the same starts.
SUBSPACE_SEED = 0
START_SEED = 0


def sharpness(maximum: float, loss: float) -> float:
    """Return 100 * (maximum - f(x)) / (1 + f(x)), without unit (like a percentage)."""
    return 100.0 * (maximum - loss) / (1.0 + loss)


def column(space: str, epsilon: float) -> str:
    return f"sharpness_{space}_{number_text(float(epsilon))}"


def measure(
    loss_and_gradient: LossAndGradient, x: np.ndarray, settings: dict[str, Any]
) -> Measured:
    """Measure sharpness in every space and box of the settings.

    The details have the evidence for each value. A value is None if the loss at x is not
    finite. The minimiser x, float64 of shape (n,), must be exactly representable by the model.
    """
    loss, gradient = loss_and_gradient(x)
    details: dict[str, Any] = {
        "loss": loss,
        "parameters": len(x),
        "lower_bound": True,
        "start_seed": START_SEED,
    }
    values: dict[str, float | None] = dict.fromkeys(ENTRY.columns_for(settings))
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
            except NonFiniteValue as error:
                search["message"] = str(error)
                continue
            search |= _describe(starts, loss)
            values[column(space, epsilon)] = search["sharpness"]
    return Measured(values, details)


def _within(function: LossAndGradient, x: np.ndarray, matrix: Subspace | None) -> LossAndGradient:
    """Return the loss as a function of y at the weights x + A y; A is the identity by default."""

    def loss_and_gradient(y: np.ndarray) -> tuple[float, np.ndarray]:
        if matrix is None:
            return function(x + y)
        loss, gradient = function(x + matrix.times(y))
        return loss, matrix.transposed_times(gradient)

    return loss_and_gradient


def _describe(searches: list[Search], loss: float) -> dict[str, Any]:
    """Return the sharpness and its evidence, for the record."""
    starts = [
        {**asdict(search), "sharpness": sharpness(search.maximum, loss)} for search in searches
    ]
    best = max(starts, key=lambda start: start["maximum"])  # the first of equals
    keys = ("sharpness", "maximum", "iterations", "evaluations", "message", "share_at_bound")
    return {
        **{key: best[key] for key in keys},
        "best_start": starts.index(best),
        "best_start_kind": best["start"],
        "total_evaluations": sum(start["evaluations"] for start in starts),
        "non_finite": sum(start["non_finite"] for start in starts),
        "starts": starts,
    }


def measure_run(run: FinishedRun, settings: dict[str, Any]) -> Measured:
    """Measure the sharpness of a run; raise `UserError` if the subspace does not fit."""
    loss, described = run.training_loss(settings)
    return measure(loss.loss_and_gradient, loss.weights(), settings).also(described)
