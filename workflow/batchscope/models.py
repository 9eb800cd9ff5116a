"""From a name to a Keras model: the built-in networks and the user's own; their weights."""

from __future__ import annotations

import importlib.util
import re
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from types import ModuleType

import keras
import numpy as np

from batchscope import names, records
from batchscope.errors import UserError
from batchscope.networks import BUILDERS, Shape

Arrays = dict[str, np.ndarray]


def file_digest(model_file: Path | str) -> str:
    """Returns the digest of a user's model file, as it stands in the model's token."""
    return names.digest(records.file_sha256(model_file))


def build(
    token: str,
    input_shape: Shape,
    classes: int,
    seed: int,
    model_file: Path | str | None = None,
    scope: AbstractContextManager | None = None,
) -> keras.Model:
    """Returns a freshly initialised network; the same one for the same arguments.

    All of Keras's, NumPy's and Python's generators are set to `seed`, and Keras forgets every
    name it has given, so that the paths of the variables do not depend on what was built
    before in this process.

    Args:
        token: A built-in's name, or `name-1f0a93c2` for a user's file.
        input_shape: Height, width, channels.
        classes: Number of classes.
        seed: Fixes the initial weights.
        model_file: The user's file; it defines `build(input_shape, classes) -> keras.Model`.
        scope: Where variables are to be made. Keras forgets it when it is entered any earlier.

    Raises:
        UserError: If the network is unknown or does not fit the data, or the file is not the
            one that the token names.
    """
    name, digest = names.split_token(token)
    keras.utils.clear_session(free_memory=False)
    keras.utils.set_random_seed(seed)
    if digest is None:
        if name not in BUILDERS:
            known = ", ".join(BUILDERS)
            raise UserError(f"model: received {name!r}; expected one of {known}, or a file.")
        builder, where = BUILDERS[name], f"model {name}"
    else:
        builder, where = _user_builder(name, digest, model_file), str(model_file)
    shape = (int(input_shape[0]), int(input_shape[1]), int(input_shape[2]))
    try:
        with scope or nullcontext():
            model = builder(shape, classes)
    except Exception as error:  # whatever a user's file raises is the user's to read
        what = f"{type(error).__name__}: {_reason(error)}"
        raise UserError(f"{where}: cannot be built for images {shape}: {what}") from error
    _check(model, where, shape, classes)
    if digest is not None:
        _check_outputs(model, where, shape)
    return model


def _reason(error: Exception) -> str:
    """Returns the telling line of an error: Keras puts a heading above it."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    if len(lines) > 1 and lines[0].startswith("Exception encountered"):
        lines = lines[1:]
    return re.sub(r"\x1b\[[0-9;]*m", "", lines[0]) if lines else ""


def _user_builder(name: str, digest: str, model_file: Path | str | None) -> Callable:
    if model_file is None or not Path(model_file).is_file():
        raise UserError(f"models.{name}: received {model_file}; expected an existing .py file.")
    if file_digest(model_file) != digest:
        raise UserError(
            f"{model_file}: changed since the runs of {name}-{digest} were planned; "
            "expected the same file; run snakemake again."
        )
    module = _import(Path(model_file))
    builder = getattr(module, "build", None)
    if not callable(builder):
        raise UserError(f"{model_file}: expected a function build(input_shape, classes).")
    return builder


def _import(path: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location(f"batchscope_user_model_{path.stem}", path)
    if spec is None or spec.loader is None:
        raise UserError(f"{path}: expected a Python file, named *.py.")
    module = importlib.util.module_from_spec(spec)
    try:
        spec.loader.exec_module(module)
    except Exception as error:  # as above
        what = f"{type(error).__name__}: {_reason(error)}"
        raise UserError(f"{path}: cannot be imported: {what}") from error
    return module


def _check(model: object, where: str, input_shape: Shape, classes: int) -> None:
    expected = "build must return a built keras.Model (Sequential with an Input, or functional)"
    if not isinstance(model, keras.Model):
        raise UserError(f"{where}: received {type(model).__name__}; {expected}.")
    try:
        shapes = model.input_shape, model.output_shape
    except (AttributeError, ValueError):
        shapes = None, None
    if not model.built or shapes[0] is None:
        raise UserError(f"{where}: received a model without an input shape; {expected}.")
    if not _fits(shapes[0], input_shape):
        raise UserError(
            f"{where}: takes input {shapes[0]}; expected one input {(None, *input_shape)}."
        )
    units = (classes, 1) if classes == 2 else (classes,)
    if shapes[1] not in [(None, number) for number in units]:
        wanted = " or ".join(str((None, number)) for number in units)
        raise UserError(f"{where}: gives output {shapes[1]}; expected {wanted}.")
    if not model.trainable_variables:
        raise UserError(f"{where}: has no trainable weights; expected at least one layer of them.")


def _check_outputs(model: keras.Model, where: str, input_shape: Shape) -> None:
    """Refuses probabilities whose logits Keras has lost: they would be taken for logits."""
    try:
        outputs = model(np.ones((2, *input_shape), np.float32), training=False)
    except Exception as error:  # as above
        what = f"{type(error).__name__}: {_reason(error)}"
        raise UserError(f"{where}: cannot be called on images {input_shape}: {what}") from error
    sums = np.asarray(outputs).sum(axis=-1)
    several = outputs.shape[-1] > 1
    if several and not hasattr(outputs, "_keras_logits") and np.allclose(sums, 1, atol=1e-5):
        raise UserError(
            f"{where}: received probabilities without their logits; expected a last layer with "
            'activation="softmax" or no activation.'
        )


def _fits(shape: object, input_shape: Shape) -> bool:
    """Tells whether a model's input shape, with None for any size, takes `input_shape`."""
    if not isinstance(shape, tuple) or len(shape) != 4 or shape[0] is not None:
        return False
    return all(size in (None, wanted) for size, wanted in zip(shape[1:], input_shape, strict=True))


def weights(model: keras.Model) -> tuple[Arrays, Arrays]:
    """Returns a model's trainable weights and its state, by their variables' paths.

    State is every weight that is not trained: moving statistics, frozen layers. The
    generators behind dropout are no weights. Both are in the model's order.

    Raises:
        UserError: If two variables share a path.
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
    """Sets every weight of a model.

    Raises:
        UserError: If names or shapes are not the model's.
    """
    for variables, arrays in (
        (model.trainable_weights, trainable),
        (model.non_trainable_weights, state),
    ):
        have = {_key(model, variable): tuple(variable.shape) for variable in variables}
        received = {path: tuple(array.shape) for path, array in arrays.items()}
        if have != received:
            wrong = [path for path in {**have, **received} if have.get(path) != received.get(path)]
            path = wrong[0]
            raise UserError(
                f"weights of {model.name}: received {received.get(path)} for {path}; "
                f"expected {have.get(path)}; the run belongs to another network."
            )
        for variable in variables:
            variable.assign(arrays[_key(model, variable)])


def load(
    results: Path | str,
    run: str,
    which: str = "final",
    model_file: Path | str | None = None,
) -> keras.Model:
    """Returns a run's network with its weights.

    Args:
        results: The results folder.
        run: Name of the run.
        which: `initial`, `final`, `best`, or `epochs/3` for the weights after epoch 3.
        model_file: The user's file, where the run's model is one.

    Raises:
        UserError: If files are missing or do not fit each other.
    """
    factors = names.parse_run(run)
    folder = records.dataset_folder(results, str(factors["dataset"]))
    data = records.read_json(folder / "record.json", "input_shape", "classes")
    height, width, channels = data["input_shape"]
    model = build(
        str(factors["model"]),
        (height, width, channels),
        data["classes"],
        int(factors["seed"]),
        model_file,
    )
    path = records.run_folder(results, run) / f"{which}.npz"
    trainable, state = records.read_weights(path)
    try:
        set_weights(model, trainable, state)
    except UserError as error:
        raise UserError(f"{path}: {error}") from None
    return model
