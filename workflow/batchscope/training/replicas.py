"""Data parallelism: every batch divided among devices, one set of weights mirrored on all.

With the factor `replicas` at k > 1 a training runs under `tf.distribute.MirroredStrategy`, on k
GPUs or on k logical CPU devices. Logical devices share one CPU: they prove that a batch divided
is a batch, and say nothing of speed, so records mark them.

A step divides the batch of B examples into k shards whose sizes differ by at most one. Each
replica takes the gradient of the sum of its examples' losses over B: the sum over the replicas,
which the optimizer applies, is the gradient of the batch's mean loss, however uneven the shards
are. A shard without examples (a last batch smaller than k) computes on the batch's last example
and multiplies all that comes of it by zero. What the model adds to its loss is weighted by the
shards' shares of the batch, which sum to one: a penalty on weights counts once, a mean over the
examples is the batch's mean, a sum over examples becomes the mean of the shards' sums.

What differs from one device:

- Batch normalisation uses the statistics of each replica's own shard, as `MirroredStrategy` does,
  unless the layer is `synchronized`. Its moving statistics move by the mean of the replicas'
  moves, weighted by the shards' shares.
- Dropout and noise draw on each replica for its own shard: their generators have the same place
  in their sequence and different seeds. Replica 0 has the seed of a training on one device.
"""

import contextlib
import functools
from collections.abc import Callable, Iterator
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from batchscope.errors import UserError
from batchscope.training import losses
from batchscope.training.scoring import Scoring
from batchscope.training.step_loop import Batches, Examples, StepLoop, Update, distance

# Between the seeds of two replicas; a prime, far from the steps between the seeds of layers.
_SEED_STRIDE = 15_485_863


@functools.cache
def _strategy(device: str, replicas: int) -> tf.distribute.MirroredStrategy:
    """Returns the strategy; the same one each time, since variables belong to one strategy."""
    names = [one.name for one in _devices(device, replicas)]
    # One device sums, in the order of the replicas: the same bits every time, and no
    # collective operation that waits for threads that a training on the CPU does not have.
    on_cpu = tf.distribute.ReductionToOneDevice()
    return tf.distribute.MirroredStrategy(names, on_cpu if device == "cpu" else None)


def _devices(device: str, replicas: int) -> list[tf.config.LogicalDevice]:
    found = tf.config.list_logical_devices(device.upper())
    if len(found) < replicas:
        raise UserError(
            f"replicas: received {replicas}, but TensorFlow runs with {len(found)} devices of "
            f"kind {device}; a process started for {replicas} replicas is expected."
        )
    return found[:replicas]


def describe(factors: dict[str, Any]) -> dict[str, Any]:
    """Returns a training's devices for its record, and whether they are parts of one CPU."""
    devices = _devices(factors["device"], factors["replicas"])
    return {
        "replica_devices": [one.name for one in devices],
        "logical": factors["device"] == "cpu" and factors["replicas"] > 1,
    }


@contextlib.contextmanager
def scope(factors: dict[str, Any]) -> Iterator[None]:
    """Mirrors the variables made inside the block on every replica; does nothing for one.

    Model and optimizer must be made inside it; a model by `models.build(..., scope=...)`, since
    Keras leaves every scope when it forgets the names that it has given.
    """
    with contextlib.ExitStack() as scopes:
        if factors["replicas"] > 1:
            scopes.enter_context(_strategy(factors["device"], factors["replicas"]).scope())
            scopes.enter_context(tf.variable_creator_scope(_assignable))
        yield


def _assignable(create: Callable, **options: Any) -> tf.Variable:
    """Lets a replica assign to a variable: all of them assign the same value.

    Keras makes variables that MirroredStrategy then refuses to set: those of Nadam, and those
    with constraints.
    """
    if options.get("aggregation") in (None, tf.VariableAggregation.NONE):
        options["aggregation"] = tf.VariableAggregation.ONLY_FIRST_REPLICA
    return create(**options)


def make_loop(
    factors: dict[str, Any],
    model: keras.Model,
    optimizer: keras.optimizers.Optimizer,
    examples: Examples,
    batches: Batches,
    update_norms: bool = False,
) -> StepLoop:
    """Returns the loop of a training: `StepLoop`, or the same divided among its replicas."""
    made = ReplicaLoop if factors["replicas"] > 1 else StepLoop
    with scope(factors):  # the optimizer's own variables are made here
        return made(model, optimizer, examples, batches, update_norms)


class ReplicaLoop(StepLoop):
    """The updates of one epoch, every batch divided among the current strategy's replicas.

    To be made inside `scope`, as its model and optimizer. Every GPU gets a copy of the examples.
    """

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
    """Returns an array as a tensor on every replica's device; CPU devices share one."""
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
    """Runs the model forward and back on a replica's shard of `size` examples; sets no variable.

    Returns:
        Its part of the batch's mean loss with penalties, float64; the sums of its
        scores; the gradients of that part, None where it does not reach a
        variable; and what comes of each other variable, as `_state_move` has it.
    """
    share = tf.cast(size, tf.float32) / tf.cast(batch, tf.float32)
    present = tf.cast(size > 0, tf.float32)
    weights = [tf.convert_to_tensor(variable.value) for variable in model.trainable_variables]
    others = model.non_trainable_variables
    old = [tf.convert_to_tensor(variable.value) for variable in others]
    given = [_own_seed(*pair, replica) for pair in zip(others, old, strict=True)]
    values = zip([*model.trainable_variables, *others], [*weights, *given], strict=True)
    with tf.GradientTape(watch_accessed_variables=False) as tape:
        tape.watch(weights)
        # Keras's layers cannot set a mirrored variable from within a replica.
        with keras.StatelessScope(list(values), True, False) as after:
            outputs = model(images, training=True)
            penalties = model.losses
        example, scores = scored.minimised(labels, outputs)
        mean = tf.reduce_sum(example) / tf.cast(batch, example.dtype)
        parts = [tf.math.multiply_no_nan(mean, present)]
        parts += [tf.math.multiply_no_nan(penalty, share) for penalty in penalties]
        loss = tf.add_n(parts)
    gradients = losses.dense(tape.gradient(loss, weights))
    new = [after.get_current_value(variable) for variable in others]
    state = [_state_move(*three, share) for three in zip(old, given, new, strict=True)]
    sums = scored.total(scores)
    sums = tf.where(size > 0, sums, tf.zeros_like(sums))
    return tf.cast(loss, tf.float64), sums, gradients, state


def _own_seed(variable: keras.Variable, value: tf.Tensor, replica: tf.Tensor) -> tf.Tensor:
    """Returns a variable's value; of a generator, (seed, position), with the replica's own seed."""
    if variable.name != "seed_generator_state":
        return value
    offset = tf.cast(replica * _SEED_STRIDE, variable.dtype)
    return value + tf.stack([offset, tf.zeros((), variable.dtype)])


def _state_move(
    old: tf.Tensor, given: tf.Tensor, new: tf.Tensor, share: tf.Tensor
) -> tf.Tensor | None:
    """Returns None where a variable stays; else a float's move times the share, or a new value.

    The model had `given` in place of `old`: of a generator, with the replica's own seed.
    """
    if new is given:
        return None
    if old.dtype.is_floating:
        return tf.math.multiply_no_nan(new - old, tf.cast(share, old.dtype))
    return new if given is old else new - (given - old)
