"""Optimizer and batches of what is timed in TensorFlow, from its factors."""

from __future__ import annotations

from typing import Any

import keras

from batchscope.catalogue import run_factors
from batchscope.timing.time_epoch import LEARNING_RATE
from batchscope.training import augmentations, optimizers, replicas
from batchscope.training.step_loop import Batches
from batchscope.training.update_methods import Method


def make_optimizer(factors: dict[str, Any]) -> keras.optimizers.Optimizer:
    """Returns the optimizer, on the devices that its batches are divided among.

    Neither a step's time nor its memory depends on the rate, which is small enough that no
    model diverges, nor on what would follow from the batch size.
    """
    births = {name: factor.birth for name, factor in run_factors.FACTORS.items()}
    given = {**births, "batch_size": 1, **factors, "learning_rate": LEARNING_RATE}
    with replicas.scope(factors):
        return optimizers.make_optimizer(given)


def make_batches(factors: dict[str, Any], size: int, whole: bool = False) -> Batches:
    """Returns how an epoch is cut into batches; `whole` as `Batches` has it."""
    return Batches(
        size,
        whole,
        augmentations.layer(factors["augmentation"], 0),
        Method.of(factors),
        factors["micro_batch_size"],
    )
