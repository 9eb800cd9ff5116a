"""The factors of a training run and the codec between factors and path names.

Whatever changes a number stands in its path. A run is named by its factors::

    digits-1f0a93c2+small_cnn+bs=256+lr=0.1+opt=sgd+ep=40+seed=0

Core factors are always spelled. Every other one is spelled only where it differs from its
*birth value*, which is frozen on the day the factor is added, so that no old name ever
changes. What is trained with is the value parsed back from the name.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Collection
from typing import Any

from batchscope import parameters
from batchscope.parameters import Parameter, Value

OPTIMIZERS = (
    "adadelta",
    "adafactor",
    "adagrad",
    "adam",
    "adamax",
    "adamw",
    "ftrl",
    "lamb",
    "lion",
    "nadam",
    "rmsprop",
    "sgd",
)

# Far above what anyone runs: more is a slip of the hand.
MOST_EXAMPLES, MOST_EPOCHS, MOST_STEPS = 10**8, 10**6, 10**6
MOST_THREADS, MOST_DEVICES = 4096, 1024

FACTORS: dict[str, Parameter] = {
    factor.name: factor
    for factor in (
        # Core: always spelled, in this order; data set and model without their alias.
        Parameter("dataset", "data", "str", None, "Data set, by its name under `datasets`."),
        Parameter("model", "model", "str", None, "Model, by its name."),
        Parameter(
            *("batch_size", "bs", "int", None, "Examples per update.", "examples"),
            minimum=1,
            maximum=MOST_EXAMPLES,
        ),
        Parameter("learning_rate", "lr", "float", None, "Rate before any scaling.", above=0),
        Parameter("optimizer", "opt", "str", None, "Keras optimizer.", choices=OPTIMIZERS),
        Parameter(
            *("epochs", "ep", "int", None, "Horizon of the training.", "epochs"),
            minimum=1,
            maximum=MOST_EPOCHS,
        ),
        Parameter(
            "seed",
            "seed",
            "int",
            None,
            "Fixes initial weights and data order.",
            minimum=0,
            maximum=2**32 - 1,
        ),
        # Later: spelled only where they differ from their birth value. Append; never reorder.
        Parameter(
            "momentum",
            "mom",
            "float",
            0.0,
            "Momentum of sgd and rmsprop.",
            minimum=0,
            maximum=1,
        ),
        Parameter("nesterov", "nest", "bool", False, "Nesterov momentum of sgd."),
        Parameter(
            "monitor",
            "mon",
            "str",
            "validation_loss",
            "What picks the best weights and stops a training.",
            choices=("validation_loss", "validation_accuracy", "train_loss", "train_accuracy"),
        ),
        Parameter(
            "patience",
            "pat",
            "int",
            0,
            "Epochs without improvement after which a training stops; 0 never stops it.",
            "epochs",
            minimum=0,
            maximum=MOST_EPOCHS,
        ),
        Parameter(
            "learning_rate_scaling",
            "lrs",
            "str",
            "none",
            "How the rate follows batch_size / base_batch_size.",
            choices=("none", "linear", "sqrt"),
        ),
        Parameter(
            "base_batch_size",
            "bbs",
            "int",
            32,
            "Batch size that the rate is for.",
            minimum=1,
            maximum=MOST_EXAMPLES,
        ),
        Parameter("device", "dev", "str", "cpu", "Where to train.", choices=("cpu", "gpu")),
        Parameter(
            *("threads", "th", "int", 1, "Threads of a training.", "threads"),
            minimum=1,
            maximum=MOST_THREADS,
        ),
        Parameter(
            "warmup_epochs",
            "wu",
            "int",
            0,
            "Epochs over which the rate rises from the unscaled to the scaled one.",
            "epochs",
            minimum=0,
            maximum=MOST_EPOCHS,
        ),
        Parameter(
            "target_train_loss",
            "ttl",
            "float",
            0.0,
            "Training loss of an epoch, and of the weights at its end, at which a training stops; "
            "0 never stops it.",
            minimum=0,
        ),
        Parameter("update_norms", "un", "bool", False, "Whether the norm of every update is kept."),
        Parameter(
            "replicas",
            "rep",
            "int",
            1,
            "Devices among which every batch is divided (tf.distribute.MirroredStrategy).",
            minimum=1,
            maximum=MOST_DEVICES,
        ),
        Parameter(
            "augmentation",
            "aug",
            "str",
            "none",
            "What is done to the training images; crop doubles the training set.",
            choices=("none", "crop", "random"),
        ),
        Parameter(
            "method",
            "method",
            "str",
            "plain",
            "How an update uses its batch.",
            choices=("plain", "conservative", "robust"),
        ),
        Parameter(
            "gamma",
            "gamma",
            "float",
            1.0,
            "Weight of the distance from the weights before an update, for conservative.",
            minimum=0,
        ),
        Parameter(
            "inner_steps",
            "inner",
            "int",
            5,
            "Steps on every batch, for conservative.",
            "steps",
            minimum=1,
            maximum=MOST_STEPS,
        ),
        Parameter(
            "rho",
            "rho",
            "float",
            0.05,
            "Distance within which the worst case counts, for robust.",
            above=0,
        ),
    )
}

# Factors that one method of using a batch alone reads.
METHOD_PARAMETERS = {"conservative": ("gamma", "inner_steps"), "robust": ("rho",)}

# What a run's time per step depends on: its timing configuration is named by these alone.
TIMING_FACTORS = (
    "dataset",
    "model",
    "batch_size",
    "optimizer",
    "device",
    "threads",
    "momentum",
    "nesterov",
    "replicas",
    "augmentation",
    "method",
    "inner_steps",
)
_TIMING_CORE = ("dataset", "model", "batch_size", "optimizer", "device", "threads")

# What an experiment of times may vary besides: a training is always the loop in the graph, over
# arrays in memory. Spelled only where they differ from their birth value. Append; never reorder.
TIMING_ONLY_FACTORS: dict[str, Parameter] = {
    factor.name: factor
    for factor in (
        Parameter(
            "loop",
            "loop",
            "str",
            "graph",
            "What drives the training steps.",
            choices=("graph", "eager", "function", "fit", "fit_steps"),
        ),
        Parameter(
            "input_pipeline",
            "in",
            "str",
            "plain",
            "Where a step's batch comes from; plain: the graph's own arrays for the loop in the "
            "graph, tf.data without any remedy for the others; jpeg: files of the resized images, "
            "written just before and so in the page cache.",
            choices=("plain", "map", "prefetch", "cache", "jpeg"),
        ),
        Parameter(
            "delay_seconds",
            "delay",
            "float",
            0.0,
            "Wait before every step; its throughput is timed in turns with and without it.",
            "s",
            minimum=0,
        ),
        Parameter(
            "framework",
            "fw",
            "str",
            "tensorflow",
            "What computes the training steps; any but tensorflow has an environment of its own.",
            choices=("tensorflow", "pytorch", "mxnet", "jax"),
        ),
    )
}


def digest(definition: Any) -> str:
    """Returns 8 hexadecimal digits that stand for a JSON-like definition."""
    canonical = json.dumps(definition, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(canonical.encode()).hexdigest()[:8]


def token(name: str, definition_digest: str | None) -> str:
    """Returns the name of a data set or model in a path: `name` or `name-1f0a93c2`."""
    return f"{name}-{definition_digest}" if definition_digest else name


def split_token(text: str) -> tuple[str, str | None]:
    """Returns name and digest (or None) of a data set's or model's token."""
    match = re.fullmatch(rf"({parameters.NAME_PATTERN})(?:-([0-9a-f]{{8}}))?", text)
    if match is None:
        raise ValueError(f"Expected name or name-1f0a93c2. Received: {text!r}")
    return match[1], match[2]


def run_name(factors: dict[str, Value]) -> str:
    """Returns the name of a run.

    Args:
        factors: Full name -> value; `dataset` and `model` are tokens. Factors left out have
            their birth value.

    Raises:
        ValueError: If the name is longer than 200 characters or a value does not survive.
    """
    return _spell(factors, tuple(FACTORS), {name for name, each in FACTORS.items() if each.core})


def parse_run(name: str) -> dict[str, Value]:
    """Returns every factor of a run, by full name, in the registry's order.

    Raises:
        ValueError: If the name is not one that `run_name` would have written.
    """
    return dict(_parse(name, tuple(FACTORS), run_name))


def gradients_per_update(factors: dict[str, Any]) -> int:
    """Returns how many gradients of its batch an update computes, by the factors of its method."""
    return {"plain": 1, "conservative": factors["inner_steps"], "robust": 2}[factors["method"]]


def timing_name(factors: dict[str, Value]) -> str:
    """Returns the name of a run's timing configuration: what its time per step depends on."""
    return _spell(factors, TIMING_FACTORS, _TIMING_CORE)


def parse_timing(name: str) -> dict[str, Value]:
    """Returns every factor of a timing configuration, by full name."""
    return dict(_parse(name, TIMING_FACTORS, timing_name))


def _aliased(order: tuple[str, ...]) -> dict[str, Parameter]:
    """Returns the factors that a name holds with their alias: all but data set and model."""
    return {name: FACTORS[name] for name in order if name not in ("dataset", "model")}


def _spell(factors: dict[str, Value], order: tuple[str, ...], always: Collection[str]) -> str:
    parts = [str(factors["dataset"]), str(factors["model"])]
    parts += parameters.encode(_aliased(order), factors, always)
    return parameters.checked("+".join(parts))


def _parse(name: str, order: tuple[str, ...], spell: Any) -> list[tuple[str, Value]]:
    parts = name.split("+")
    if len(parts) < 3:
        raise ValueError(f"Expected dataset+model+factors. Received: {name!r}")
    values: dict[str, Any] = {"dataset": parts[0], "model": parts[1]}
    for part in parts[:2]:
        split_token(part)
    values.update(parameters.decode(_aliased(order), parts[2:], name))
    try:
        written = spell(values)
    except (KeyError, TypeError) as error:
        raise ValueError(f"Expected every core factor in {name!r}. Missing: {error}") from None
    if written != name:
        raise ValueError(f"Expected the canonical name {written!r}. Received: {name!r}")
    return [(key, values.get(key, FACTORS[key].birth)) for key in order]
