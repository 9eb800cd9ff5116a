"""Short trainings of one network before a study is written. Their results are not stored."""

import math
from collections.abc import Iterator, Sequence
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from batchscope.datasets import Dataset, Examples
from batchscope.study import run_factors, tasks
from batchscope.training import losses, optimizers, step_times
from batchscope.training.step_loop import Batches, StepLoop, Totals, epoch_order, steps_per_epoch

_MAX_EVALUATED = 1024  # validation examples of an evaluation
_COPIES = 4  # of the outputs of layers in an update: outputs, gradients, temporary arrays
_FOLDS = 5
_GRADIENTS = 128  # of single examples


class Probe:
    """A network that is trained many times from the same initial weights, by one graph.

    Attributes:
        examples: Number of training examples.
        validation: Objective over at most 1,024 validation examples.
    """

    def __init__(self, model: keras.Model, data: Dataset, factors: dict[str, Any]) -> None:
        """Build the graph of an update from the factors of an optimizer."""
        defaults = {name: factor.default for name, factor in run_factors.FACTORS.items()}
        factors = {**defaults, "batch_size": 1, "learning_rate": 1.0, **factors}
        self.model = model
        self.train = data.examples("train")
        self.examples = len(self.train.labels)
        self._task = data.task
        self._size = tf.Variable(1, dtype=tf.int32)
        self._optimizer = optimizers.make_optimizer(factors)
        self._loop = StepLoop(self.model, self._optimizer, self.train, Batches(self._size))
        self.validation = losses.Objective(self.model, _subset(data.examples("validation")))
        variables = (*self.model.variables, *self._optimizer.variables)
        self._initial = [(variable, variable.numpy()) for variable in variables]

    def _restart(self, rate: float, size: int) -> None:
        for variable, value in self._initial:
            variable.assign(value)
        self._optimizer.learning_rate = rate
        self._size.assign(size)

    def step_seconds(self, size: int) -> float:
        self._restart(0.0, size)  # A rate of 0 keeps the loss finite.
        return step_times.loop_seconds(self._loop, epoch_order(0, 0, self.examples))

    def training(
        self, rate: float, size: int, stops: Sequence[int], kept: np.ndarray | None = None
    ) -> Iterator[tuple[int, float]]:
        """Train from the initial weights; yield examples used and validation loss at each stop.

        A training ends with an infinite loss when its loss is no longer finite.

        Args:
            stops: Numbers of updates, in rising order; 0 is before the first.
            kept: Indices of the examples to train on; all if left out.
        """
        self._restart(rate, size)
        steps, done = steps_per_epoch(self.examples, size), 0
        for stop in stops:
            while done < stop:
                epoch, start = divmod(done, steps)
                end = min(steps, stop - epoch * steps)
                order = _order(epoch, self.examples, kept)
                _, totals, *_ = self._loop.run(order, start, end, Totals())
                done += end - start
                if not math.isfinite(totals.loss):
                    yield done * size, math.inf
                    return
            loss = float(self.validation.example_losses()[0].mean())
            yield done * size, loss if math.isfinite(loss) else math.inf

    def gains(self, objective: losses.Objective) -> list[np.ndarray]:
        """Return the gain of each example over the best constant output, an array per criterion.

        Criteria are the loss and, for classification, the hits.
        """
        loss, scores = objective.example_losses()
        constant_loss, constant_hits = constant_losses(objective.labels, self._task)
        gains = [constant_loss - loss]
        if self._task == tasks.CLASSIFICATION:
            gains.append(scores.reshape(len(loss), -1).mean(axis=1) - constant_hits)
        return gains

    def learns(self, rate: float, size: int, stops: Sequence[int]) -> bool:
        """Return whether a training is clearly better than the best constant output at a stop.

        Its mean gain exceeds three standard errors on validation data, or two on all training data
        by five-fold cross-validation.
        """
        training = self.training(rate, size, stops)
        if any(_errors(gain) > 3 for _ in training for gain in self.gains(self.validation)):
            return True
        return any(_errors(gain) > 2 for gain in self._held_out(rate, size, stops))

    def _held_out(self, rate: float, size: int, stops: Sequence[int]) -> list[np.ndarray]:
        """Return the gains on all training examples, one array per stop and criterion."""
        indices = np.random.default_rng(0).permutation(self.examples)
        folds = []
        for fold in np.array_split(indices, _FOLDS):
            objective = self.validation.over(self.train.rows(np.sort(fold)))
            training = self.training(rate, size, stops, np.setdiff1d(indices, fold))
            folds.append([gain for _ in training for gain in self.gains(objective)])
        return [np.concatenate(gains) for gains in zip(*folds, strict=False)]

    def single_examples(self) -> losses.Objective:
        """Return an objective over 128 training examples, each of them a chunk of its own."""
        chosen = np.random.default_rng(0).permutation(self.examples)[:_GRADIENTS]
        return losses.Objective(self.model, self.train.rows(chosen), chunk=1)


def constant_losses(labels: np.ndarray, task: str) -> tuple[np.ndarray, np.ndarray]:
    """Return loss and hits of every example for the best constant prediction on these labels.

    The mean loss is the entropy of the class frequencies, or the variance of the targets. Hits are
    shares of the predicted labels, and zero for targets.
    """
    if task == tasks.REGRESSION:
        losses = (labels - labels.mean(axis=0)) ** 2
        return losses.mean(axis=1), np.zeros(len(labels))
    if task == tasks.MULTI_LABEL:
        shares = labels.mean(axis=0)
        losses, hits = np.where(labels, shares, 1 - shares), labels == (shares > 0.5)
    else:
        shares = np.bincount(labels.ravel()) / labels.size
        losses, hits = shares[labels], labels == shares.argmax()
    parts = (part.reshape(len(labels), -1).mean(axis=1) for part in (-np.log(losses), hits))
    return tuple(parts)


def _errors(gains: np.ndarray) -> float:
    """Return a mean in standard errors; 0 if they are zero."""
    error = gains.std(ddof=1) / math.sqrt(len(gains))
    return float(gains.mean() / error) if error > 0 else 0.0


def _order(epoch: int, examples: int, kept: np.ndarray | None) -> np.ndarray:
    if kept is None:
        return epoch_order(0, epoch, examples)
    return np.resize(kept[epoch_order(0, epoch, len(kept))], examples).astype(np.int32)


def _subset(examples: Examples) -> Examples:
    count = len(examples.labels)
    if count <= _MAX_EVALUATED:
        return examples
    chosen = np.random.default_rng(0).choice(count, _MAX_EVALUATED, replace=False)
    return examples.rows(np.sort(chosen))


def bytes_per_example(model: keras.Model) -> int:
    shapes = (tuple(tensor.shape)[1:] for layer in model.layers for tensor in _outputs(layer))
    return 4 * _COPIES * sum(math.prod(size or 1 for size in shape) for shape in shapes)


def _outputs(layer: Any) -> list[Any]:
    try:
        return keras.tree.flatten(layer.output)
    except AttributeError:  # a layer that was never called by itself
        return []
