"""The constants of the optimizers, and rules that scale them with the batch size.

With k = batch_size / base_batch_size:

- `beta_scaling: half_life` makes beta_2 into beta_2^k, so that the second moment forgets after the
  same number of examples (M. Marek et al. 2025, "Small Batch Size Training for Language Models",
  arXiv 2507.07101).
- `beta_scaling: square_root` makes both betas into 1 - k (1 - beta) and epsilon into
  epsilon / sqrt(k). With `learning_rate_scaling: sqrt` that is the square-root scaling rule of Adam
  (S. Malladi et al. 2022, "On the SDEs and Scaling Rules for Adaptive Gradient Algorithms",
  arXiv 2205.10287).
"""

from __future__ import annotations

from typing import Any

# This value of a constant stands for the default of the optimizer.
DEFAULT = -1.0

_ADAM = {"beta_1": 0.9, "beta_2": 0.999, "epsilon": 1e-7}
# Optimizer, as papers write it -> Keras's defaults. A missing weight decay is 0.
_OPTIMIZERS: dict[str, dict[str, float]] = {
    "Adadelta": {"epsilon": 1e-7},
    "Adafactor": {},
    "Adagrad": {"epsilon": 1e-7},
    "Adam": _ADAM,
    "Adamax": _ADAM,
    "AdamW": {**_ADAM, "weight_decay": 0.004},
    "FTRL": {},
    "LAMB": _ADAM,
    "Lion": {"beta_1": 0.9, "beta_2": 0.99},
    "Nadam": _ADAM,
    "RMSprop": {"epsilon": 1e-7},
    "SGD": {},
}
# Optimizer, as study files write it -> Keras's defaults.
DEFAULT_CONSTANTS = {title.lower(): constants for title, constants in _OPTIMIZERS.items()}
TITLES = {title.lower(): title for title in _OPTIMIZERS}
CONSTANT_NAMES = ("beta_1", "beta_2", "epsilon", "weight_decay")
# Rule -> constants that an optimizer needs for it.
SCALED_CONSTANTS = {"half_life": ("beta_2",), "square_root": ("beta_1", "beta_2", "epsilon")}


def optimizers_with(*names: str) -> tuple[str, ...]:
    """Return the optimizers that have all of some constants.

    All optimizers except ftrl have a weight decay: ftrl computes weights from sums of gradients.
    """
    required = set(names) - {"weight_decay"}
    optimizers = [name for name, values in DEFAULT_CONSTANTS.items() if required <= set(values)]
    return tuple(name for name in optimizers if name != "ftrl" or "weight_decay" not in names)


def scaled_constants(factors: dict[str, Any]) -> dict[str, float]:
    """Return every constant that a run is trained with, after the scaling rules."""
    constants = {"weight_decay": 0.0, **DEFAULT_CONSTANTS[factors["optimizer"]]}
    constants |= {name: factors[name] for name in constants if factors[name] != DEFAULT}
    k = factors["batch_size"] / factors["base_batch_size"]
    if factors["beta_scaling"] == "half_life":
        constants["beta_2"] **= k
    elif factors["beta_scaling"] == "square_root":
        for name in ("beta_1", "beta_2"):
            constants[name] = 1 - k * (1 - constants[name])
        constants["epsilon"] /= k**0.5
    return constants
