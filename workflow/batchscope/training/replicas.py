"""Data parallelism: every batch divided among GPUs or logical CPU devices, with mirrored weights.

A batch of B examples becomes k shards. Their sizes differ by at most one. Each replica takes the
gradient of the sum of its examples' losses over B; the optimizer applies the sum over the replicas,
which is the gradient of the batch's mean loss. Losses that the model adds are weighted by the
shards' shares of the batch.

The differences from one device:

- Batch normalisation uses the statistics of each replica's shard, unless the layer is
  `synchronized`. Its moving statistics move by the weighted mean of the replicas' moves.
- Dropout and noise draw on each replica for its shard, with different seeds. Replica 0 has the seed
  of a training on one device.
"""

import contextlib
import functools
from collections.abc import Callable, Iterator
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from batchscope.core.errors import UserError
from batchscope.training import losses
from batchscope.training.scoring import Scoring
from batchscope.training.step_loop import Examples, StepLoop, Update, distance

# Between the seeds of two replicas; a prime, far from the steps between the seeds of layers.
_SEED_STRIDE = 15_485_863


@functools.cache
def _strategy(device: str, replicas: int) -> tf.distribute.MirroredStrategy:
    # Cached, because variables belong to one strategy.
    devices = tf.config.list_logical_devices(device.upper())
    if len(devices) < replicas:
        raise UserError(
            f"replicas: Expected at most {len(devices)}, the number of {device} devices of "
            f"TensorFlow (received {replicas})."
        )
    names = [device.name for device in devices[:replicas]]
    # One device sums in the order of the replicas: the same bits every time, and no collective
    # operation that waits for threads which a training on the CPU does not have.
    on_cpu = tf.distribute.ReductionToOneDevice()
    return tf.distribute.MirroredStrategy(names, on_cpu if device == "cpu" else None)


@contextlib.contextmanager
def scope(factors: dict[str, Any]) -> Iterator[None]:
    """Mirror the variables of model and optimizer that are made inside; do nothing for one replica.

    Use `models.build(..., scope=...)` for a model, because Keras leaves every scope when it forgets
    the names that it has given.
    """
    with contextlib.ExitStack() as scopes:
        if factors["replicas"] > 1:
            scopes.enter_context(_strategy(factors["device"], factors["replicas"]).scope())
            scopes.enter_context(tf.variable_creator_scope(_assignable))
        yield


def _assignable(create: Callable, **options: Any) -> tf.Variable:
    """Let a replica assign to a variable: all replicas assign the same value.

    MirroredStrategy refuses to set variables of Keras's Nadam, and those with constraints.
    """
    if options.get("aggregation") in (None, tf.VariableAggregation.NONE):
        options["aggregation"] = tf.VariableAggregation.ONLY_FIRST_REPLICA
    return create(**options)


def make_loop(factors: dict[str, Any], *arguments: Any) -> StepLoop:
    loop = ReplicaLoop if factors["replicas"] > 1 else StepLoop
    with scope(factors):  # creates the optimizer's own variables
        return loop(*arguments)


class ReplicaLoop(StepLoop):
    """Updates of an epoch, every batch divided among the replicas; to be made inside `scope`."""

    def _make_update(
        self, model: keras.Model, optimizer: keras.optimizers.Optimizer, examples: Examples
    ) -> Update:
        strategy = tf.distribute.get_strategy()
        replicas = strategy.num_replicas_in_sync
        variables = model.trainable_variables
        arrays = (examples.images, np.asarray(examples.labels, self.scoring.labels.as_numpy_dtype))
        data = [_on_every_replica(strategy, array) for array in arrays]
        scale = examples.scale  # the graph outlives the arrays: it keeps copies

        def replica(batch: tf.Tensor, images: tf.Tensor, labels: tf.Tensor) -> tuple:
            number = tf.distribute.get_replica_context().replica_id_in_sync_group
            least, extra = tf.size(batch) // replicas, tf.size(batch) % replicas
            size = least + tf.cast(number < extra, tf.int32)  # the first shards are the larger
            start = number * least + tf.minimum(number, extra)
            # An empty shard computes on the batch's last example, and counts for nothing.
            start = tf.minimum(start, tf.size(batch) - 1)
            rows = batch[start : start + tf.maximum(size, 1)]
            scaled = losses.scaled(tf.gather(images, rows), scale)
            labels = tf.gather(labels, rows)
            old = [tf.convert_to_tensor(variable.value) for variable in variables]
            part = scaled, labels, size, tf.size(batch), number
            loss, scores, gradients, state = _compute(model, self.scoring, *part)
            optimizer.apply(gradients, variables)  # of their sum over the replicas
            norms = [distance(old, variables)] if self.update_norms else []
            return loss, scores, state, norms

        add = functools.partial(strategy.reduce, tf.distribute.ReduceOp.SUM, axis=None)

        def update(batch: tf.Tensor) -> tuple[tf.Tensor, ...]:
            loss, scores, state, norms = strategy.run(replica, (batch, *data))
            for variable, value in zip(model.non_trainable_variables, state, strict=True):
                if value is not None and tf.as_dtype(variable.dtype).is_floating:
                    variable.value.assign_add(add(value))
                elif value is not None:
                    variable.value.assign(_first(strategy, value))
            total = add(loss) * tf.cast(tf.size(batch), tf.float64)
            return total, add(scores), *(_first(strategy, norm) for norm in norms)

        return update


def _on_every_replica(
    strategy: tf.distribute.Strategy, array: np.ndarray
) -> tf.distribute.DistributedValues:
    devices = strategy.extended.worker_devices

    def place(context: tf.distribute.experimental.ValueContext) -> tf.Tensor:
        with tf.device(devices[context.replica_id_in_sync_group]):
            return tf.identity(first)

    with tf.device(devices[0]):
        first = tf.constant(array)
    return strategy.experimental_distribute_values_from_function(place)


def _first(strategy: tf.distribute.Strategy, value: tf.distribute.DistributedValues) -> tf.Tensor:
    return strategy.experimental_local_results(value)[0]


def _compute(
    model: keras.Model,
    scored: Scoring,
    images: tf.Tensor,
    labels: tf.Tensor,
    size: tf.Tensor,
    batch: tf.Tensor,
    replica: tf.Tensor,
) -> tuple[tf.Tensor, tf.Tensor, list[tf.Tensor | None], list[tf.Tensor | None]]:
    """Run the model forward and back on a replica's shard of `size` examples; set no variable.

    Returns:
        The shard's part of the batch's mean loss with penalties, float64; the sums of its scores;
        the gradients of that part, None for an independent variable; and for each other variable
        the result of `_state_move`.
    """
    share = tf.cast(size, tf.float32) / tf.cast(batch, tf.float32)
    present = tf.cast(size > 0, tf.float32)
    weights = [tf.convert_to_tensor(variable.value) for variable in model.trainable_variables]
    other_variables = model.non_trainable_variables
    old = [tf.convert_to_tensor(variable.value) for variable in other_variables]
    seeded = [_own_seed(*pair, replica) for pair in zip(other_variables, old, strict=True)]
    values = zip([*model.trainable_variables, *other_variables], [*weights, *seeded], strict=True)
    with tf.GradientTape(watch_accessed_variables=False) as tape:
        tape.watch(weights)
        # Keras's layers cannot set a mirrored variable from within a replica.
        with keras.StatelessScope(list(values), True, False) as after:
            outputs = model(images, training=True)
            penalties = model.losses
        example, scores = scored.examples(labels, outputs)
        mean = tf.reduce_sum(example) / tf.cast(batch, example.dtype)
        parts = [tf.math.multiply_no_nan(mean, present)]
        parts += [tf.math.multiply_no_nan(penalty, share) for penalty in penalties]
        loss = tf.add_n(parts)
    gradients = losses.dense(tape.gradient(loss, weights))
    new = [after.get_current_value(variable) for variable in other_variables]
    state = [_state_move(*three, share) for three in zip(old, seeded, new, strict=True)]
    sums = scored.total(scores)
    sums = tf.where(size > 0, sums, tf.zeros_like(sums))
    return tf.cast(loss, tf.float64), sums, gradients, state


def _own_seed(variable: keras.Variable, value: tf.Tensor, replica: tf.Tensor) -> tf.Tensor:
    """Return the value of a variable; a generator, (seed, position), gets the replica's seed."""
    if variable.name != "seed_generator_state":
        return value
    offset = tf.cast(replica * _SEED_STRIDE, variable.dtype)
    return value + tf.stack([offset, tf.zeros((), variable.dtype)])


def _state_move(
    old: tf.Tensor, seeded: tf.Tensor, new: tf.Tensor, share: tf.Tensor
) -> tf.Tensor | None:
    """Return None for an unchanged variable, a float's move times the share, or a new value.

    The model had `seeded` instead of `old`: the state of a generator with the replica's seed.
    """
    if new is seeded:
        return None
    if old.dtype.is_floating:
        return tf.math.multiply_no_nan(new - old, tf.cast(share, old.dtype))
    return new if seeded is old else new - (seeded - old)
