"""Check the factors of a run, or of a timed batch size, against each other and the data set.

Each value has passed the checks of its own factor before. The place of each problem is its factor.
A new check of trainings and timings goes into `_step_problems`, of one of them into
`training_problems` or `timing_problems`.
"""

import math
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from batchscope.core import display
from batchscope.core.errors import UserError
from batchscope.core.problems import Problem, received
from batchscope.study import names, run_factors
from batchscope.study.batch_phases import SEESAW, STEPS
from batchscope.study.dataset_definitions import DatasetInfo
from batchscope.study.registry import SWEEP_TIMINGS
from batchscope.study.run_factors import (
    CONSTANT,
    DEFAULT,
    FACTORS,
    FALLING,
    Affects,
    factors_affecting,
)
from batchscope.study.tasks import IMAGES, KINDS, NETWORKS

# Replicas, and loops in Python, support only the defaults of these factors.
_GRAPH_DEFAULTS = {name: FACTORS[name].default for name in factors_affecting(Affects.GRAPH)}
# A factor that has no effect because of one of these factors is refused.
_SWITCHES = ("method", "batch_schedule")
Factors = dict[str, Any]
Problems = Iterator[Problem]


def example_problems(factors: Factors, info: DatasetInfo) -> Problems:
    """Yield the factors that do not fit the examples of a data set (kind, size of images)."""
    network, side = NETWORKS.get(factors["model"]), info.image_side
    why = f"for {info.name}, which has {KINDS.get(info.kind, '')}"
    if network and info.kind and info.kind not in network.kinds:
        fitting = [name for name, other in NETWORKS.items() if info.kind in other.kinds]
        example = f"such as {fitting[0]}" if fitting else "of your own"
        yield _problem(factors, "model", f"another model, {example}", why)
    if info.kind and info.kind != IMAGES:
        if factors["augmentation"] != "none":
            yield _problem(factors, "augmentation", "none, since images alone are changed", why)
        if factors.get("input_pipeline") == "jpeg":
            expected = "another pipeline, since only images can be JPEG files"
            yield _problem(factors, "input_pipeline", expected, why)
    if network and side is not None and side < network.min_side:
        smallest = f"{network.min_side}x{network.min_side}"
        why = f"for {info.name} with images of {side}x{side} pixels"
        yield _problem(factors, "model", f"images of at least {smallest}, or another model", why)


def training_problems(factors: Factors, info: DatasetInfo) -> Problems:
    """Yield the factors of a training that exclude each other or do not fit the data set."""
    yield from example_problems(factors, info)
    yield from _step_problems(factors, info.training_examples)
    epochs, warmup_epochs = factors["epochs"], factors["warmup_epochs"]
    if warmup_epochs > epochs:
        yield _problem(factors, "warmup_epochs", f"at most {epochs}, the epochs")
    if factors["method"] == "proximal":
        why = "with method proximal, whose inner steps would count as updates"
        if warmup_epochs:
            yield _problem(factors, "warmup_epochs", "0", why)
        if name := run_factors.horizon_factor(factors):
            yield _problem(factors, name, CONSTANT, why)
    if factors["schedule"] != CONSTANT and warmup_epochs == epochs:
        why = f"with a warm-up of all {epochs} epochs"
        yield _problem(factors, "schedule", f"{CONSTANT}, or a shorter warm-up", why)
    yield from _constant_problems(factors)
    yield from _batch_schedule_problems(factors, info.training_examples)
    if info.definition.has_overlapping_parts:
        why = "for times alone, since its splits overlap"
        yield _problem({"dataset": info.name}, "dataset", "another data set", why)
    if not factors["threads"]:
        expected = "a positive whole number, since a training's last bits depend on it"
        yield _problem({"threads": "all"}, "threads", expected)


def timing_problems(factors: Factors, info: DatasetInfo, timings: Iterable[str]) -> Problems:
    """Yield the factors of timings that exclude each other or do not fit the data set."""
    yield from example_problems(factors, info)
    # The search for the largest batch repeats the images if a batch has more.
    all_search = all(SWEEP_TIMINGS[timing].batch_sizes == "searched" for timing in timings)
    yield from _step_problems(factors, None if all_search else info.training_examples)
    if factors["loop"] != "graph":
        defaults = {"replicas": 1, **_GRAPH_DEFAULTS}
        yield from _not_default(factors, defaults, f"with loop {factors['loop']}", "loop graph")
        return
    if factors["input_pipeline"] != "plain":
        why = "with loop graph, which takes its batches from its own arrays"
        yield _problem(factors, "input_pipeline", "plain, or another loop", why)
    if factors["delay_seconds"]:
        why = "with loop graph, which cannot wait between steps"
        yield _problem(factors, "delay_seconds", "0, or another loop", why)


def check_batch_size(factors: Factors, batch_size: int, examples: int) -> None:
    """Raise `UserError` if a batch is larger than the training set."""
    factors = {**factors, "batch_size": batch_size, "augmentation": "none"}
    for problem in _above_training_set(factors, examples):
        raise UserError(problem.line)


def _problem(factors: Factors, name: str, expected: str, why: str = "") -> Problem:
    return received((name,), factors[name], expected, why=why and f" {why}")


def _step_problems(factors: Factors, training_size: int | None) -> Problems:
    """Yield the problems of a step, in a training or in a timing."""
    yield from _above_training_set(factors, training_size)
    for name in ("replicas", "micro_batch_size"):
        if factors[name] > factors["batch_size"]:
            yield _problem(factors, name, f"at most the batch size, {factors['batch_size']}")
    optimizer, momentum = factors["optimizer"], factors["momentum"]
    if momentum and optimizer not in ("sgd", "rmsprop"):
        yield _problem(factors, "momentum", "0, or sgd or rmsprop", f"for {optimizer}")
    if factors["nesterov"] and (optimizer != "sgd" or not momentum):
        why = f"for {optimizer}" if momentum else f"for {optimizer} without momentum"
        yield _problem(factors, "nesterov", "false, or sgd with a momentum above 0", why)
    # A stated factor needs an effect. A timing lacks the factors that do not change its times.
    for name, factor in FACTORS.items():
        if factors.get(name, factor.default) == factor.default:
            continue
        for switch in _SWITCHES:
            values = factor.metadata.used_with.get(switch)
            if values and factors[switch] not in values:
                expected = f"its default, or {switch} {display.listed(values, 'or')}"
                yield _problem(factors, name, expected, f"with {switch} {factors[switch]}")
    # Crops are made before the training and do not change the graph, so the defaults lack them.
    crops = {"augmentation": "crop"} if factors["augmentation"] == "crop" else {}
    method, replicas = factors["method"], factors["replicas"]
    if replicas > 1:
        why = f"with {replicas} replicas"
        yield from _not_default(factors, _GRAPH_DEFAULTS | crops, why, "1 replica")
    if method != "plain" and factors["micro_batch_size"]:
        yield _problem(factors, "micro_batch_size", "0, or method plain", f"with method {method}")
    if method != "plain" and factors["precision"] == "mixed_float16":
        why = f"with method {method}, which would use gradients of the scaled loss"
        yield _problem(factors, "precision", "mixed_bfloat16 or float32, or method plain", why)


def _above_training_set(
    factors: Factors, training_size: int | None, key: str = "batch_size"
) -> Problems:
    """Yield a batch size above the training set. Its size is None if unknown."""
    examples = (training_size or math.inf) * run_factors.training_copies(factors)
    if factors[key] > examples:
        name, _ = names.split_token(factors["dataset"])
        yield _problem(factors, key, f"at most {examples}, the training examples of {name}")


def _not_default(factors: Factors, defaults: Mapping[str, Any], why: str, fix: str) -> Problems:
    """Yield the factors that do not have the values of `defaults`; `fix` is another remedy."""
    for name, value in defaults.items():
        if factors[name] != value:
            yield _problem(factors, name, f"{value}, or {fix}", why)


def _constant_problems(factors: Factors) -> Problems:
    """Yield the constants that an optimizer lacks, or that `beta_scaling` makes negative."""
    optimizer, is_valid = factors["optimizer"], True
    for name in run_factors.CONSTANT_NAMES:
        optimizers = run_factors.optimizers_with(name)
        if factors[name] != DEFAULT and optimizer not in optimizers:
            expected = f"default, or {display.listed(optimizers, 'or')}"
            yield _problem(factors, name, expected, f"for {optimizer}")
            is_valid = False
        elif name.startswith("beta") and factors[name] == 1:
            yield _problem(factors, name, "a number below 1, since at 1 nothing is forgotten")
            is_valid = False
    scaling = factors["beta_scaling"]
    constants = run_factors.SCALED_CONSTANTS.get(scaling, ())
    optimizers = run_factors.optimizers_with(*constants)
    if optimizer not in optimizers:
        expected = f"none, or {display.listed(optimizers, 'or')}"
        yield _problem(factors, "beta_scaling", expected, f"for {optimizer}")
    elif is_valid and scaling == "square_root":
        constants = run_factors.scaled_constants(factors)
        smallest = min(constants["beta_1"], constants["beta_2"])
        if smallest < 0:
            sizes = f"{factors['batch_size']} and base_batch_size {factors['base_batch_size']}"
            why = f"at batch size {sizes}, where a beta would be {smallest:.3g}"
            yield _problem(factors, "beta_scaling", "betas of at least 0", why)


def _batch_schedule_problems(factors: Factors, training_size: int | None) -> Problems:
    """Yield the factors that a rising batch size excludes or requires."""
    schedule, batch_size = factors["batch_schedule"], factors["batch_size"]
    if schedule == CONSTANT:
        return
    why = f"with batch_schedule {schedule}"
    if factors["largest_batch_size"] < batch_size:
        expected = f"at least the batch size, {batch_size}"
        yield _problem(factors, "largest_batch_size", expected, why)
    yield from _above_training_set(factors, training_size, "largest_batch_size")
    if schedule == SEESAW and factors["schedule"] == CONSTANT:
        yield _problem(factors, "schedule", display.listed(FALLING, "or"), why)
    elif schedule == STEPS and factors["schedule"] != CONSTANT:
        yield _problem(factors, "schedule", f"{CONSTANT}, or batch_schedule {SEESAW}", why)
    warmup = factors["warmup_epochs"] / factors["epochs"]
    if schedule == STEPS and factors["batch_rises_from"] < warmup:
        expected = f"at least {warmup:.3g}, the warm-up's share of the epochs"
        yield _problem(factors, "batch_rises_from", expected, why)
