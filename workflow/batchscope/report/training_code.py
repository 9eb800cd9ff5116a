"""The recommended training as code: factors of its runs -> a few lines of Keras."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pandas

from batchscope.core import display
from batchscope.study import optimizer_constants, run_factors

_CLASSES = {**optimizer_constants.TITLES, "ftrl": "Ftrl", "lamb": "Lamb"}
_LEFT_OUT = run_factors.factors_affecting(run_factors.Affects.UPDATE)


def keras_lines(factors: Mapping[str, Any], epochs: int | None, patience: int | None) -> list[str]:
    """Return the lines; none if the optimizer is unknown, as it is for most external runs.

    Args:
        factors: Factors of the recommended runs.
        epochs: Epochs to train at most; None if unknown.
        patience: Epochs without improvement after which to stop; None to train all epochs.
    """
    optimizer = factors.get("optimizer")
    if optimizer not in _CLASSES:
        return []
    changed = {
        name: factors[name]
        for name in _LEFT_OUT
        if pandas.notna(factors.get(name)) and factors[name] != run_factors.FACTORS[name].default
    }
    also = ", ".join(f"{name} {value}" for name, value in changed.items())
    code = [f"# also: {also}"] if also else []
    code.append(f"optimizer = keras.optimizers.{_CLASSES[optimizer]}({_arguments(factors)})")
    code.append("model.compile(optimizer=optimizer, loss=loss)")
    fit = [f"batch_size={int(factors['batch_size'])}"]
    if epochs:
        fit.append(f"epochs={epochs}")
    if patience is not None:
        stop = f"patience={patience}, restore_best_weights=True"
        code.append(f"stop = keras.callbacks.EarlyStopping({stop})")
        fit += ["validation_data=validation", "callbacks=[stop]"]
    return [*code, f"model.fit(x, y, {', '.join(fit)})"]


def _arguments(factors: Mapping[str, Any]) -> str:
    """Return the arguments of an optimizer that differ from its defaults."""
    rates = (factors.get(name) for name in ("effective_learning_rate", "learning_rate"))
    arguments = {"learning_rate": float(next(filter(pandas.notna, rates)))}
    if (
        factors.keys() >= run_factors.FACTORS.keys()
    ):  # Runs of a command and external runs lack factors.
        momentum = {name: factors[name] for name in ("momentum", "nesterov") if factors[name]}
        constants = optimizer_constants.scaled_constants(dict(factors))
        defaults = {
            "weight_decay": 0.0,
            **optimizer_constants.DEFAULT_CONSTANTS[factors["optimizer"]],
        }
        arguments |= momentum
        arguments |= {
            name: constants[name] for name in constants if constants[name] != defaults[name]
        }
    texts = (
        f"{name}={display.shortest(value) if isinstance(value, float) else value}"
        for name, value in arguments.items()
    )
    return ", ".join(texts)
