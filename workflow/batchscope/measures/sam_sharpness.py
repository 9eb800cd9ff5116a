"""Sharpness along the gradient: how much the training loss rises in one step of fixed length.

With f the mean training loss without dropout, w the trainable weights and g its gradient::

    sam_sharpness = f(w + rho * g / ||g||) - f(w)

The step is the first-order solution of max f(w + e) over ||e|| <= rho, so the value stands for
the sharpness that sharpness-aware minimisation penalises.

Source: Foret et al. 2021 (arXiv 2010.01412), equation 2, with p = 2.
"""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from batchscope.catalogue import parameters
from batchscope.measures import FinishedRun, Measured, finite
from batchscope.measures.maximiser import LossAndGradient


def measure(
    loss_and_gradient: LossAndGradient,
    loss: Callable[[np.ndarray], float],
    x: np.ndarray,
    rhos: Sequence[float],
) -> Measured:
    """Measures the rise of the loss at weights x, float64 of shape (n,), for lengths of the step.

    A rise is 0 where the gradient is 0, None where a loss is not finite.
    """
    _, gradient = loss_and_gradient(x)
    # Not the gradient's own loss: two graphs may round differently, and small rises count.
    at_x = loss(x)
    norm = float(np.linalg.norm(gradient))
    rises = {
        f"sam_sharpness_{parameters.number_text(float(rho))}": (
            loss(x + (rho / norm) * gradient) - at_x if norm else 0.0
        )
        for rho in rhos
    }
    details = {"loss": at_x, "gradient_norm": norm, "parameters": len(x)}
    return Measured(finite(rises), details)


def measure_run(run: FinishedRun, settings: dict[str, Any]) -> Measured:
    loss, described = run.training_loss(settings)
    given = loss.loss_and_gradient, loss.loss, loss.weights()
    return measure(*given, settings["rhos"]).also(described)
