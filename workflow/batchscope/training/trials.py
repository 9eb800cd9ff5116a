"""Trial trainings before a study, which store nothing.

They measure the seconds of a step, and check a user's model with one step. `Probe` trains for
`init`, which chooses rates and batch sizes from the curves.
"""

import math
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from batchscope.core import display
from batchscope.core.errors import UserError
from batchscope.datasets import Dataset, Examples, TaskInfo
from batchscope.datasets.prepared import ModelInput
from batchscope.study import model_files, run_factors, tasks
from batchscope.training import losses, models, optimizers
from batchscope.training.step_loop import StepLoop, Totals, UpdateSettings, epoch_order

_MIN_SECONDS = 0.2  # shortest time of the repeated steps
_MAX_EVALUATED = 1024  # largest number of validation examples in an evaluation
_OUTPUT_COPIES = 4  # An update holds outputs of layers, their gradients and temporary arrays.
_FOLD_COUNT = 5
_DEFAULTS = {name: factor.default for name, factor in run_factors.FACTORS.items()}
_GRADIENT_EXAMPLES = 128  # training examples with a gradient each


def step_seconds(
    factors: dict[str, Any], model_input: ModelInput, model_file: Path | str | None
) -> float:
    """Return the seconds of a step of a run, on random examples of the data set's shape."""
    token, seed, precision = factors["model"], factors["seed"], factors["precision"]
    model = models.build(token, model_input, seed, model_file, precision=precision)
    loop = _step_loop(model, factors, model_input)
    return loop_seconds(loop, np.arange(factors["batch_size"], dtype=np.int32))


def _step_loop(model: keras.Model, factors: dict[str, Any], model_input: ModelInput) -> StepLoop:
    """Return the step loop of a run over one batch of random examples, with a rate of 0."""
    settings = UpdateSettings.from_factors(factors, factors["batch_size"])
    # With a rate of 0, the loss stays finite. The loop would otherwise end early.
    optimizer = optimizers.make_optimizer({**factors, "learning_rate": 0.0})
    examples = _random_examples(model_input, factors["batch_size"])
    return StepLoop(model, optimizer, examples, settings)


def loop_seconds(loop: StepLoop, order: np.ndarray) -> float:
    """Return the mean seconds of a step of a loop, after a first step that is not timed."""
    loop.run(order, 0, 1, Totals())
    steps, seconds = 1, 0.0
    while seconds < _MIN_SECONDS:
        steps = max(steps, int(steps * min(10.0, _MIN_SECONDS / max(seconds, 1e-6))))
        begun = time.perf_counter()
        loop.run(order, 0, steps, Totals())
        seconds = time.perf_counter() - begun
    return seconds / steps


def _random_examples(model_input: ModelInput, count: int) -> Examples:
    random, shape = np.random.default_rng(0), (count, *model_input.input_shape)
    if model_input.kind in tasks.TOKEN_KINDS:
        has_class_per_token = model_input.kind == tasks.TOKENS
        largest = model_input.classes - 1 if has_class_per_token else model_input.largest
        examples = random.integers(0, largest + 1, shape, np.int32)
        examples[:, 0] = largest  # An embedding of too few tokens must fail.
    elif model_input.kind == tasks.IMAGES:
        examples = random.integers(0, 256, shape, np.uint8)
    else:
        examples = random.normal(size=shape).astype(np.float32)
    labels_shape = shape if model_input.kind == tasks.TOKENS else (count,)
    if model_input.task != tasks.CLASSIFICATION:
        labels_shape = (count, model_input.classes)
    task_info = TaskInfo(model_input.task, deviations=(1.0,) * model_input.classes)
    scale = 1 / 255 if model_input.kind == tasks.IMAGES else 1.0
    return Examples(examples, np.zeros(labels_shape, np.int32), scale, task_info)


def check_model(token: str, model_input: ModelInput, model_file: Path | str) -> list[str]:
    """Build a model, train one step, and return notes for the user.

    Raises:
        UserError: If Keras cannot build or train it, if its output has another shape than the
            labels need, or if it scales rows that are already standardised.
    """
    model = models.build(token, model_input, 0, model_file)
    _check_output(model, model_file, model_input)
    layer, notes = models.scaling_layer(model, model_input), []
    if layer is not None:
        name = f"{type(layer).__name__} '{layer.name}'"
        if not model_input.scaling:
            raise UserError(f"{model_file}: Rows are standardised. Remove {name} from the input.")
        notes += [f"{name} gets the raw values of the images, which are not scaled before it."]
    with models.errors_at_line(model_file, f"cannot train on {model_input.input_shape}"):
        factors = {**_DEFAULTS, "optimizer": "sgd", "batch_size": 2, "seed": 0}
        _step_loop(model, factors, model_input).run(np.arange(2, dtype=np.int32), 0, 1, Totals())
    if model.optimizer is not None:
        notes += ["compile(...) is not used. The study has optimizer, learning rate and loss."]
    if model_files.is_saved(model_file):
        notes += ["The run's seed draws all weights. Saved weights are not used."]
    return [f"{model_file}: {note}" for note in notes]


def _check_output(model: keras.Model, model_file: Path | str, model_input: ModelInput) -> None:
    classes, received = model_input.classes, model.output_shape
    expected = [(None, classes)]
    if model_input.kind == tasks.TOKENS:  # one output per position
        expected = [(None, *model_input.input_shape, classes)]
    elif model_input.task == tasks.CLASSIFICATION and classes == 2:
        expected.append((None, 1))
    if received not in expected:
        shapes = display.listed(map(str, expected), "or")
        raise UserError(
            f"{model_file}: Expected an output of shape {shapes} for {model_input.task} "
            f"(received {received})."
        )
    if not model.trainable_weights:
        raise UserError(f"{model_file}: Expected trainable weights (received none).")


class Probe:
    """A network that one graph trains many times from the same initial weights.

    Attributes:
        examples: Number of training examples.
        validation: Objective over at most 1,024 validation examples.
    """

    def __init__(self, model: keras.Model, data: Dataset, factors: dict[str, Any]) -> None:
        """Build the graph of an update from the factors of an optimizer."""
        factors = {**_DEFAULTS, "batch_size": 1, "learning_rate": 1.0, **factors}
        self.model = model
        self.train = data.examples("train")
        self.examples = len(self.train.labels)
        self._task = data.task
        self._size = tf.Variable(1, dtype=tf.int32)
        self._optimizer = optimizers.make_optimizer(factors)
        self._loop = StepLoop(self.model, self._optimizer, self.train, UpdateSettings(self._size))
        validation = _evaluated_subset(data.examples("validation"))
        self.validation = losses.Objective(self.model, validation)
        variables = (*self.model.variables, *self._optimizer.variables)
        self._initial = [(variable, variable.numpy()) for variable in variables]

    def _restart(self, rate: float, size: int) -> None:
        for variable, value in self._initial:
            variable.assign(value)
        self._optimizer.learning_rate = rate
        self._size.assign(size)

    def step_seconds(self, size: int) -> float:
        self._restart(0.0, size)  # A rate of 0 keeps the loss finite.
        return loop_seconds(self._loop, epoch_order(0, 0, self.examples))

    def training(
        self, rate: float, size: int, stops: Sequence[int], train_indices: np.ndarray | None = None
    ) -> Iterator[tuple[int, float]]:
        """Train from the initial weights; yield examples used and validation loss at each stop.

        A training that diverges ends with an infinite loss.

        Args:
            stops: Numbers of updates in rising order. The stop 0 is before the first update.
            train_indices: Indices of the examples to train on; all if left out.
        """
        self._restart(rate, size)
        steps, updates = math.ceil(self.examples / size), 0
        for stop in stops:
            while updates < stop:
                epoch, start = divmod(updates, steps)
                end = min(steps, stop - epoch * steps)
                order = _epoch_order(epoch, self.examples, train_indices)
                _, totals, *_ = self._loop.run(order, start, end, Totals())
                updates += end - start
                if not math.isfinite(totals.loss):
                    yield updates * size, math.inf
                    return
            loss = float(self.validation.example_losses()[0].mean())
            yield updates * size, loss if math.isfinite(loss) else math.inf

    def gains(self, objective: losses.Objective) -> list[np.ndarray]:
        """Return how far each example is better than the best constant output.

        The first array compares the losses; for classification, a second one compares the hits.
        """
        loss, scores = objective.example_losses()
        constant_loss, constant_hits = constant_losses(objective.labels, self._task)
        gains = [constant_loss - loss]
        if self._task == tasks.CLASSIFICATION:
            gains.append(scores.reshape(len(loss), -1).mean(axis=1) - constant_hits)
        return gains

    def is_better_than_constant(self, rate: float, size: int, stops: Sequence[int]) -> bool:
        """Return whether a training is clearly better than the best constant output at a stop.

        The mean gain must exceed three standard errors on the validation data, or two on all
        training data by five-fold cross-validation.
        """
        training = self.training(rate, size, stops)
        gains = (gain for _ in training for gain in self.gains(self.validation))
        if any(_gain_in_standard_errors(gain) > 3 for gain in gains):
            return True
        return any(
            _gain_in_standard_errors(gain) > 2 for gain in self._held_out_gains(rate, size, stops)
        )

    def _held_out_gains(self, rate: float, size: int, stops: Sequence[int]) -> list[np.ndarray]:
        """Return the cross-validated gains on all training examples, as `gains` for each stop."""
        indices = np.random.default_rng(0).permutation(self.examples)
        folds = []
        for fold in np.array_split(indices, _FOLD_COUNT):
            objective = self.validation.with_examples(self.train.rows(np.sort(fold)))
            training = self.training(rate, size, stops, np.setdiff1d(indices, fold))
            folds.append([gain for _ in training for gain in self.gains(objective)])
        return [np.concatenate(gains) for gains in zip(*folds, strict=False)]

    def single_examples(self) -> losses.Objective:
        chosen = np.random.default_rng(0).permutation(self.examples)[:_GRADIENT_EXAMPLES]
        return losses.Objective(self.model, self.train.rows(chosen), chunk=1)


def constant_losses(labels: np.ndarray, task: str) -> tuple[np.ndarray, np.ndarray]:
    """Return loss and hits of every example for the best constant prediction on these labels.

    The mean loss is the entropy of the class frequencies, or the variance of the targets. The hits
    of an example are its share of correct labels. They are zero for a regression.
    """
    if task == tasks.REGRESSION:
        squared_errors = (labels - labels.mean(axis=0)) ** 2
        return squared_errors.mean(axis=1), np.zeros(len(labels))
    if task == tasks.MULTI_LABEL:
        shares = labels.mean(axis=0)
        probabilities, hits = np.where(labels, shares, 1 - shares), labels == (shares > 0.5)
    else:
        shares = np.bincount(labels.ravel()) / labels.size
        probabilities, hits = shares[labels], labels == shares.argmax()
    parts = (part.reshape(len(labels), -1).mean(axis=1) for part in (-np.log(probabilities), hits))
    return tuple(parts)


def _gain_in_standard_errors(gains: np.ndarray) -> float:
    """Return the mean gain divided by its standard error; 0 if the gains do not vary."""
    error = gains.std(ddof=1) / math.sqrt(len(gains))
    return float(gains.mean() / error) if error > 0 else 0.0


def _epoch_order(epoch: int, examples: int, indices: np.ndarray | None) -> np.ndarray:
    if indices is None:
        return epoch_order(0, epoch, examples)
    return np.resize(indices[epoch_order(0, epoch, len(indices))], examples).astype(np.int32)


def _evaluated_subset(examples: Examples) -> Examples:
    count = len(examples.labels)
    if count <= _MAX_EVALUATED:
        return examples
    chosen = np.random.default_rng(0).choice(count, _MAX_EVALUATED, replace=False)
    return examples.rows(np.sort(chosen))


def bytes_per_example(model: keras.Model) -> int:
    shapes = (tuple(tensor.shape)[1:] for layer in model.layers for tensor in _outputs(layer))
    return 4 * _OUTPUT_COPIES * sum(math.prod(size or 1 for size in shape) for shape in shapes)


def _outputs(layer: Any) -> list[Any]:
    try:
        return keras.tree.flatten(layer.output)
    except AttributeError:  # The layer was never called by itself.
        return []
