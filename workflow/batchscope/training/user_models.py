"""Running a user's model file: its import, its modules, its model made fit, errors at its lines."""

from __future__ import annotations

import importlib.abc
import importlib.machinery
import importlib.util
import os
import re
import sys
import traceback
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from pathlib import Path
from types import ModuleType
from typing import NoReturn

import keras
import numpy as np
import tensorflow as tf

from batchscope import private_interfaces, wording
from batchscope.catalogue import dataset_definitions
from batchscope.datasets.looks import Look
from batchscope.errors import UserError
from batchscope.study import model_files
from batchscope.training.networks import Shape


def build(
    name: str,
    digest: str,
    model_file: Path | str | None,
    look: Look,
    scope: AbstractContextManager,
) -> keras.Model:
    """Returns the model of a user's file, functional in any case; arguments as `models.build`."""
    builder, shape = _builder(name, digest, model_file), look.input_shape
    dtype = "int32" if look.kind in dataset_definitions.OF_TOKENS else "float32"
    with _as_user_error(model_file, f"cannot be built for examples {shape}"), scope:
        model = _with_input(builder(shape, look.classes), shape, dtype)
    _check(model, str(model_file), look)
    with _as_user_error(model_file, f"cannot be called on examples {shape}"):
        wrong = _wrong_outputs(model, tf.fill((2, *shape), tf.constant(look.largest, dtype)))
    if wrong:
        raise UserError(f"{model_file}: {wrong}")
    return model


def _builder(name: str, digest: str, model_file: Path | str | None) -> Callable[..., object]:
    """Returns the function of a user's file that builds its model."""
    if model_file is None or not Path(model_file).is_file():
        raise UserError(f"models.{name}: received {model_file}; expected an existing .py file.")
    if model_files.digest(model_file) != digest:
        raise UserError(
            f"{model_file}: changed since the runs of {name}-{digest} were planned, or a module "
            "that it imports did; expected the same files; run snakemake again."
        )
    builder = getattr(_import(Path(model_file)), "build", None)
    if not callable(builder):
        raise UserError(f"{model_file}: expected a function build(input_shape, classes).")
    return builder


class _Source(importlib.machinery.SourceFileLoader):
    """Compiles a file each time: bytecode is not compiled anew after two edits in one second."""

    def path_stats(self, path: str) -> NoReturn:
        raise OSError(path)  # so that no bytecode is looked for or kept


class _LocalModules(importlib.abc.MetaPathFinder):
    """Finds the modules that the digest of a model file covers, and no others of its folder."""

    def __init__(self, files: dict[str, Path]) -> None:
        self.files = files  # dotted name -> file, or folder

    def find_spec(
        self, fullname: str, path: object = None, target: object = None
    ) -> importlib.machinery.ModuleSpec | None:
        file = self.files.get(fullname)
        if file is None:
            return None
        if file.is_dir():
            return importlib.machinery.ModuleSpec(fullname, None, is_package=True)
        spec = _spec(fullname, file)
        if spec.submodule_search_locations:
            spec.submodule_search_locations = []
        return spec


def _spec(name: str, file: Path) -> importlib.machinery.ModuleSpec:
    loader = _Source(name, os.path.abspath(file))
    return importlib.util.spec_from_file_location(name, loader.path, loader=loader)


def _import(path: Path) -> ModuleType:
    """Returns a model file as a module; its local modules are imported anew, too."""
    files = model_files.local_modules(path)
    before = [finder for finder in sys.meta_path if isinstance(finder, _LocalModules)]
    for finder in before:
        sys.meta_path.remove(finder)
    for name in {name for of in (files, *(finder.files for finder in before)) for name in of}:
        sys.modules.pop(name, None)
    sys.meta_path.insert(0, _LocalModules(files))
    spec = _spec(f"batchscope_user_model_{path.stem}", path)
    module = importlib.util.module_from_spec(spec)
    with _as_user_error(path, "cannot be imported"):
        spec.loader.exec_module(module)
    return module


@contextmanager
def _as_user_error(model_file: Path | str, what: str) -> Iterator[None]:
    """Turns whatever a user's code raises, or its exit, into an error at its file and line."""
    try:
        yield
    except (Exception, SystemExit) as error:
        raise UserError(f"{_place(error, model_file)}: {what}: {error_message(error)}") from error


def _place(error: BaseException, model_file: Path | str) -> str:
    """Returns the file and line of a user's code at which an error arose, or the file alone."""
    files = (Path(model_file), *model_files.local_modules(model_file).values())
    shown = {os.path.abspath(file): str(file) for file in files}
    for frame in reversed(traceback.extract_tb(error.__traceback__)):
        if frame.filename in shown:
            return f"{shown[frame.filename]}:{frame.lineno}"
    return str(model_file)


def error_message(error: BaseException) -> str:
    """Returns an error's type and its message, without what Keras writes around it."""
    text = re.sub(r"\x1b\[[0-9;]*m", "", str(error))
    text = text.rpartition("Error encountered:")[2].partition("Arguments received by")[0]
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    messages = [line for line in lines if not line.startswith("Exception encountered")]
    return ": ".join([type(error).__name__, *messages[:1]])


def _with_input(model: object, input_shape: Shape, dtype: str) -> object:
    """Returns a functional model of one that has no input yet; this makes its weights."""
    with suppress(AttributeError, ValueError):  # a Sequential without Input, or a subclassed model
        if not isinstance(model, keras.Model) or model.input_shape is not None:
            return model
    inputs = keras.Input(input_shape, name="images", dtype=dtype)
    # The same name: it is no part of the names of weights (see models.weights).
    return keras.Model(inputs, model(inputs), name=model.name)


def _check(model: object, where: str, look: Look) -> None:
    """Refuses what is no model, or none of such examples and classes."""
    if not isinstance(model, keras.Model):
        raise UserError(
            f"{where}: received {type(model).__name__}; build must return a keras.Model."
        )
    taken, wanted, classes = model.input_shape, (None, *look.input_shape), look.classes
    one = isinstance(taken, tuple) and taken[0] is None
    if not (one and tf.TensorShape(taken).is_compatible_with(wanted)):
        raise UserError(f"{where}: takes input {taken}; expected one input {wanted}.")
    expected = [(None, classes), *([(None, 1)] if classes == 2 else [])]
    if look.kind == dataset_definitions.TOKENS:  # one output for each position
        expected = [(*wanted, classes)]
    if model.output_shape not in expected:
        outputs = wording.listed(map(str, expected), "or")
        raise UserError(f"{where}: gives output {model.output_shape}; expected {outputs}.")
    if not model.trainable_variables:
        raise UserError(f"{where}: has no trainable weights; expected at least one layer of them.")


def _wrong_outputs(model: keras.Model, images: tf.Tensor) -> str | None:
    """Returns why outputs cannot be trained on with a cross-entropy, or None.

    Probabilities whose logits Keras has lost would be taken for logits, and the logits behind
    several sigmoids for those of a softmax.
    """
    several = model.output_shape[-1] > 1
    last = []  # of the graphs of training and inference, which are made and not run

    @tf.function(autograph=False)
    def trace(images: tf.Tensor) -> None:
        last.extend(model(images, training=training).op.type for training in (True, False))

    trace.get_concrete_function(images)
    if several and "Sigmoid" in last:
        return (
            f"received {model.output_shape[-1]} sigmoid units; expected one sigmoid unit for two "
            'classes, else units with activation="softmax" or no activation.'
        )
    if not several and "Softmax" in last:
        return (
            "received a softmax over one unit, which is always 1; expected "
            'activation="sigmoid" or no activation.'
        )
    outputs = model(images, training=False)
    sums = np.asarray(tf.cast(outputs, tf.float32)).sum(axis=-1)
    rounding = 1e-5 if outputs.dtype.size >= 4 else 0.05
    lost = several and private_interfaces.kept_logits(outputs) is None
    if lost and np.allclose(sums, 1, atol=rounding):
        return (
            "received probabilities without their logits; expected a last layer with "
            'activation="softmax" or no activation.'
        )
    return None
