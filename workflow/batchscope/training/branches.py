"""Branch a training at one update: continue it with several larger batches, and return the losses.

All branches of an update use the next examples of the training, in the same order. The branch with
the multiple k has k times the batch size and a constant rate: the rate of the training, times k for
sgd or the square root of k otherwise (`batch_phases.rate_factor`). Its loss is the validation loss
after each of `part_count` parts of the window, smoothed exponentially: l <- (l + loss) / 2.

Source: W. Merrill et al. 2025, "Critical Batch Size Revisited", arXiv 2505.23971.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import keras
import numpy as np
import tensorflow as tf

from batchscope.datasets import Examples
from batchscope.study import batch_phases
from batchscope.training import optimizers
from batchscope.training.step_loop import Batches, StepLoop, Totals
from batchscope.training.update_methods import assign_values


class Window(NamedTuple):
    """Length of the branches, and their multiples of the batch size."""

    multiples: tuple[int, ...]  # in rising order from 1; each divides the last
    batch_size: int  # of the branch with the multiple 1
    part_size: int  # examples between two evaluations: whole batches of every multiple
    part_count: int

    @property
    def examples(self) -> int:
        return self.part_size * self.part_count

    @classmethod
    def from_settings(cls, settings: dict[str, Any], batch_size: int, examples: int) -> Window:
        """Return the window of a measure's settings, rounded up to whole batches."""
        multiples = tuple(sorted({1, *settings["factors"]}))
        largest = multiples[-1] * batch_size
        count = settings["evaluations"]
        length = settings["window"] or examples
        return cls(multiples, batch_size, math.ceil(length / count / largest) * largest, count)


@dataclass
class Branches:
    """Branches of one training. They leave all variables of the training unchanged."""

    factors: dict[str, Any]  # of the run
    model: keras.Model
    optimizer: keras.optimizers.Optimizer  # of the training, built
    examples: Examples
    batches: Batches
    validate: Callable[[], float]  # returns the validation loss at the model's present weights
    window: Window

    def __post_init__(self) -> None:
        self._optimizer = optimizers.make_optimizer(self.factors)
        self._size = tf.Variable(self.window.batch_size, False, dtype=tf.int32)
        batches = replace(self.batches, size=self._size, drop_remainder=True, offset=0)
        self._loop = StepLoop(self.model, self._optimizer, self.examples, batches)
        # The model's variables include the random generators of its dropout layers.
        augment = self.batches.augment
        self._shared_variables = [*self.model.variables, *(augment.variables if augment else [])]

    def losses(self, order: np.ndarray, rate: float) -> list[float]:
        """Return the smoothed loss of each branch from the present weights; NaN if it diverged.

        Args:
            order: Indices of the examples of the window, int32.
            rate: Learning rate of the training's next update.
        """
        values = [variable.numpy() for variable in self._shared_variables]
        multiples = self.window.multiples
        losses = [self._branch_loss(order, rate, multiple, values) for multiple in multiples]
        assign_values(self._shared_variables, values)
        return losses

    def _branch_loss(
        self, order: np.ndarray, rate: float, multiple: int, values: Sequence[np.ndarray]
    ) -> float:
        assign_values(self._shared_variables, values)
        # The rate is left out, because it is no variable if it follows a schedule.
        variables, training_variables = (
            [variable for variable in optimizer.variables if variable.name != "learning_rate"]
            for optimizer in (self._optimizer, self.optimizer)
        )
        assign_values(variables, [variable.value for variable in training_variables])
        rate_factor = batch_phases.rate_factor(self.factors["optimizer"], multiple)
        self._optimizer.learning_rate = rate * rate_factor
        size, smoothed = multiple * self.window.batch_size, math.nan
        self._size.assign(size)
        for part in np.split(order, self.window.part_count):
            for examples in self._examples_of_calls(part):
                padded = np.resize(examples, self._loop.examples)
                _, totals, _, _ = self._loop.run(padded, 0, len(examples) // size, Totals())
                if not math.isfinite(totals.loss):
                    return math.nan
            loss = self.validate()
            smoothed = loss if math.isnan(smoothed) else (smoothed + loss) / 2
        return smoothed

    def _examples_of_calls(self, part: np.ndarray) -> Iterator[np.ndarray]:
        """Yield the examples of each call: whole batches of every multiple, at most an epoch."""
        largest = self.window.multiples[-1] * self.window.batch_size
        max_examples = self._loop.examples // largest * largest
        for start in range(0, len(part), max_examples):
            yield part[start : start + max_examples]
