"""Incompatible factors of a run, or of a batch size that is timed.

Every check yields a factor and the problem with it. Each value has passed the checks of its own
factor before.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from batchscope import wording
from batchscope.errors import UserError
from batchscope.study import names, optimizer_constants, run_factors, tasks
from batchscope.study.batch_phases import SEESAW, STEPS
from batchscope.study.dataset_definitions import DatasetInfo
from batchscope.study.example_kinds import IMAGES, KINDS
from batchscope.study.networks import NETWORKS
from batchscope.study.optimizer_constants import DEFAULT
from batchscope.study.registry import OF_SWEEPS
from batchscope.study.run_factors import CONSTANT, FACTORS, FALLING, Affects

# Replicas, and a loop with Python in it, support only the defaults of these.
_DEFAULT_GRAPH = {name: FACTORS[name].default for name in run_factors.affecting(Affects.GRAPH)}
# XLA compiles no update that holds a loop, or draws at random as layers of augmentation do.
_COMPILED = {name: FACTORS[name].default for name in ("method", "augmentation", "micro_batch_size")}
# A stated factor without effect is refused if one of these is the reason.
_SWITCHES = ("method", "batch_schedule", "loss_function")
Factors = dict[str, Any]
Problems = Iterator[tuple[str, str]]  # factor, and the problem with it


def of_examples(factors: Factors, info: DatasetInfo) -> Problems:
    """Yield the factors that do not fit the examples of a data set (task, kind, size of images).

    Args:
        factors: Every factor; data set and model are ids.
    """
    yield from of_task(factors, info.name, info.task)
    network, side = NETWORKS.get(factors["model"]), info.image_side
    context = f"for {info.name}, which has {KINDS.get(info.kind, '')}"
    if network and info.kind and info.kind not in network.kinds:
        kinds = wording.listed((KINDS[kind] for kind in network.kinds), "or")
        fitting = [name for name, other in NETWORKS.items() if info.kind in other.kinds]
        example = f"such as {fitting[0]}" if fitting else "of your own"
        fix = f"{kinds} are expected, or another model, {example}"
        yield _problem(factors, "model", context, fix)
    if info.kind and info.kind != IMAGES:
        if factors["augmentation"] != "none":
            fix = "none is expected: images alone are changed"
            yield _problem(factors, "augmentation", context, fix)
        if factors.get("input_pipeline") == "jpeg":
            fix = "another pipeline is expected: images alone are JPEG files"
            yield _problem(factors, "input_pipeline", context, fix)
    if network and side is not None and side < network.least_side:
        least = f"{network.least_side}x{network.least_side}"
        context = f"for {info.name}, whose images have {side}x{side} pixels"
        yield _problem(
            factors, "model", context, f"at least {least} are expected, or another model"
        )


def of_task(factors: Factors, name: str, task: str | None) -> Problems:
    """Yield the factors that do not fit the task of a data set.

    Args:
        factors: Factors of a run or of a timing, which lacks some.
        name: Name of the data set.
        task: None if only the files of the data set know it.
    """
    if task is None:
        return
    context = f"for {name}, a {task.replace('_', '-')}"
    loss_function = factors.get("loss_function", "default")
    if task not in tasks.LOSSES[loss_function]:
        fitting = [loss for loss, learned in tasks.LOSSES.items() if task in learned]
        fix = f"{wording.listed(fitting, 'or')} is expected"
        yield _problem(factors, "loss_function", context, fix)
    elif task == tasks.REGRESSION and loss_function == "default" and factors.get("label_smoothing"):
        fix = "0 is expected: the targets are no classes"
        yield _problem(factors, "label_smoothing", context, fix)


def of_training(factors: Factors, info: DatasetInfo) -> Problems:
    """Yield the factors of a training that exclude each other or do not fit the data set.

    Args:
        factors: Every factor but the seed; data set and model are ids.
    """
    yield from _step(factors, info.training_examples)
    if factors["warmup_epochs"] > factors["epochs"]:
        fix = f"at most {factors['epochs']}, the epochs, is expected"
        yield _problem(factors, "warmup_epochs", "", fix)
    if factors["method"] == "proximal":
        context = "with method proximal, whose inner steps would count as updates"
        if factors["warmup_epochs"]:
            yield _problem(factors, "warmup_epochs", context, "0 is expected")
        if name := run_factors.by_horizon(factors):
            yield _problem(factors, name, context, f"{CONSTANT} is expected")
    if factors["schedule"] != CONSTANT and factors["warmup_epochs"] == factors["epochs"]:
        context = f"with a warm-up of all {factors['epochs']} epochs"
        fix = f"{CONSTANT} is expected, or a shorter warm-up"
        yield _problem(factors, "schedule", context, fix)
    yield from _constants(factors)
    yield from _batch_schedule(factors, info.training_examples)
    if info.definition.overlapping:
        text = f"received {info.name}, which is for times alone: its splits overlap; another data "
        yield "dataset", f"{text}set is expected."
    if not factors["threads"]:
        text = "received 'all'; a positive whole number is expected: a training's last bits "
        yield "threads", f"{text}depend on it."


def of_timing(factors: Factors, info: DatasetInfo, timings: Iterable[str]) -> Problems:
    """Yield the factors of a timing that exclude each other or do not fit the data set.

    Args:
        factors: Every factor; data set and model are ids.
        timings: Names of the timings that use them.
    """
    # The search for the largest batch repeats the images if a batch has more.
    searched = all(OF_SWEEPS[timing].batch_sizes == "searched" for timing in timings)
    yield from _step(factors, None if searched else info.training_examples)
    if factors["loop"] != "graph":
        defaults = {"replicas": 1, **_DEFAULT_GRAPH}
        yield from _changed(factors, defaults, f"with loop {factors['loop']}", "loop graph")
    elif factors["input_pipeline"] != "plain":
        context = "with loop graph, which takes its batches from its own arrays"
        yield _problem(factors, "input_pipeline", context, "plain, or another loop, is expected")
    if factors["loop"] == "graph" and factors["delay_seconds"]:
        context = "with loop graph, which cannot wait between steps"
        yield "delay_seconds", f"received {context}; another loop is expected."


def check_batch_size(factors: Factors, batch_size: int, examples: int) -> None:
    """Raise `UserError` if a batch is larger than the training set.

    Its steps would have fewer examples than the batch size says.

    Args:
        factors: Every factor but perhaps the batch size; the data set is an id.
    """
    for problem in _above_training_set(factors, batch_size, examples):
        raise UserError(": ".join(problem))


def check_task(factors: Factors, task: str) -> None:
    """Raise `UserError` if factors do not fit the task of a prepared data set.

    Args:
        factors: Every factor; the data set is an id.
    """
    name, _ = names.split_token(factors["dataset"])
    if problems := [": ".join(problem) for problem in of_task(factors, name, task)]:
        raise UserError("\n".join(problems))


def _problem(factors: Factors, name: str, context: str, fix: str) -> tuple[str, str]:
    received = " ".join(filter(None, ["received", str(factors[name]), context]))
    return name, f"{received}; {fix}."


def _step(factors: Factors, training_size: int | None) -> Problems:
    """Yield the problems of a step, in a training or in a timing.

    Args:
        training_size: Examples of the training set; None if unknown.
    """
    if training_size is not None:
        examples = training_size * run_factors.training_copies(factors)
        yield from _above_training_set(factors, factors["batch_size"], examples)
    optimizer, momentum = factors["optimizer"], factors["momentum"]
    if momentum and optimizer not in ("sgd", "rmsprop"):
        fix = "it is expected of sgd and rmsprop alone"
        yield _problem(factors, "momentum", f"for {optimizer}", fix)
    if factors["nesterov"] and (optimizer != "sgd" or not momentum):
        context = optimizer if momentum else f"{optimizer} without momentum"
        yield "nesterov", f"received true for {context}; sgd with a momentum above 0 is expected."
    yield from _above_batch_size(factors, "replicas")
    yield from _without_effect(factors)
    yield from _graph(factors)


def _above_training_set(factors: Factors, batch_size: int, examples: int) -> Problems:
    if batch_size > examples:
        name, _ = names.split_token(factors["dataset"])
        text = f"received {batch_size}; at most {examples} is expected, the training examples of "
        yield "batch_size", f"{text}{name}."


def _above_batch_size(factors: Factors, name: str) -> Problems:
    if factors[name] > factors["batch_size"]:
        fix = f"at most the batch size, {factors['batch_size']}, is expected"
        yield _problem(factors, name, "", fix)


def _changed(factors: Factors, defaults: Mapping[str, Any], context: str, other: str) -> Problems:
    """Yield the factors that do not have the values of `defaults`."""
    for name, value in defaults.items():
        if factors[name] != value:
            yield _problem(factors, name, context, f"{value} is expected, or {other}")


def _without_effect(factors: Factors) -> Problems:
    """Yield the factors that are stated, but have no effect with the value of another factor."""
    for name, factor in FACTORS.items():
        # A timing has only the factors that the time of a step depends on.
        if factors.get(name, factor.default) == factor.default:
            continue
        for switch in _SWITCHES:
            values = factor.metadata.used_with.get(switch)
            if values and factors[switch] not in values:
                context = f"with {switch} {factors[switch]}"
                yield _problem(
                    factors, name, context, f"{wording.listed(values, 'or')} is expected"
                )


def _graph(factors: Factors) -> Problems:
    """Yield the factors that the graph of a divided, compiled or accumulated batch excludes."""
    # Crops are made before the training: no graph has them.
    crops = {"augmentation": "crop"} if factors["augmentation"] == "crop" else {}
    if factors["replicas"] > 1:
        context = f"with {factors['replicas']} replicas"
        yield from _changed(factors, _DEFAULT_GRAPH | crops, context, "1 replica")
    if factors["compilation"] != "none":
        yield from _changed(factors, _COMPILED | crops, "with compilation xla", "compilation none")
    yield from _above_batch_size(factors, "micro_batch_size")
    method = factors["method"]
    if method != "plain" and factors["micro_batch_size"]:
        fix = "0 is expected, or method plain"
        yield _problem(factors, "micro_batch_size", f"with method {method}", fix)
    if method != "plain" and factors["precision"] == "mixed_float16":
        context = f"with method {method}, which would use gradients of the scaled loss"
        fix = "mixed_bfloat16 or float32 is expected, or method plain"
        yield _problem(factors, "precision", context, fix)


def _constants(factors: Factors) -> Problems:
    """Yield the constants that an optimizer lacks, or that a rule moves out of their range."""
    optimizer, valid = factors["optimizer"], True
    context = f"for {optimizer}"
    for name in optimizer_constants.NAMES:
        optimizers = optimizer_constants.supporting(name)
        if factors[name] != DEFAULT and optimizer not in optimizers:
            fix = f"it is expected of {wording.listed(optimizers)} alone"
            yield _problem(factors, name, context, fix)
            valid = False
        elif name.startswith("beta") and factors[name] == 1:
            fix = "a number below 1 is expected: at 1 nothing is forgotten"
            yield _problem(factors, name, "", fix)
            valid = False
    scaling = factors["beta_scaling"]
    optimizers = optimizer_constants.supporting(*optimizer_constants.SCALED.get(scaling, ()))
    if optimizer not in optimizers:
        fix = f"it is expected of {wording.listed(optimizers)} alone"
        yield _problem(factors, "beta_scaling", context, fix)
    elif valid and scaling == "square_root":
        constants = optimizer_constants.effective(factors)
        negative = [name for name in ("beta_1", "beta_2") if constants[name] < 0]
        for name in negative[:1]:
            context = f"at batch size {factors['batch_size']} and base_batch_size "
            context += f"{factors['base_batch_size']}, where {name} would be {constants[name]:.3g}"
            yield _problem(factors, "beta_scaling", context, "at least 0 is expected")


def _batch_schedule(factors: Factors, training_size: int | None) -> Problems:
    """Yield the factors that a rising batch size excludes or requires."""
    schedule, largest = factors["batch_schedule"], factors["largest_batch_size"]
    if schedule == CONSTANT:
        return
    context = f"with batch_schedule {schedule}"
    if largest < factors["batch_size"]:
        fix = f"at least the batch size, {factors['batch_size']}, is expected"
        yield _problem(factors, "largest_batch_size", context, fix)
    if training_size is not None:
        examples = training_size * run_factors.training_copies(factors)
        for _, text in _above_training_set(factors, largest, examples):
            yield "largest_batch_size", text
    if schedule == SEESAW and factors["schedule"] == CONSTANT:
        fix = f"{wording.listed(FALLING, 'or')} is expected, which it follows"
        yield _problem(factors, "schedule", context, fix)
    elif schedule == STEPS and factors["schedule"] != CONSTANT:
        fix = f"{CONSTANT} is expected, or batch_schedule {SEESAW}"
        yield _problem(factors, "schedule", context, fix)
    warmup = factors["warmup_epochs"] / factors["epochs"]
    if schedule == STEPS and factors["batch_rises_from"] < warmup:
        fix = f"at least {warmup:.3g}, the warm-up's share of the epochs, is expected"
        yield _problem(factors, "batch_rises_from", context, fix)
