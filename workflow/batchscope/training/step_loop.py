"""Order of the examples in, updates of an epoch as one loop inside a graph, and their totals out.

Training and timing share this loop. A new number that is recorded for each update goes next to the
norms: into `update` here and in `replicas`, and into a `TensorArray` of `_make_run`.

A batch updates the weights by the factors `method` and `micro_batch_size`. A new method is a branch
of `Method.apply`, and a choice of the factor. `plain` is the optimizer's step along the gradient of
the batch's loss f_B. The other methods compute several gradients of f_B with the same dropout
masks. Only the first one moves the statistics of batch normalisation, and its loss is reported.

With `micro_batch_size` m, the gradient of a batch is the sum of the gradients of parts of m
examples, weighted by their shares of the batch. This changes only the rounding. Batch
normalisation, dropout and augmentation work on each part. Losses that a model adds are weighted by
the shares.
"""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Self

import keras
import numpy as np
import tensorflow as tf

from batchscope.datasets import Examples
from batchscope.study.batch_phases import Segment
from batchscope.study.run_factors import FACTORS
from batchscope.training import inputs, losses, optimizers
from batchscope.training.losses import Scoring

# Function of the b indices of a batch, int32. It updates the weights and returns b times the loss
# (float64), the sums of the scores and, if recorded, the norm of the update (float32).
Update = Callable[[tf.Tensor], tuple[tf.Tensor, ...]]
# Function that returns loss, sums of scores and gradients of one batch at the current weights.
Evaluate = Callable[[], tuple[tf.Tensor, tf.Tensor, list[tf.Tensor]]]


@dataclass(frozen=True)
class Method:
    """A method of updating the weights, and its parameters."""

    name: str = "plain"
    gamma: float = FACTORS["gamma"].default  # weight of the squared distance in `proximal`
    inner_steps: int = FACTORS["inner_steps"].default  # steps of `proximal` per batch
    rho: float = FACTORS["rho"].default  # length of the first step of `sam`

    @classmethod
    def from_factors(cls, factors: dict[str, Any]) -> Self:
        parameters = ("gamma", "inner_steps", "rho")
        return cls(factors["method"], **{key: factors[key] for key in parameters if key in factors})

    def apply(
        self, evaluate: Evaluate, optimizer: keras.optimizers.Optimizer, model: keras.Model
    ) -> tuple[tf.Tensor, tf.Tensor]:
        """Update the weights once with a batch and a built optimizer, inside a graph.

        `proximal` minimises f_B(w) + gamma / 2 ||w - w_k||^2 by `inner_steps` of the optimizer from
        w_k. The first inner step is the plain update. Source: M. Li, T. Zhang, Y. Chen, A. J.
        Smola, "Efficient mini-batch training for stochastic optimization", KDD 2014, doi
        10.1145/2623330.2623612.

        `sam` is the optimizer's step from w_k along the gradient at w_k + rho g / ||g||, where g is
        the gradient at w_k. Source: P. Foret et al., "Sharpness-aware minimization", ICLR 2021,
        arXiv 2010.01412, equations 2 and 3. N. S. Keskar et al., arXiv 1609.04836, section 5, call
        this the robust cost of large batches.

        Returns:
            Loss and scores of `evaluate` at the weights before the update.
        """
        variables = model.trainable_variables
        if self.name == "plain":
            loss, scores, gradients = evaluate()
            # An update copies a weight that the backward pass still holds.
            with tf.control_dependencies(gradients):
                optimizer.apply(gradients, variables)
            return loss, scores
        # The moving statistics and the states of the random generators, which draw dropout masks.
        state = model.non_trainable_variables
        initial_weights, initial_state = _copies(variables), _copies(state)
        loss, scores, gradients = evaluate()
        if self.name == "proximal":
            optimizer.apply(gradients, variables)
            for _ in range(self.inner_steps - 1):
                inner_gradients = _gradients_from_state(evaluate, state, initial_state)
                terms = zip(inner_gradients, variables, initial_weights, strict=True)
                proximal_gradients = [
                    gradient + self.gamma * (variable.value - initial)
                    for gradient, variable, initial in terms
                ]
                optimizer.apply(proximal_gradients, variables)
        else:  # sam
            # If the gradient is zero, the first step is zero.
            factor = tf.math.divide_no_nan(self.rho, tf.linalg.global_norm(gradients))
            for variable, gradient in zip(variables, gradients, strict=True):
                variable.assign_add(factor * gradient)
            sharp_gradients = _gradients_from_state(evaluate, state, initial_state)
            assign_values(variables, initial_weights)  # A subtraction would round.
            optimizer.apply(sharp_gradients, variables)
        return loss, scores


def assign_values(variables: Sequence[keras.Variable], values: Sequence[Any]) -> None:
    for variable, value in zip(variables, values, strict=True):
        variable.assign(value)


def accumulated_evaluation(
    make_evaluate: Callable[[tf.Tensor, tf.Tensor], Evaluate],
    batch: tf.Tensor,
    micro_batch: int,
    variables: list[keras.Variable],
    scoring: Scoring,
) -> Evaluate:
    """Return a function that evaluates a batch part by part, inside a graph.

    Args:
        make_evaluate: Function of a part's indices and its share of the batch. It returns a
            function for the part's mean loss, scores, and gradients of the loss times the share.
        batch: Indices of the batch's examples, int32 of shape (b,).
    """

    def evaluate() -> tuple[tf.Tensor, tf.Tensor, list[tf.Tensor]]:
        size = tf.size(batch)

        def add_part(
            start: tf.Tensor, loss: tf.Tensor, scores: tf.Tensor, *sums: tf.Tensor
        ) -> tuple:
            examples = batch[start : tf.minimum(start + micro_batch, size)]
            share = tf.cast(tf.size(examples), tf.float32) / tf.cast(size, tf.float32)
            part_loss, part_scores, gradients = make_evaluate(examples, share)()
            sums = [
                total + tf.convert_to_tensor(gradient)
                for total, gradient in zip(sums, gradients, strict=True)
            ]
            return start + micro_batch, loss + share * part_loss, scores + part_scores, *sums

        zeros = [tf.zeros(variable.shape, variable.dtype) for variable in variables]
        # The parts run one after the other, so that only one part is in memory.
        _, loss, scores, *sums = tf.while_loop(
            lambda start, *_: start < size,
            add_part,
            (
                tf.constant(0),
                tf.constant(0.0),
                tf.zeros(scoring.sum_shape, scoring.sum_type),
                *zeros,
            ),
            parallel_iterations=1,
        )
        return loss, scores, sums

    return evaluate


def _gradients_from_state(
    evaluate: Evaluate, state: list[keras.Variable], initial_state: list[tf.Tensor]
) -> list[tf.Tensor]:
    """Return the gradients at the current weights, with the dropout masks of `initial_state`.

    The state is the same afterwards as before.
    """
    current_state = _copies(state)
    assign_values(state, initial_state)
    _, _, gradients = evaluate()
    assign_values(state, current_state)
    return gradients


def _copies(variables: list[keras.Variable]) -> list[tf.Tensor]:
    return [tf.identity(variable.value) for variable in variables]


@dataclass(frozen=True, eq=False)
class UpdateSettings:
    """Settings of the updates of an epoch: their batches, augmentation, method and accumulation."""

    # Number of examples per update, on all replicas together. A variable can change between calls
    # into the graph without another trace.
    size: int | tf.Variable
    drop_remainder: bool = False  # whether a smaller last batch is left out; a single one is kept
    augment: keras.layers.Layer | None = None  # changes a batch of scaled images
    method: Method = Method()
    micro_batch: int = 0  # examples per part with gradient accumulation; 0 for whole batches
    offset: int | tf.Variable = 0  # update k begins at position offset + k size of the epoch

    @classmethod
    def from_factors(cls, factors: dict[str, Any], size: int | tf.Variable, **options: Any) -> Self:
        """Return the settings of the updates of a training or a timing with these factors."""
        seed = factors.get("seed", 0)  # A timing has no seed.
        augment = inputs.random_layer(factors["augmentation"], seed)
        method, micro_batch = Method.from_factors(factors), factors["micro_batch_size"]
        return cls(size, augment=augment, method=method, micro_batch=micro_batch, **options)

    def set_segment(self, segment: Segment) -> None:
        """Use the batch size and offset of a segment from now on, if they are variables.

        Otherwise each epoch is a single segment with these values.
        """
        if isinstance(self.size, tf.Variable):
            self.size.assign(segment.size)
            self.offset.assign(segment.offset)


class Totals(NamedTuple):
    """Sums over the examples of an epoch so far."""

    loss: float = 0.0  # with the penalties of the model, counted once per example
    scores: Any = 0  # as `Scoring.sum_scores` returns them; 0 before the first update


def epoch_order(seed: int, epoch: int, examples: int) -> np.ndarray:
    return np.random.default_rng([seed, epoch]).permutation(examples).astype(np.int32)


def distance(old: list[tf.Tensor], variables: list[keras.Variable]) -> tf.Tensor:
    """Return the Euclidean distance of variables from their old values, float32."""
    halves = [
        tf.cast(tf.nn.l2_loss(variable.value - before), tf.float64)  # sum of squares / 2
        for before, variable in zip(old, variables, strict=True)
    ]
    return tf.cast(tf.sqrt(2.0 * tf.add_n(halves)), tf.float32)


class StepLoop:
    """Updates of one epoch as a loop inside a graph.

    The images stay on the device or on the disk in their type. Each batch becomes float32.
    """

    def __init__(
        self,
        model: keras.Model,
        optimizer: keras.optimizers.Optimizer,
        examples: Examples,
        update_settings: UpdateSettings,
        update_norms: bool = False,
    ) -> None:
        self.example_count = len(examples.images)
        self.update_settings = update_settings
        self.update_norms = update_norms
        self.scoring = losses.scoring_for(examples.task_info)
        if not optimizer.built:
            optimizer.build(model.trainable_variables)
        self._run = self._make_run(self._make_update(model, optimizer, examples))

    def _make_run(self, update: Update) -> Callable[..., tuple[tf.Tensor, ...]]:
        """Return the graph of the steps [start, stop) of an epoch."""
        settings, example_count = self.update_settings, self.example_count

        def run(
            order: tf.Tensor, step: tf.Tensor, stop: tf.Tensor, loss: tf.Tensor, scores: tf.Tensor
        ) -> tuple[tf.Tensor, ...]:
            start = step
            size = tf.convert_to_tensor(settings.size)  # A variable is read once per call.
            incomplete = 0 if settings.drop_remainder else size - 1
            offset = tf.convert_to_tensor(settings.offset)
            steps = tf.maximum(1, (example_count - offset + incomplete) // size)

            def body(
                step: tf.Tensor, loss: tf.Tensor, scores: tf.Tensor, *norms: tf.TensorArray
            ) -> tuple:
                first = offset + step % steps * size
                batch = order[first : tf.minimum(first + size, example_count)]
                batch_loss, batch_scores, *norm = update(batch)
                norms = [array.write(step - start, norm[0]) for array in norms]
                return step + 1, loss + batch_loss, scores + batch_scores, *norms

            def should_continue(step: tf.Tensor, loss: tf.Tensor, *_: Any) -> tf.Tensor:
                return tf.logical_and(step < stop, tf.math.is_finite(loss))

            arrays = []
            if self.update_norms:
                arrays.append(tf.TensorArray(tf.float32, stop - start, element_shape=[]))
            # The steps run in sequence, because each one needs the weights of the last one.
            step, loss, scores, *arrays = tf.while_loop(
                should_continue, body, (step, loss, scores, *arrays), parallel_iterations=1
            )
            return step, loss, scores, *(array.stack()[: step - start] for array in arrays)

        numbers = [tf.TensorSpec([], dtype) for dtype in (tf.int32, tf.int32, tf.float64)]
        scores = tf.TensorSpec(self.scoring.sum_shape, self.scoring.sum_type)
        signature = [tf.TensorSpec([example_count], tf.int32), *numbers, scores]
        # Autograph has nothing to convert here, and its search doubles the time of tracing.
        graph = tf.function(run, autograph=False, input_signature=signature)
        return graph.get_concrete_function()

    def _make_update(
        self, model: keras.Model, optimizer: keras.optimizers.Optimizer, examples: Examples
    ) -> Update:
        """Return the function that updates the weights with one batch, inside the graph."""
        variables = model.trainable_variables
        settings, task_scoring = self.update_settings, self.scoring
        scale, read_images = examples.scale, inputs.row_reader(examples.images)
        all_labels = tf.constant(np.asarray(examples.labels), task_scoring.label_type)

        def make_evaluate(batch: tf.Tensor, share: tf.Tensor | None = None) -> Evaluate:
            images = inputs.scaled_images(read_images(batch), scale)
            labels = tf.gather(all_labels, batch)
            if settings.augment:
                images = settings.augment(images, training=True)

            def evaluate() -> tuple[tf.Tensor, tf.Tensor, list[tf.Tensor]]:
                values = [variable.value for variable in variables]
                with tf.GradientTape(watch_accessed_variables=False) as tape:
                    tape.watch(values)
                    outputs = model(images, training=True)
                    example_losses, scores = task_scoring.score_examples(labels, outputs)
                    loss = tf.add_n([tf.reduce_mean(example_losses), *losses.penalties(model)])
                    weighted_loss = loss if share is None else share * loss
                    scaled_loss = optimizers.scaled_loss(optimizer, weighted_loss)
                gradients = losses.gradients_by(tape, scaled_loss, values)
                return loss, task_scoring.sum_scores(scores), gradients

            return evaluate

        def update(batch: tf.Tensor) -> tuple[tf.Tensor, ...]:
            if settings.micro_batch:
                evaluate = accumulated_evaluation(
                    make_evaluate, batch, settings.micro_batch, variables, task_scoring
                )
            else:
                evaluate = make_evaluate(batch)
            # These reads are free, but they make the update copy the weights.
            old = (
                [tf.identity(variable.value) for variable in variables] if self.update_norms else []
            )
            loss, scores = settings.method.apply(evaluate, optimizer, model)
            total = tf.cast(loss, tf.float64) * tf.cast(tf.size(batch), tf.float64)
            norms = [distance(old, variables)] if self.update_norms else []
            return total, scores, *norms

        return update

    def run(
        self, order: np.ndarray | tf.Tensor, start: int, stop: int, totals: Totals
    ) -> tuple[int, Totals, float, np.ndarray]:
        """Run the steps [start, stop) of an epoch, but end after a step with a non-finite loss.

        The steps add to the given totals one by one, so that the bits do not depend on the length
        of calls. Steps after the epoch's last one begin it again.

        Returns:
            Steps of the epoch done so far, the totals, the seconds of the call, and the norm
            ||w_{k+1} - w_k|| of each update over all trainable weights: float32 of shape (steps,),
            or (0,) without `update_norms`.
        """
        begun = time.perf_counter()
        step, loss, scores, *norms = self._run(
            tf.constant(order),
            tf.constant(start, tf.int32),
            tf.constant(stop, tf.int32),
            tf.constant(totals.loss, tf.float64),
            tf.constant(
                np.broadcast_to(totals.scores, self.scoring.sum_shape), self.scoring.sum_type
            ),
        )
        # These conversions wait for the device, so that the seconds contain its work.
        steps_done, totals = int(step), Totals(float(loss), scores.numpy().tolist())
        seconds = time.perf_counter() - begun
        return steps_done, totals, seconds, norms[0].numpy() if norms else np.empty(0, np.float32)
