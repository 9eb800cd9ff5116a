"""Rise of the loss after one step of length rho along the gradient (Foret et al. 2021, arXiv
2010.01412).

With f the mean training loss without dropout, w the trainable weights and g its gradient::

    sam_sharpness = f(w + rho * g / ||g||) - f(w)

The step is the first-order solution of max f(w + e) over ||e|| <= rho, so the value approximates
the sharpness that sharpness-aware minimisation penalises.

Source: Foret et al. 2021 (arXiv 2010.01412), equation 2, with p = 2.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np

from batchscope.measures import Measured, finite
from batchscope.measures.sharpness import LossAndGradient
from batchscope.study.model import Positive, Setting, Unique, number_text
from batchscope.study.specifications import (
    Column,
    Examples,
    Figure,
    Measure,
    Panel,
    WeightsSettings,
)

if TYPE_CHECKING:
    from batchscope.measures.measure_job import FinishedRun


class SamSharpnessSettings(WeightsSettings):
    """Settings of `sam_sharpness`."""

    rhos: Annotated[Unique[Positive], Setting("rho")] = (0.05,)
    """Lengths of the step."""
    examples: Examples = 2000
    """Training examples for the loss; 0 means `all`."""


ENTRY = Measure(
    version="sam_sharpness-v1",
    settings=SamSharpnessSettings,
    columns={
        "sam_sharpness_{rhos}": Column(
            "Rise of the loss after one step of length rho along its gradient.",
            label="SAM's sharpness, rho {rhos}",
        )
    },
    figures=(
        Figure(
            "sam_sharpness",
            "Sharpness along the gradient",
            "Sharpness",
            "Rise of the training loss after one step of length ρ along its gradient (Foret et "
            "al. 2021).",
            panels=(Panel("sam_sharpness_{rhos}", "ρ = {rhos}", "f(w + ρ g/‖g‖) − f(w){nats}"),),
        ),
    ),
    order=7,
)


def measure(
    loss_and_gradient: LossAndGradient,
    loss: Callable[[np.ndarray], float],
    x: np.ndarray,
    rhos: Sequence[float],
) -> Measured:
    """Measure the rise of the loss from weights x, float64 of shape (n,), for each length of step.

    A rise is 0 if the gradient is 0, and None if a loss is not finite.
    """
    _, gradient = loss_and_gradient(x)
    # `loss` computes both losses, because the graph of the gradient may round differently.
    loss_at_x = loss(x)
    norm = float(np.linalg.norm(gradient))
    rises = {
        f"sam_sharpness_{number_text(float(rho))}": (
            loss(x + (rho / norm) * gradient) - loss_at_x if norm else 0.0
        )
        for rho in rhos
    }
    return Measured(finite(rises))


def measure_run(run: FinishedRun, settings: dict[str, Any]) -> Measured:
    loss = run.training_loss(settings)
    return measure(loss.loss_and_gradient, loss.loss, loss.weights(), settings["rhos"])
