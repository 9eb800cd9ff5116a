"""The constants of the optimizers beside their learning rate, and how they follow the batch size.

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

# Stands for a constant that is left to the optimizer.
DEFAULT = -1.0
WORDS = (("default", DEFAULT),)

_ADAM = {"beta_1": 0.9, "beta_2": 0.999, "epsilon": 1e-7}
# Optimizers, as papers write them: Keras's defaults; of weight decay 0 where nothing stands.
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
CONSTANTS = {title.lower(): constants for title, constants in _OPTIMIZERS.items()}
TITLES = {title.lower(): title for title in _OPTIMIZERS}
NAMES = ("beta_1", "beta_2", "epsilon", "weight_decay")
# What an optimizer must have for its betas to be scaled.
SCALED = {"half_life": ("beta_2",), "square_root": ("beta_1", "beta_2", "epsilon")}


def having(*names: str) -> tuple[str, ...]:
    """Returns the optimizers that have all of some constants.

    Weight decay every one has but ftrl, which makes the weights anew from sums over the gradients.
    """
    decaying = {*CONSTANTS} - {"ftrl"} if "weight_decay" in names else {*CONSTANTS}
    wanted = {*names} - {"weight_decay"}
    return tuple(name for name, own in CONSTANTS.items() if name in decaying and wanted <= {*own})


def effective(factors: dict[str, Any]) -> dict[str, float]:
    """Return every constant that a run is trained with, after the scaling rules."""
    found = {"weight_decay": 0.0, **CONSTANTS[factors["optimizer"]]}
    found |= {name: factors[name] for name in found if factors[name] != DEFAULT}
    k = factors["batch_size"] / factors["base_batch_size"]
    if factors["beta_scaling"] == "half_life":
        found["beta_2"] **= k
    elif factors["beta_scaling"] == "square_root":
        for name in ("beta_1", "beta_2"):
            found[name] = 1 - k * (1 - found[name])
        found["epsilon"] /= k**0.5
    return found
