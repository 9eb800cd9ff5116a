"""Branches of a training from a point, with larger batches.

All branches of a point use the same examples in the same order: the next ones of the training. A
branch of factor k has k times the batch size and a constant rate: the rate of the training, times k
for sgd or the square root of k otherwise (`batch_phases.rate_factor`). Its loss is the validation
loss at `parts` places that divide the window evenly, smoothed exponentially: l <- (l + loss) / 2.

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
from batchscope.training.update_methods import assign


class Window(NamedTuple):
    """Length of the branches, and their factors on the batch size."""

    factors: tuple[int, ...]  # ascending, 1 first; each divides the last
    batch_size: int  # of factor 1
    part: int  # examples before an evaluation: whole batches of every factor
    parts: int

    @property
    def examples(self) -> int:
        return self.part * self.parts

    @classmethod
    def from_settings(cls, settings: dict[str, Any], batch_size: int, examples: int) -> Window:
        """Return the window of a measure's settings, rounded up to whole batches."""
        factors = tuple(sorted({1, *settings["factors"]}))
        largest = factors[-1] * batch_size
        parts = settings["evaluations"]
        length = settings["window"] or examples
        return cls(factors, batch_size, math.ceil(length / parts / largest) * largest, parts)


@dataclass
class Branches:
    """Branches of one training, which leave every variable of it as it was."""

    factors: dict[str, Any]
    model: keras.Model
    optimizer: keras.optimizers.Optimizer  # built
    examples: Examples
    batches: Batches
    validate: Callable[[], float]  # the loss at the model's present weights
    window: Window

    def __post_init__(self) -> None:
        self._optimizer = optimizers.make_optimizer(self.factors)
        self._size = tf.Variable(self.window.batch_size, False, dtype=tf.int32)
        batches = replace(self.batches, size=self._size, drop_remainder=True, offset=0)
        self._loop = StepLoop(self.model, self._optimizer, self.examples, batches)
        # The model's variables contain the generators of its layers of dropout.
        augment = self.batches.augment
        self._shared = [*self.model.variables, *(augment.variables if augment else [])]

    def losses(self, order: np.ndarray, rate: float) -> list[float]:
        """Return the smoothed loss of each branch from here; NaN for one that diverged.

        Args:
            order: The next examples of the window, int32.
            rate: Learning rate of the training's next update.
        """
        values = [variable.numpy() for variable in self._shared]
        losses = [self._branch(order, rate, factor, values) for factor in self.window.factors]
        assign(self._shared, values)
        return losses

    def _branch(
        self, order: np.ndarray, rate: float, factor: int, values: Sequence[np.ndarray]
    ) -> float:
        assign(self._shared, values)
        # Without its rate, which is no variable if it follows a schedule.
        variables, training_variables = (
            [variable for variable in optimizer.variables if variable.name != "learning_rate"]
            for optimizer in (self._optimizer, self.optimizer)
        )
        assign(variables, [variable.value for variable in training_variables])
        times = batch_phases.rate_factor(self.factors["optimizer"], factor)
        self._optimizer.learning_rate = rate * times
        size, smoothed = factor * self.window.batch_size, math.nan
        self._size.assign(size)
        for part in np.split(order, self.window.parts):
            for stretch in self._stretches(part):
                padded = np.resize(stretch, self._loop.examples)
                _, totals, _, _ = self._loop.run(padded, 0, len(stretch) // size, Totals())
                if not math.isfinite(totals.loss):
                    return math.nan
            loss = self.validate()
            smoothed = loss if math.isnan(smoothed) else (smoothed + loss) / 2
        return smoothed

    def _stretches(self, part: np.ndarray) -> Iterator[np.ndarray]:
        """Yield the examples of one call: whole batches of every factor, at most an epoch."""
        largest = self.window.factors[-1] * self.window.batch_size
        most = self._loop.examples // largest * largest
        for start in range(0, len(part), most):
            yield part[start : start + most]
