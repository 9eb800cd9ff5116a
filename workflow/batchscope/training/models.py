"""Build Keras models by name, built-in or from a user's file; get and set their weights."""

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path

import keras

from batchscope.core.errors import UserError
from batchscope.datasets.model_inputs import ModelInput
from batchscope.store.weights import Arrays
from batchscope.study import names
from batchscope.training import user_models
from batchscope.training.networks import ACTIVATIONS, BUILDERS


def build(
    token: str,
    model_input: ModelInput,
    seed: int,
    model_file: Path | str | None = None,
    scope: AbstractContextManager | None = None,
    precision: str = "float32",
) -> keras.Model:
    """Return a new network. The same arguments give the same network.

    The seed sets Keras's, NumPy's and Python's generators. Keras's counters of names are reset, so
    that the paths of variables do not depend on other models of the process.

    Args:
        token: Name of a built-in network, or `name-1f0a93c2` for a user's file.
        scope: Scope of the variables. It is entered here, because Keras leaves an earlier scope.
        precision: Keras's policy for layers without one. Weights are always float32.
    """
    name, digest = names.split_token(token)
    keras.utils.clear_session(free_memory=False)
    keras.utils.set_random_seed(seed)
    with _dtype_policy(precision):
        if digest is not None:
            return user_models.build(name, digest, model_file, model_input, scope or nullcontext())
        try:
            with scope or nullcontext():
                activation = ACTIVATIONS[model_input.task]
                return BUILDERS[name](model_input.input_shape, model_input.classes, activation)
        except Exception as error:  # Keras raises many types of errors for too small images.
            problem = f"cannot be built for examples {model_input.input_shape}"
            message = user_models.error_message(error)
            raise UserError(f"model {name}: {problem}: {message}") from error


@contextmanager
def _dtype_policy(precision: str) -> Iterator[None]:
    before = keras.config.dtype_policy()
    keras.config.set_dtype_policy(precision)
    try:
        yield
    finally:
        keras.config.set_dtype_policy(before)


def weights(model: keras.Model) -> tuple[Arrays, Arrays]:
    """Return a model's trainable weights and its state, by the paths of their variables, in order.

    The state is all other weights, such as moving statistics, without random generators.
    """
    groups = model.trainable_weights, model.non_trainable_weights
    return tuple(_named_arrays(model, variables) for variables in groups)


def _weight_name(model: keras.Model, variable: keras.Variable) -> str:
    # Keras puts the name of a Sequential before the names of its variables.
    return variable.path.removeprefix(f"{model.name}/")


def _named_arrays(model: keras.Model, variables: list) -> Arrays:
    arrays = {_weight_name(model, variable): variable.numpy() for variable in variables}
    if len(arrays) != len(variables):
        raise UserError("model: two variables share a path; expected layers of distinct names.")
    return arrays


def set_weights(model: keras.Model, trainable: Arrays, state: Arrays) -> None:
    """Set every weight of a model; raise a `UserError` if names or shapes do not fit the model."""
    groups = (model.trainable_weights, trainable), (model.non_trainable_weights, state)
    for variables, arrays in groups:
        by_path = {_weight_name(model, variable): variable for variable in variables}
        for path in {**by_path, **arrays}:
            expected, received = (
                tuple(group[path].shape) if path in group else None for group in (by_path, arrays)
            )
            if expected != received:
                raise UserError(
                    f"weights of {model.name}: Expected {expected} for {path} (received "
                    f"{received}). The run belongs to another network."
                )
            by_path[path].assign(arrays[path])
