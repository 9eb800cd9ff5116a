"""Build Keras models by name, built-in or from a user's file; get and set their weights.

An error in a user's file is shown with file and line.
"""

import importlib.util
import json
import os
import re
import sys
import traceback
import zipfile
from collections.abc import Iterator
from contextlib import AbstractContextManager, chdir, contextmanager, nullcontext, suppress
from pathlib import Path
from typing import Any, NoReturn

import keras
import numpy as np

from batchscope.core import display
from batchscope.core.errors import UserError
from batchscope.datasets.prepared import ModelInput
from batchscope.host import interruption
from batchscope.store.weights import Arrays
from batchscope.study import model_files, names, tasks
from batchscope.training.networks import ACTIVATIONS, BUILDERS

# Lines that Keras and TensorFlow write around a message of an error.
_FRAME_LINE = re.compile(
    r"Exception encountered|Graph execution error|Detected at node|File \"|<stack"
)


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
            return _user_model(name, digest, model_file, model_input, scope or nullcontext())
        try:
            with scope or nullcontext():
                # The model is functional: a Sequential puts its name before names of variables.
                inputs = _input(model_input)
                activation = ACTIVATIONS[model_input.task]
                outputs = BUILDERS[name](inputs, model_input.classes, activation)
                return keras.Model(inputs, outputs, name=name)
        except Exception as error:  # Keras raises many types of errors for too small images.
            problem = f"cannot be built for examples {model_input.input_shape}"
            message = error_message(error)
            raise UserError(f"model {name}: {problem}: {message}") from error


def _input(model_input: ModelInput) -> keras.KerasTensor:
    dtype = "int32" if model_input.kind in tasks.TOKEN_KINDS else "float32"
    return keras.Input(model_input.input_shape, name="images", dtype=dtype)


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
    return tuple(
        {path: variable.numpy() for path, variable in variables.items()}
        for variables in _weights_by_path(model)
    )


def _weights_by_path(model: keras.Model) -> Iterator[dict[str, keras.Variable]]:
    for variables in (model.trainable_weights, model.non_trainable_weights):
        # Keras puts the name of a Sequential before the names of its variables.
        prefix = f"{model.name}/"
        by_path = {variable.path.removeprefix(prefix): variable for variable in variables}
        if len(by_path) != len(variables):
            raise UserError("model: two variables share a path; expected layers of distinct names.")
        yield by_path


def set_weights(model: keras.Model, trainable: Arrays, state: Arrays) -> None:
    """Set every weight of a model; raise a `UserError` if names or shapes do not fit the model."""
    for by_path, arrays in zip(_weights_by_path(model), (trainable, state), strict=True):
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


def _user_model(
    name: str,
    digest: str,
    model_file: Path | str | None,
    model_input: ModelInput,
    scope: AbstractContextManager,
) -> keras.Model:
    """Build the model of a user's file (arguments as in `build`).

    The result is always a functional model. It receives the raw values of images if one of its
    first layers scales them. Its `optimizer` is the optimizer of the file's `compile`, or None.
    """
    if model_file is None or not Path(model_file).is_file():
        raise UserError(f"models.{name}: Expected an existing model file (received {model_file}).")
    if model_files.digest(model_file) != digest:
        raise UserError(
            f"{model_file}: The file, or one that it imports or names, changed after the runs of "
            f"{name}-{digest} were planned. Run snakemake again."
        )
    path, shape = Path(model_file), model_input.input_shape
    # `chdir` restores the working directory, because the paths of results are relative to it.
    with errors_at_line(path, f"cannot be built for examples {shape}"), scope, chdir(os.getcwd()):
        model = _load_saved(path) if model_files.is_saved(path) else _load_module(path, model_input)
        _refuse_updates(model, path)
        optimizer = getattr(model, "optimizer", None)
        model = _as_functional(model, model_input)
        model.optimizer = optimizer
        return model


def _refuse_updates(model: object, path: Path) -> None:
    """Raise an error if the model's class defines its own updates."""
    kind = type(model)
    if not isinstance(model, keras.Model):
        raise UserError(f"{path}: Expected a keras.Model from build (received {kind.__name__}).")
    for method in ("train_step", "compute_loss"):
        if getattr(kind, method) is not getattr(keras.Model, method):
            raise UserError(
                f"{path}: {kind.__name__}.{method} is never called. Remove it, or train the model "
                "by a command (docs/own_training.md)."
            )


def _load_module(path: Path, model_input: ModelInput) -> object:
    """Import a file again, so that the run's seed draws the weights. Return its model."""
    folder = os.path.abspath(path.parent)
    for name in model_files.local_modules(path):
        sys.modules.pop(name, None)
    spec = importlib.util.spec_from_file_location(f"batchscope_user_model_{path.stem}", path)
    module = importlib.util.module_from_spec(spec)
    sys.path.insert(0, folder)
    writes_bytecode, sys.dont_write_bytecode = sys.dont_write_bytecode, True
    keras.Model.fit = _refuse_fit  # A trained model would not begin with the run's weights.
    try:
        importlib.invalidate_caches()
        spec.loader.exec_module(module)
        if callable(builder := getattr(module, "build", None)):
            return builder(model_input.input_shape, model_input.classes)
    finally:
        sys.path.remove(folder)
        sys.dont_write_bytecode = writes_bytecode
        del keras.Model.fit  # The inherited method is visible again.
    if isinstance(model := getattr(module, "model", None), keras.Model):
        return model
    raise UserError(f"{path}: Expected build(input_shape, classes) or `model`, a Keras model.")


def _refuse_fit(*_: object, **__: object) -> NoReturn:
    text = "training when the file is imported; move it below `if __name__ == '__main__':`"
    raise RuntimeError(text)


def _load_saved(path: Path) -> object:
    """Load a model that Keras saved, with new weights and the precision of the run.

    Keras's safe mode runs no code of the file. Only the optimizer of its compilation is read.
    """
    with zipfile.ZipFile(path) as archive:
        config = json.loads(archive.read("config.json"), object_hook=_without_policy)
    optimizer = (config["compile_config"] or {}).get("optimizer")
    config["compile_config"] = None
    model = keras.saving.deserialize_keras_object(config, safe_mode=True)
    model.optimizer = None
    with suppress(Exception):  # Keras does not know a user-defined optimizer.
        model.optimizer = keras.optimizers.get(optimizer)
    return model


def _without_policy(config: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in config.items() if key != "dtype" or isinstance(value, str)}


def _as_functional(model: keras.Model, model_input: ModelInput) -> keras.Model:
    """Return a functional model with weights. Undo the scaling of images if its own layer scales.

    The wrapper keeps the model's name, which `weights` removes from the names of weights.
    """
    inputs, shape = _input(model_input), None
    # A Sequential without Input and a subclassed model have no input shape.
    with suppress(AttributeError, ValueError):
        shape = model.input_shape
    if shape is None:
        model = keras.Model(inputs, model(inputs), name=model.name)
    if model_input.scaling and scaling_layer(model, model_input):
        values = inputs / model_input.scaling.factor
        model = keras.Model(inputs, model(values), name=model.name)
    return model


def scaling_layer(model: keras.Model, model_input: ModelInput) -> keras.layers.Layer | None:
    """Return the layer before the first weights that scales values a second time, or None.

    For rows, it is any `Rescaling` or `Normalization`. For images, it is a layer that divides, as
    layers for bytes do. A `scale` in the definition of the images shows that this is intended.
    """
    scaling, is_rows = model_input.scaling, model_input.kind == tasks.ROWS
    if not is_rows and (scaling is None or scaling.explicit or scaling.factor == 1):
        return None
    for layer in filter(lambda layer: layer.built, _flat_layers(model)):
        if isinstance(layer, keras.layers.Rescaling):
            divides = np.max(np.abs(layer.scale)) < 1
        elif isinstance(layer, keras.layers.Normalization):
            adapted = layer.input_variance is None
            divides = np.max(layer.adapt_variance if adapted else layer.input_variance) > 1
        elif layer.weights:
            return None
        else:
            continue
        if divides or is_rows:
            return layer
    return None


def _flat_layers(model: keras.Model) -> Iterator[keras.layers.Layer]:
    for layer in model.layers:
        yield from _flat_layers(layer) if isinstance(layer, keras.Model) else [layer]


@contextmanager
def errors_at_line(model_file: Path | str, problem: str) -> Iterator[None]:
    """Turn an error or an exit of a user's code into a `UserError` with its file and line."""
    try:
        yield
    except (UserError, interruption.Stopped):
        raise
    except (Exception, SystemExit) as error:
        place = _error_place(error, model_file)
        raise UserError(f"{place}: {problem}: {error_message(error)}") from error


def _error_place(error: BaseException, model_file: Path | str) -> str:
    """Return `file:line` of the user's last line in a traceback; the file if it has none."""
    files = (Path(model_file), *model_files.local_modules(model_file).values())
    paths = {os.path.abspath(file): str(file) for file in files}
    for frame in reversed(traceback.extract_tb(error.__traceback__)):
        if frame.filename in paths:
            return f"{paths[frame.filename]}:{frame.lineno}"
    return str(model_file)


def error_message(error: BaseException) -> str:
    """Return the type of an error and the first line of its message, without lines of Keras."""
    text = re.split(r"(?:Error|Exception) encountered:\s", str(error))[-1]
    lines = text.partition("Arguments received by")[0].splitlines()
    lines = [display.printable(line).strip() for line in lines]
    messages = [line for line in lines if line and not _FRAME_LINE.match(line)]
    return ": ".join([type(error).__name__, *(line[:200] for line in messages[:1])])
