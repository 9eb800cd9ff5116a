"""Build the Keras model of a user's file. An error in the file is shown with file and line."""

import importlib.util
import json
import os
import re
import sys
import traceback
import zipfile
from collections.abc import Iterator
from contextlib import AbstractContextManager, chdir, contextmanager, suppress
from pathlib import Path
from typing import Any, NoReturn

import keras
import numpy as np

from batchscope.core import display
from batchscope.core.errors import UserError
from batchscope.datasets.model_inputs import ModelInput
from batchscope.host import interruption
from batchscope.study import example_kinds, model_files

# Lines that Keras and TensorFlow write around a message of an error.
_FRAME_LINE = re.compile(
    r"Exception encountered|Graph execution error|Detected at node|File \"|<stack"
)


def build(
    name: str,
    digest: str,
    model_file: Path | str | None,
    model_input: ModelInput,
    scope: AbstractContextManager,
) -> keras.Model:
    """Build the model of a user's file (arguments as in `models.build`).

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
        optimizer = getattr(model, "optimizer", None)
        _refuse_updates(model, path)
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

    The wrapper keeps the model's name, which `models.weights` removes from the names of weights.
    """
    dtype = "int32" if model_input.kind in example_kinds.TOKEN_KINDS else "float32"
    inputs = keras.Input(model_input.input_shape, name="images", dtype=dtype)
    shape = None
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
    scaling, is_rows = model_input.scaling, model_input.kind == example_kinds.ROWS
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
