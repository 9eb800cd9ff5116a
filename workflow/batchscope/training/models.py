"""From a name to a Keras model: the built-in networks and the user's own; their weights."""

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path

import keras

from batchscope.datasets.model_inputs import ModelInput
from batchscope.errors import UserError
from batchscope.store.weights import Arrays
from batchscope.study import names
from batchscope.training import user_models
from batchscope.training.networks import ACTIVATIONS, BUILDERS


def build(
    token: str,
    look: ModelInput,
    seed: int,
    model_file: Path | str | None = None,
    scope: AbstractContextManager | None = None,
    precision: str = "float32",
) -> keras.Model:
    """Returns a freshly initialised network; the same one for the same arguments.

    All of Keras's, NumPy's and Python's generators are set to `seed`, and Keras forgets every
    name it has given, so that the paths of the variables do not depend on what was built
    before in this process.

    Args:
        token: A built-in's name, or `name-1f0a93c2` for a user's file.
        scope: Where variables are to be made. Keras forgets it when it is entered any earlier.
        precision: Keras's policy for layers that state none; weights are float32 in any.
    """
    name, digest = names.split_token(token)
    keras.utils.clear_session(free_memory=False)
    keras.utils.set_random_seed(seed)
    with _policy(precision):
        if digest is not None:
            return user_models.build(name, digest, model_file, look, scope or nullcontext())
        try:
            with scope or nullcontext():
                return BUILDERS[name](look.input_shape, look.classes, ACTIVATIONS[look.task])
        except Exception as error:  # Keras raises nearly anything for images that are too small
            what = user_models.error_message(error)
            raise UserError(
                f"model {name}: cannot be built for examples {look.input_shape}: {what}"
            ) from error


@contextmanager
def _policy(precision: str) -> Iterator[None]:
    before = keras.config.dtype_policy()
    keras.config.set_dtype_policy(precision)
    try:
        yield
    finally:
        keras.config.set_dtype_policy(before)


def weights(model: keras.Model) -> tuple[Arrays, Arrays]:
    """Returns a model's trainable weights and its state, by their variables' paths, in order.

    State is every weight that is not trained: moving statistics, frozen layers. The
    generators behind dropout are no weights.
    """
    return _arrays(model, model.trainable_weights), _arrays(model, model.non_trainable_weights)


def _key(model: keras.Model, variable: keras.Variable) -> str:
    # Keras puts a Sequential's own name before those of its variables; a functional's not.
    return variable.path.removeprefix(f"{model.name}/")


def _arrays(model: keras.Model, variables: list) -> Arrays:
    arrays = {_key(model, variable): variable.numpy() for variable in variables}
    if len(arrays) != len(variables):
        raise UserError("model: two variables share a path; expected layers of distinct names.")
    return arrays


def set_weights(model: keras.Model, trainable: Arrays, state: Arrays) -> None:
    """Sets every weight of a model; raises `UserError` if names or shapes are not the model's."""
    groups = (model.trainable_weights, trainable), (model.non_trainable_weights, state)
    for variables, arrays in groups:
        own = {_key(model, variable): variable for variable in variables}
        for path in {**own, **arrays}:
            have, received = (
                tuple(group[path].shape) if path in group else None for group in (own, arrays)
            )
            if have != received:
                raise UserError(
                    f"weights of {model.name}: received {received} for {path}; expected {have}; "
                    "the run belongs to another network."
                )
            own[path].assign(arrays[path])
