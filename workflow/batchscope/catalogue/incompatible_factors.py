"""Incompatible factors of a run, or of a batch size that is timed.

Every check yields a factor and the problem with it. A value by itself is checked by its parameter.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from batchscope import wording
from batchscope.catalogue import (
    batch_phases,
    optimizer_constants,
    run_names,
    tasks,
)
from batchscope.catalogue.dataset_definitions import DatasetInfo
from batchscope.catalogue.dataset_sources import IMAGES, KINDS
from batchscope.catalogue.networks import NETWORKS
from batchscope.catalogue.optimizer_constants import DEFAULT
from batchscope.catalogue.registry import OF_SWEEPS
from batchscope.catalogue.run_factors import (
    CONSTANT,
    FACTORS,
    FALLING,
    OF_RISES,
    by_horizon,
    training_copies,
)
from batchscope.errors import UserError

# All that a batch which is divided among replicas, and a loop with Python in it, can do.
_SIMPLE = {
    name: FACTORS[name].default
    for name in ("method", "augmentation", "micro_batch_size", "precision", "compilation")
}
Factors = dict[str, Any]
Found = Iterator[tuple[str, str]]


def of_examples(factors: Factors, info: DatasetInfo) -> Found:
    """Yields what is wrong with the examples of a training or a timing for what it does with them.

    Args:
        factors: Every factor, each sound by itself; data set and model are ids.
    """
    yield from of_task(factors, info.name, info.task)
    network, side = NETWORKS.get(factors["model"]), info.image_side
    what = f"for {info.name}, which has {KINDS.get(info.kind, '')}"
    if network and info.kind and info.kind not in network.kinds:
        taken = wording.listed((KINDS[each] for each in network.kinds), "or")
        fitting = [name for name, each in NETWORKS.items() if info.kind in each.kinds]
        others = f"such as {fitting[0]}" if fitting else "of your own"
        wanted = f"{taken} are expected, or another model, {others}"
        yield _wrong(factors, "model", what, wanted)
    if info.kind and info.kind != IMAGES:
        if factors["augmentation"] != "none":
            wanted = "none is expected: images alone are changed"
            yield _wrong(factors, "augmentation", what, wanted)
        if factors.get("input_pipeline") == "jpeg":
            wanted = "another pipeline is expected: images alone are JPEG files"
            yield _wrong(factors, "input_pipeline", what, wanted)
    if network and side is not None and side < network.least_side:
        least = f"{network.least_side}x{network.least_side}"
        what = f"for {info.name}, whose images have {side}x{side} pixels"
        yield _wrong(factors, "model", what, f"at least {least} are expected, or another model")


def of_task(factors: Factors, name: str, task: str | None) -> Found:
    """Yields what a data set of this name has not, by what is learned of it; None if unknown."""
    if task is None:
        return
    what = f"for {name}, a {task.replace('_', '-')}"
    if task not in tasks.LOSSES[factors.get("loss_function", "default")]:
        had = [each for each, having in tasks.LOSSES.items() if task in having]
        yield _wrong(factors, "loss_function", what, f"{wording.listed(had, 'or')} is expected")


def of_training(factors: Factors, info: DatasetInfo) -> Found:
    """Yields what is wrong with the factors of a training.

    Args:
        factors: Every factor but the seed, each sound by itself; data set and model are ids.
    """
    yield from _step(factors, info.training_examples)
    if factors["warmup_epochs"] > factors["epochs"]:
        wanted = f"at most {factors['epochs']}, the epochs, is expected"
        yield _wrong(factors, "warmup_epochs", "", wanted)
    if factors["method"] == "proximal":
        steps = "with method proximal, whose inner steps would count as updates"
        if factors["warmup_epochs"]:
            yield _wrong(factors, "warmup_epochs", steps, "0 is expected")
        if name := by_horizon(factors):
            yield _wrong(factors, name, steps, f"{CONSTANT} is expected")
    if factors["schedule"] != CONSTANT and factors["warmup_epochs"] == factors["epochs"]:
        beside = f"with a warm-up of all {factors['epochs']} epochs"
        wanted = f"{CONSTANT} is expected, or a shorter warm-up"
        yield _wrong(factors, "schedule", beside, wanted)
    yield from _constants(factors)
    yield from _batch_schedule(factors, info.training_examples)
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
    if factors["loop"] != "graph":
        simple = {"replicas": 1, **_SIMPLE}
        yield from _not_simple(factors, simple, f"with loop {factors['loop']}", "loop graph")
    elif factors["input_pipeline"] != "plain":
        beside = "with loop graph, which takes its batches from its own arrays"
        yield _wrong(factors, "input_pipeline", beside, "plain, or another loop, is expected")
    if factors["loop"] == "graph" and factors["delay_seconds"]:
        beside = "with loop graph, which cannot wait between steps"
        yield "delay_seconds", f"received {beside}; another loop is expected."


def check_batch_size(factors: Factors, batch_size: int, examples: int) -> None:
    """Refuses a batch above the training set: its steps would be those of a smaller one.

    Args:
        factors: Every factor but perhaps the batch size; the data set is an id.
        batch_size: Images that a step is to have.

    Raises:
        UserError: If the batch is larger.
    """
    for problem in _too_large(factors, batch_size, examples):
        raise UserError(": ".join(problem))


def check_task(factors: Factors, task: str) -> None:
    """Raises `UserError` where a data set's task, known once it is prepared, has not what is asked.

    Args:
        factors: Every factor; the data set is an id.
    """
    name, _ = run_names.split_token(factors["dataset"])
    if problems := [": ".join(problem) for problem in of_task(factors, name, task)]:
        raise UserError("\n".join(problems))


def _wrong(factors: Factors, name: str, beside: str, wanted: str) -> tuple[str, str]:
    received = " ".join(filter(None, ["received", str(factors[name]), beside]))
    return name, f"{received}; {wanted}."


def _step(factors: Factors, training_size: int | None) -> Found:
    """What a step depends on, in a training or in a timing."""
    yield from _beyond_the_training_set(factors, factors["batch_size"], training_size)
    optimizer, momentum = factors["optimizer"], factors["momentum"]
    if momentum and optimizer not in ("sgd", "rmsprop"):
        wanted = "it is expected of sgd and rmsprop alone"
        yield _wrong(factors, "momentum", f"for {optimizer}", wanted)
    if factors["nesterov"] and (optimizer != "sgd" or not momentum):
        given = optimizer if momentum else f"{optimizer} without momentum"
        yield "nesterov", f"received true for {given}; sgd with a momentum above 0 is expected."
    yield from _at_most_the_batch_size(factors, "replicas")
    yield from _method(factors)


def _beyond_the_training_set(factors: Factors, batch_size: int, size: int | None) -> Found:
    """What a batch has beyond the training set, of so many examples; None where nobody knows."""
    if size is not None:
        yield from _too_large(factors, batch_size, size * training_copies(factors))


def _too_large(factors: Factors, batch_size: int, examples: int) -> Found:
    if batch_size > examples:
        name = run_names.split_token(factors["dataset"])[0]
        text = f"received {batch_size}; at most {examples} is expected, the training examples of "
        yield "batch_size", f"{text}{name}."


def _at_most_the_batch_size(factors: Factors, name: str) -> Found:
    if factors[name] > factors["batch_size"]:
        wanted = f"at most the batch size, {factors['batch_size']}, is expected"
        yield _wrong(factors, name, "", wanted)


def _not_simple(factors: Factors, simple: Factors, beside: str, other: str) -> Found:
    for name, value in simple.items():
        if factors[name] != value:
            yield _wrong(factors, name, beside, f"{value} is expected, or {other}")


def _method(factors: Factors) -> Found:
    """What a method is given, and what a batch that is divided cannot do."""
    method = factors["method"]
    for name, factor in FACTORS.items():
        # Of times, only what a step's time depends on is a factor.
        given = factors.get(name, factor.default) != factor.default
        if given and factor.method not in ("", method):
            wanted = f"it is expected of {factor.method} alone"
            yield _wrong(factors, name, f"with method {method}", wanted)
    if factors["replicas"] > 1:
        # Crops are made beforehand.
        crops = factors["augmentation"] == "crop"
        simple = {**_SIMPLE, "augmentation": "crop"} if crops else _SIMPLE
        yield from _not_simple(factors, simple, f"with {factors['replicas']} replicas", "1 replica")
    if factors["compilation"] != "none":
        # An update that holds a loop, or draws at random as the layers of augmentation do.
        crops = factors["augmentation"] == "crop"
        simple = {name: _SIMPLE[name] for name in ("method", "augmentation", "micro_batch_size")}
        simple |= {"augmentation": "crop"} if crops else {}
        yield from _not_simple(factors, simple, "with compilation xla", "compilation none")
    yield from _at_most_the_batch_size(factors, "micro_batch_size")
    if method != "plain" and factors["micro_batch_size"]:
        wanted = "0 is expected, or method plain"
        yield _wrong(factors, "micro_batch_size", f"with method {method}", wanted)
    if method != "plain" and factors["precision"] == "mixed_float16":
        beside = f"with method {method}, which would use gradients of the scaled loss"
        wanted = "mixed_bfloat16 or float32 is expected, or method plain"
        yield _wrong(factors, "precision", beside, wanted)


def _constants(factors: Factors) -> Found:
    """What an optimizer has no constant for, and where a rule leads out of its range."""
    optimizer, sound, of = factors["optimizer"], True, f"for {factors['optimizer']}"
    for name in optimizer_constants.NAMES:
        having = optimizer_constants.having(name)
        if factors[name] != DEFAULT and optimizer not in having:
            wanted = f"it is expected of {wording.listed(having)} alone"
            yield _wrong(factors, name, of, wanted)
            sound = False
        elif name.startswith("beta") and factors[name] == 1:
            wanted = "a number below 1 is expected: at 1 nothing is forgotten"
            yield _wrong(factors, name, "", wanted)
            sound = False
    scaling = factors["beta_scaling"]
    having = optimizer_constants.having(*optimizer_constants.SCALED.get(scaling, ()))
    if optimizer not in having:
        wanted = f"it is expected of {wording.listed(having)} alone"
        yield _wrong(factors, "beta_scaling", of, wanted)
    elif sound and scaling == "square_root":
        found = optimizer_constants.effective(factors)
        for name in [each for each in ("beta_1", "beta_2") if found[each] < 0][:1]:
            beside = f"at batch size {factors['batch_size']} and base_batch_size "
            beside += f"{factors['base_batch_size']}, where {name} would be {found[name]:.3g}"
            yield _wrong(factors, "beta_scaling", beside, "at least 0 is expected")


def _batch_schedule(factors: Factors, training_size: int | None) -> Found:
    """What a batch size that rises needs, and what one that stays has no use for."""
    schedule = factors["batch_schedule"]
    of_steps = ("batch_rises", "batch_rises_from")
    needless = {CONSTANT: OF_RISES, batch_phases.SEESAW: of_steps}.get(schedule, ())
    for name in needless:
        if factors[name] != FACTORS[name].default:
            others = "steps" if name in of_steps else "steps or seesaw"
            yield _wrong(factors, name, f"with batch_schedule {schedule}", f"{others} is expected")
    if schedule == CONSTANT:
        return
    beside = f"with batch_schedule {schedule}"
    if factors["largest_batch_size"] < factors["batch_size"]:
        wanted = f"at least the batch size, {factors['batch_size']}, is expected"
        yield _wrong(factors, "largest_batch_size", beside, wanted)
    largest = factors["largest_batch_size"]
    for _, text in _beyond_the_training_set(factors, largest, training_size):
        yield "largest_batch_size", text
    if schedule == batch_phases.SEESAW and factors["schedule"] == CONSTANT:
        wanted = f"{wording.listed(FALLING, 'or')} is expected, which it follows"
        yield _wrong(factors, "schedule", beside, wanted)
    elif schedule == batch_phases.STEPS and factors["schedule"] != CONSTANT:
        wanted = f"{CONSTANT} is expected, or batch_schedule {batch_phases.SEESAW}"
        yield _wrong(factors, "schedule", beside, wanted)
    rise = factors["warmup_epochs"] / factors["epochs"]
    if schedule == batch_phases.STEPS and factors["batch_rises_from"] < rise:
        wanted = f"at least {rise:.3g}, the warm-up's share of the epochs, is expected"
        yield _wrong(factors, "batch_rises_from", beside, wanted)
