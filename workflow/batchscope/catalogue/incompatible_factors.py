"""Incompatible factors of a run, or of a batch size that is timed.

Every check yields a factor and the problem with it. A value by itself is checked
by batchscope.catalogue.coercion, after its parameter.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from batchscope import wording
from batchscope.catalogue import (
    dataset_definitions,
    framework_names,
    horizons,
    name_codec,
    optimizer_constants,
    run_factors,
    run_names,
    sweep_names,
)
from batchscope.catalogue.dataset_definitions import DatasetInfo
from batchscope.catalogue.networks import NETWORKS
from batchscope.catalogue.timings import OF_SWEEPS
from batchscope.errors import UserError
from batchscope.problems import show

# What the frameworks beside TensorFlow do; batchscope.frameworks, which does it, is above this.
FRAMEWORK_MODELS = tuple(name for name, network in NETWORKS.items() if network.frameworks)
FRAMEWORK_OPTIMIZERS = ("sgd", "adam")
FRAMEWORK_TIMINGS = tuple(name for name, entry in OF_SWEEPS.items() if entry.frameworks)

# All that a batch which is divided among replicas, and a loop with Python in it, can do.
_SIMPLE = {
    name: run_factors.FACTORS[name].birth
    for name in ("method", "augmentation", "micro_batch_size", "precision")
}
Factors = dict[str, Any]
Found = Iterator[tuple[str, str]]


def of_examples(factors: Factors, info: DatasetInfo) -> Found:
    """Yields what is wrong with the examples of a training or a timing for what it does with them.

    Args:
        factors: Every factor, each sound by itself; data set and model are ids.
    """
    model, name, side = factors["model"], info.name, info.image_side
    if info.kind is not None:
        yield from _kind(factors, model, name, info.kind)
    least = NETWORKS[model].least_side if model in NETWORKS else 1
    if side is not None and side < least:
        text = f"received {model} for {name}, whose images have {side}x{side} pixels; "
        yield "model", f"{text}at least {least}x{least} are expected, or another model."


def _kind(factors: Factors, model: str, name: str, kind: str) -> Found:
    """What a network does not take, and what is done to images alone."""
    images = dataset_definitions.IMAGES
    taken = NETWORKS[model].kinds if model in NETWORKS else tuple(dataset_definitions.KINDS)
    what = dataset_definitions.KINDS[kind]
    if kind not in taken:
        expected = wording.listed((dataset_definitions.KINDS[each] for each in taken), "or")
        fitting = [each for each, network in NETWORKS.items() if kind in network.kinds]
        others = f"such as {fitting[0]}" if fitting else "of your own"
        text = f"received {model} for {name}, which has {what}; {expected} are expected, or another"
        yield "model", f"{text} model, {others}."
    if kind != images and factors["augmentation"] != "none":
        text = (
            f"received {factors['augmentation']} for {name}, which has {what}; none is expected: "
        )
        yield "augmentation", f"{text}images alone are changed."
    if kind != images and factors.get("input_pipeline") == "jpeg":
        text = f"received jpeg for {name}, which has {what}; another pipeline is expected: images "
        yield "input_pipeline", f"{text}alone are JPEG files."


def of_training(factors: Factors, info: DatasetInfo) -> Found:
    """Yields what is wrong with the factors of a training.

    Args:
        factors: Every factor but the seed, each sound by itself; data set and model are ids.
    """
    yield from _step(factors, info.training_examples)
    warmup = factors["warmup_epochs"]
    if warmup > factors["epochs"]:
        text = f"received {warmup}; at most {factors['epochs']}, the epochs, is expected."
        yield "warmup_epochs", text
    yield from _schedule(factors)
    yield from _constants(factors)
    if info.definition.overlapping:
        text = f"received {info.name}, which is for times alone: its splits overlap; another data "
        yield "dataset", f"{text}set is expected."
    if not factors["threads"]:
        text = "received 'all'; a positive whole number is expected: a training's last bits "
        yield "threads", f"{text}depend on it."


def of_timing(factors: Factors, info: DatasetInfo, timings: Iterable[str]) -> Found:
    """Yields what is wrong with the factors of a timing.

    Args:
        factors: Every factor, each sound by itself; data set and model are ids.
    """
    # The search for the largest batch repeats the images where a batch has more.
    searched = all(OF_SWEEPS[timing].batch_sizes == "searched" for timing in timings)
    yield from _step(factors, None if searched else info.training_examples)
    yield from _loop(factors)
    yield from _framework(factors, tuple(timings))


def _step(factors: Factors, training_size: int | None) -> Found:
    """What a step depends on, in a training or in a timing."""
    if training_size is not None:
        examples = training_size * run_factors.training_copies(factors)
        if factors["batch_size"] > examples:
            yield "batch_size", _too_large(factors, factors["batch_size"], examples)
    yield from _momentum(factors)
    yield from _at_most_the_batch_size(factors, "replicas")
    yield from _method(factors)


def check_batch_size(factors: Factors, batch_size: int, examples: int) -> None:
    """Refuses a batch above the training set: its steps would be those of a smaller one.

    Args:
        factors: Every factor but perhaps the batch size; the data set is a token.
        batch_size: Images that a step is to have.

    Raises:
        UserError: If the batch is larger.
    """
    if batch_size > examples:
        raise UserError(f"batch_size: {_too_large(factors, batch_size, examples)}")


def _too_large(factors: Factors, batch_size: int, examples: int) -> str:
    name = run_names.split_token(factors["dataset"])[0]
    return (
        f"received {batch_size}; at most {examples} is expected, the training examples of {name}."
    )


def _momentum(factors: Factors) -> Found:
    optimizer, momentum = factors["optimizer"], factors["momentum"]
    if momentum and optimizer not in ("sgd", "rmsprop"):
        text = f"received {momentum:g} for {optimizer}; it is expected of sgd and rmsprop alone."
        yield "momentum", text
    if factors["nesterov"] and (optimizer != "sgd" or not momentum):
        given = optimizer if momentum else f"{optimizer} without momentum"
        text = f"received true for {given}; sgd with a momentum above 0 is expected."
        yield "nesterov", text


def _at_most_the_batch_size(factors: Factors, name: str) -> Found:
    if factors[name] > factors["batch_size"]:
        text = f"received {factors[name]}; at most the batch size, "
        yield name, f"{text}{factors['batch_size']}, is expected."


def _method(factors: Factors) -> Found:
    """What a method is given, and what a batch that is divided cannot do."""
    for name, factor in run_factors.FACTORS.items():
        # Of times, only what a step's time depends on is a factor.
        given = factors.get(name, factor.birth) != factor.birth
        if given and factor.method not in ("", factors["method"]):
            text = f"received {show(factors[name])} with method {factors['method']}; "
            yield name, f"{text}it is expected of {factor.method} alone."
    if factors["replicas"] > 1:
        for name, simple in _SIMPLE.items():
            if factors[name] not in (simple, "crop"):
                text = f"received {factors[name]} with {factors['replicas']} replicas; "
                yield name, f"{text}{simple} is expected, or 1 replica."
    yield from _at_most_the_batch_size(factors, "micro_batch_size")
    if factors["micro_batch_size"] and factors["method"] != "plain":
        text = f"received {factors['micro_batch_size']} with method {factors['method']}; 0 is "
        yield "micro_batch_size", f"{text}expected, or method plain."
    if factors["precision"] == "mixed_float16" and factors["method"] != "plain":
        text = f"received mixed_float16 with method {factors['method']}, which would use gradients "
        text += "of the scaled loss; mixed_bfloat16 or float32 is expected, or method plain."
        yield "precision", text
    if factors["method"] == "proximal" and factors.get("warmup_epochs"):
        text = f"received {factors['warmup_epochs']} with method proximal, whose inner "
        yield "warmup_epochs", f"{text}steps would count as updates; 0 is expected."


def _schedule(factors: Factors) -> Found:
    """What a rate that falls towards the horizon needs."""
    if not horizons.falling(factors):
        return
    if factors["method"] == "proximal":
        text = f"received {factors['schedule']} with method proximal, whose inner steps would "
        yield "schedule", f"{text}count as updates; {horizons.CONSTANT} is expected."
    if factors["warmup_epochs"] == factors["epochs"]:
        text = f"received {factors['schedule']} with a warm-up of all {factors['epochs']} epochs; "
        yield "schedule", f"{text}{horizons.CONSTANT} is expected, or a shorter warm-up."


def _constants(factors: Factors) -> Found:
    """What an optimizer has no constant for, and where a rule leads out of its range."""
    optimizer, sound = factors["optimizer"], True
    for name in optimizer_constants.NAMES:
        value, having = factors[name], optimizer_constants.having(name)
        if value == optimizer_constants.DEFAULT:
            continue
        if optimizer not in having:
            text = f"received {value:g} for {optimizer}; it is expected of "
            yield name, f"{text}{wording.listed(having)} alone."
            sound = False
        elif name.startswith("beta") and value == 1:
            yield name, "received 1; a number below 1 is expected: at 1 nothing is forgotten."
            sound = False
    scaling = factors["beta_scaling"]
    having = optimizer_constants.having(*optimizer_constants.SCALED.get(scaling, ()))
    if optimizer not in having:
        text = f"received {scaling} for {optimizer}; it is expected of "
        yield "beta_scaling", f"{text}{wording.listed(having)} alone."
    elif sound and scaling == "square_root":
        found = optimizer_constants.effective(factors)
        for name in ("beta_1", "beta_2"):
            if found[name] < 0:
                text = f"received square_root at batch size {factors['batch_size']} and "
                text += f"base_batch_size {factors['base_batch_size']}, where {name} would be "
                yield "beta_scaling", f"{text}{found[name]:.3g}; at least 0 is expected."
                break
    scaled = factors["weight_decay_scaling"] != "none"
    if scaled and not optimizer_constants.unscaled(factors)["weight_decay"]:
        text = "received linear without a weight decay; weight_decay above 0 is expected."
        yield "weight_decay_scaling", text


def _loop(factors: Factors) -> Found:
    """What the loop in the graph cannot do, with no Python between its steps, and what others."""
    if factors["loop"] == "graph":
        if factors["input_pipeline"] != "plain":
            text = f"received {factors['input_pipeline']} with loop graph, which takes its "
            text += "batches from its own arrays; plain, or another loop, is expected."
            yield "input_pipeline", text
        if factors["delay_seconds"]:
            text = "received with loop graph, which cannot wait between steps; another loop is"
            yield "delay_seconds", f"{text} expected."
    else:
        for name, simple in {"replicas": 1, **_SIMPLE}.items():
            if factors[name] != simple:
                text = f"received {factors[name]} with loop {factors['loop']}; {simple} is "
                yield name, f"{text}expected, or loop graph."


def _framework(factors: Factors, timings: tuple[str, ...]) -> Found:
    """What the frameworks beside TensorFlow have: two networks, and one loop of their own."""
    framework = factors["framework"]
    if framework == framework_names.OWN:
        return
    plain = ("loop", "input_pipeline", "method", "augmentation", "delay_seconds", "replicas")
    plain = (*plain, "momentum", "micro_batch_size", "precision")
    allowed = {
        "model": FRAMEWORK_MODELS,
        "optimizer": FRAMEWORK_OPTIMIZERS,
        **{name: (sweep_names.FACTORS[name].birth,) for name in plain},
        "weight_decay": (0, optimizer_constants.DEFAULT),
    }
    wrong = []
    for name, values in allowed.items():
        if factors[name] not in values:
            words = [name_codec.spelled(sweep_names.FACTORS[name], one) for one in values]
            wrong.append((f"{name} {factors[name]}", f"{name} {wording.listed(words, 'or')}"))
    others = [name for name in timings if name not in FRAMEWORK_TIMINGS]
    if others:
        wrong.append(
            (wording.listed(others), f"{wording.listed(FRAMEWORK_TIMINGS, 'or')} in timing alone")
        )
    if wrong:
        found, expected = (wording.listed(words) for words in zip(*wrong, strict=True))
        verb = "is" if len(wrong) == 1 else "are"
        yield "framework", f"received '{framework}' with {found}; {expected} {verb} expected."
