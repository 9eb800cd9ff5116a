"""The recommended training as a few lines of Keras and of PyTorch, to copy."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pandas

from batchscope import wording
from batchscope.study import optimizer_constants, run_factors

_KERAS = {**optimizer_constants.TITLES, "ftrl": "Ftrl", "lamb": "Lamb"}
_PYTORCH = {"nadam": "NAdam"} | {
    name: _KERAS[name]
    for name in ("sgd", "adam", "adamw", "adamax", "rmsprop", "adagrad", "adadelta")
}
# Arguments that make an optimizer of PyTorch update like its counterpart in Keras.
_AS_KERAS = {
    "rmsprop": {"alpha": 0.9},
    "adagrad": {"initial_accumulator_value": 0.1},
    "adadelta": {"rho": 0.95},
}
_DECOUPLED = ("adamw", "sgd")  # PyTorch adds the weight decay of the others to the gradient
_LEFT_OUT = run_factors.affecting(run_factors.Affects.UPDATE)


def lines(
    factors: Mapping[str, Any], epochs: int | None, patience: int | None
) -> dict[str, list[str]]:
    """Return the lines by library; PyTorch is left out if it lacks the optimizer.

    Args:
        factors: Those of the recommended runs, as far as they are known.
        epochs: Epochs to train at most; None if unknown.
        patience: Epochs without improvement after which to stop; None to train all epochs.
    """
    optimizer, size = factors.get("optimizer"), int(factors["batch_size"])
    known = {name: factors[name] for name in _LEFT_OUT if pandas.notna(factors.get(name))}
    others = [name for name in known if known[name] != run_factors.FACTORS[name].default]
    first = [f"# also: {', '.join(f'{name} {known[name]}' for name in others)}"] if others else []
    keras, pytorch = [*first], [*first]
    pytorch.append(f"loader = torch.utils.data.DataLoader(data, batch_size={size}, shuffle=True)")
    if optimizer in _KERAS:
        of_keras, of_pytorch = _arguments(factors)
        keras.append(f"optimizer = keras.optimizers.{_KERAS[optimizer]}({_call(of_keras)})")
        keras.append("model.compile(optimizer=optimizer, loss=loss)")
        given = f"{_PYTORCH.get(optimizer)}(model.parameters(), {_call(of_pytorch)})"
        pytorch.append(f"optimizer = torch.optim.{given}")
    fit = [f"batch_size={size}", *([f"epochs={epochs}"] if epochs else [])]
    if patience is not None:
        given = f"patience={patience}, restore_best_weights=True"
        keras.append(f"stop = keras.callbacks.EarlyStopping({given})")
        fit += ["validation_data=validation", "callbacks=[stop]"]
    keras.append(f"model.fit(x, y, {', '.join(fit)})")
    if epochs:
        stop = f"  # stop after {patience} without a lower validation loss; keep the best weights"
        pytorch.append(f"for epoch in range({epochs}):{'' if patience is None else stop}")
        pytorch.append("    for x, y in loader: ...")
    lacking = optimizer in _KERAS and not (optimizer in _PYTORCH and of_pytorch)
    return {"Keras": keras} if lacking else {"Keras": keras, "PyTorch": pytorch}


def _arguments(factors: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the arguments of an optimizer for Keras and for PyTorch.

    For Keras only those that differ from its defaults; for PyTorch none if its weight decay is
    coupled to the gradient.
    """
    rates = (factors.get(name) for name in ("effective_learning_rate", "learning_rate"))
    rate, optimizer = float(next(filter(pandas.notna, rates))), factors["optimizer"]
    if not {*run_factors.FACTORS} <= {*factors}:  # of a command, or of external runs
        return {"learning_rate": rate}, {"lr": rate}
    momentum = {name: factors[name] for name in ("momentum", "nesterov") if factors[name]}
    constants = optimizer_constants.effective(dict(factors))
    defaults = {"weight_decay": 0.0, **optimizer_constants.CONSTANTS[optimizer]}
    changed = {name: value for name, value in constants.items() if value != defaults[name]}
    keras = {"learning_rate": rate, **momentum, **changed}
    if constants["weight_decay"] and optimizer not in _DECOUPLED:
        return keras, {}
    names = {"epsilon": "eps", "weight_decay": "weight_decay"}
    pytorch = {names[name]: constants[name] for name in names if constants.get(name)}
    if "beta_1" in constants:
        pytorch["betas"] = (constants["beta_1"], constants["beta_2"])
    return keras, {"lr": rate, **momentum, **_AS_KERAS.get(optimizer, {}), **pytorch}


def _call(arguments: Mapping[str, Any]) -> str:
    """Return keyword arguments as Python has them."""
    texts = {
        name: wording.shortest(value) if isinstance(value, float) else value
        for name, value in arguments.items()
    }
    return ", ".join(f"{name}={text}" for name, text in texts.items())
