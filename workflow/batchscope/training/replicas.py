"""Train on several replicas: divide every batch among GPUs or logical CPU devices.

The weights are mirrored on k replicas. A batch of B examples becomes k shards. Their sizes differ
by at most one. Each replica computes the gradient of the sum of its examples' losses divided by B.
The optimizer applies the sum over the replicas, the gradient of the batch's mean loss. Losses that
the model adds are weighted by the shards' shares of the batch.

The differences from one device:

- Batch normalisation uses the statistics of each replica's shard, unless the layer is
  `synchronized`. Its moving statistics move by the weighted mean of the replicas' moves.
- Each replica draws dropout and noise for its shard with a seed of its own. Replica 0 has the seed
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
from batchscope.training import inputs, losses
from batchscope.training.step_loop import Examples, StepLoop, Update, distance

# Difference between the seeds of two replicas. It is a prime, far from the differences between the
# seeds of layers.
_SEED_STRIDE = 15_485_863


@functools.cache
def _strategy(device: str, replicas: int) -> tf.distribute.MirroredStrategy:
    # The strategy is cached, because variables belong to one strategy.
    devices = tf.config.list_logical_devices(device.upper())
    if len(devices) < replicas:
        raise UserError(
            f"replicas: Expected at most {len(devices)}, the number of {device} devices of "
            f"TensorFlow (received {replicas})."
        )
    names = [device.name for device in devices[:replicas]]
    # On CPUs, one device sums in the order of the replicas, so that the bits repeat. A collective
    # operation would wait for threads that a training on the CPU does not have.
    on_cpu = tf.distribute.ReductionToOneDevice()
    return tf.distribute.MirroredStrategy(names, on_cpu if device == "cpu" else None)


@contextlib.contextmanager
def scope(factors: dict[str, Any]) -> Iterator[None]:
    """Mirror the variables that are made inside the block; do nothing for one replica.

    Pass the scope to `models.build` for a model, because Keras leaves every scope when it resets
    its names.
    """
    with contextlib.ExitStack() as scopes:
        if factors["replicas"] > 1:
            scopes.enter_context(_strategy(factors["device"], factors["replicas"]).scope())
            scopes.enter_context(tf.variable_creator_scope(_create_assignable))
        yield


def _create_assignable(create: Callable, **options: Any) -> tf.Variable:
    """Create a variable that a replica may assign to: all replicas assign the same value.

    MirroredStrategy otherwise refuses the variables of Keras's Nadam and those with constraints.
    """
    if options.get("aggregation") in (None, tf.VariableAggregation.NONE):
        options["aggregation"] = tf.VariableAggregation.ONLY_FIRST_REPLICA
    return create(**options)


def make_loop(factors: dict[str, Any], *arguments: Any) -> StepLoop:
    loop = ReplicaLoop if factors["replicas"] > 1 else StepLoop
    with scope(factors):  # The loop builds the optimizer, which creates variables.
        return loop(*arguments)


class ReplicaLoop(StepLoop):
    """A `StepLoop` that divides every batch among the replicas. Create it inside `scope`."""

    def _make_update(
        self, model: keras.Model, optimizer: keras.optimizers.Optimizer, examples: Examples
    ) -> Update:
        strategy = tf.distribute.get_strategy()
        replicas = strategy.num_replicas_in_sync
        variables, state = model.trainable_variables, model.non_trainable_variables
        labels = np.asarray(examples.labels, self.scoring.label_type.as_numpy_dtype)
        data = [_on_every_replica(strategy, array) for array in (examples.images, labels)]
        scale = examples.scale

        def update_on_replica(batch: tf.Tensor, images: tf.Tensor, labels: tf.Tensor) -> tuple:
            """Update the weights; return the sums of a shard and the moves of the state."""
            replica = tf.distribute.get_replica_context().replica_id_in_sync_group
            min_size, remainder = tf.size(batch) // replicas, tf.size(batch) % replicas
            # The first shards are larger by one.
            size = min_size + tf.cast(replica < remainder, tf.int32)
            start = replica * min_size + tf.minimum(replica, remainder)
            # An empty shard computes on the batch's last example with the weight zero.
            start = tf.minimum(start, tf.size(batch) - 1)
            rows = batch[start : start + tf.maximum(size, 1)]
            present = tf.cast(size > 0, tf.float32)
            share = tf.cast(size, tf.float32) / tf.cast(tf.size(batch), tf.float32)
            scaled = inputs.scaled_images(tf.gather(images, rows), scale)
            weights = [tf.convert_to_tensor(variable.value) for variable in variables]
            old = [tf.convert_to_tensor(variable.value) for variable in state]
            pairs = zip(state, old, strict=True)
            seeded = [_seed_of_replica(variable, value, replica) for variable, value in pairs]
            values = zip([*variables, *state], [*weights, *seeded], strict=True)
            with tf.GradientTape(watch_accessed_variables=False) as tape:
                tape.watch(weights)
                # Inside a replica, Keras's layers cannot set a mirrored variable.
                with keras.StatelessScope(list(values), True, False) as after:
                    outputs = model(scaled, training=True)
                    penalties = model.losses
                shard_labels = tf.gather(labels, rows)
                example_losses, scores = self.scoring.score_examples(shard_labels, outputs)
                mean = tf.reduce_sum(example_losses) / tf.cast(tf.size(batch), example_losses.dtype)
                # The shard's part of the batch's mean loss, with penalties.
                parts = [tf.math.multiply_no_nan(mean, present)]
                parts += [tf.math.multiply_no_nan(penalty, share) for penalty in penalties]
                loss = tf.add_n(parts)
            gradients = losses.gradients_by(tape, loss, weights)
            new = [after.get_current_value(variable) for variable in state]
            moves = [_state_move(*values, share) for values in zip(old, seeded, new, strict=True)]
            sums = self.scoring.sum_scores(scores)
            sums = tf.where(size > 0, sums, tf.zeros_like(sums))
            optimizer.apply(gradients, variables)  # It first sums them over the replicas.
            norms = [distance(weights, variables)] if self.update_norms else []
            return tf.cast(loss, tf.float64), sums, moves, norms

        add = functools.partial(strategy.reduce, tf.distribute.ReduceOp.SUM, axis=None)

        def update(batch: tf.Tensor) -> tuple[tf.Tensor, ...]:
            loss, scores, moves, norms = strategy.run(update_on_replica, (batch, *data))
            for variable, value in zip(state, moves, strict=True):
                if value is not None and tf.as_dtype(variable.dtype).is_floating:
                    variable.value.assign_add(add(value))
                elif value is not None:
                    variable.value.assign(_value_on_first_replica(strategy, value))
            total = add(loss) * tf.cast(tf.size(batch), tf.float64)
            return total, add(scores), *(_value_on_first_replica(strategy, norm) for norm in norms)

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


def _value_on_first_replica(
    strategy: tf.distribute.Strategy, value: tf.distribute.DistributedValues
) -> tf.Tensor:
    return strategy.experimental_local_results(value)[0]


def _seed_of_replica(variable: keras.Variable, value: tf.Tensor, replica: tf.Tensor) -> tf.Tensor:
    """Return the value of a variable. For a random generator, (seed, position), shift the seed."""
    if variable.name != "seed_generator_state":
        return value
    offset = tf.cast(replica * _SEED_STRIDE, variable.dtype)
    return value + tf.stack([offset, tf.zeros((), variable.dtype)])


def _state_move(
    old: tf.Tensor, seeded: tf.Tensor, new: tf.Tensor, share: tf.Tensor
) -> tf.Tensor | None:
    """Return how the shard changes a variable that is not trained.

    It is None for an unchanged variable, the move times the share for floats, else the new value.
    The model received `seeded` instead of `old`: a generator with the replica's seed.
    """
    if new is seeded:
        return None
    if old.dtype.is_floating:
        return tf.math.multiply_no_nan(new - old, tf.cast(share, old.dtype))
    return new if seeded is old else new - (seeded - old)
