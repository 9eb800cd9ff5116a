"""Running a user's model file: its import, its modules, the model of it, errors at its lines."""

import importlib.abc
import importlib.machinery
import importlib.util
import json
import os
import re
import sys
import traceback
import zipfile
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from pathlib import Path
from types import ModuleType
from typing import Any, NoReturn

import keras
import tensorflow as tf

from batchscope.datasets.model_inputs import ModelInput
from batchscope.errors import ScaledTwice, UserError
from batchscope.host import interruption
from batchscope.study import example_kinds, model_files
from batchscope.training import input_scaling, model_checks
from batchscope.training.networks import Shape


def build(
    name: str,
    digest: str,
    model_file: Path | str | None,
    look: ModelInput,
    scope: AbstractContextManager,
) -> keras.Model:
    """Returns the model of a user's file, functional in any case; arguments as `models.build`.

    What the user may not expect of it is printed. If the file compiles or saved it with an
    optimizer, that is its attribute `optimizer`.
    """
    shape, where, (policy, seed) = look.input_shape, str(model_file), _settings()
    path = _unchanged(name, digest, model_file)
    dtype = "int32" if look.kind in example_kinds.OF_TOKENS else "float32"
    with _as_user_error(model_file, f"cannot be built for examples {shape}"), scope:
        own = _saved(path) if model_files.is_saved(path) else _of_module(path, look)
        model_checks.refuse_own_updates(own, where)
        model = _with_input(own, shape, dtype)
    policy_set, seed_set = _settings()
    if policy_set != policy:
        raise UserError(
            f"{where}: received the precision {policy_set}, which it sets; the factor `precision: "
            f"{policy_set}` of the study is expected."
        )
    model_checks.check_shapes(model, where, look)
    with _as_user_error(model_file, f"cannot be called on examples {shape}"):
        model_checks.check_loss(own, where, look)
        examples = tf.fill((2, *shape), tf.constant(look.largest, dtype))
        wrong = model_checks.wrong_outputs(model, examples, look.task)
        scaling, note = input_scaling.problem(model, look)
    if wrong:
        raise UserError(f"{where}: {wrong}")
    if scaling:
        raise ScaledTwice(f"{where}: {scaling}")
    notes = [note]
    if own.compiled:
        notes += ["compile(...) is not used: the study gives optimizer, learning rate and loss."]
    if model_files.is_saved(where):
        model_checks.refuse_lost_weights(model, where)
        notes += ["taken as an architecture: its weights are drawn anew by the run's seed."]
    if seed_set != seed:
        notes += ["sets a random seed: initial weights may be the same for every seed of a run."]
    for line in filter(None, notes):
        print(f"{where}: {line}", file=sys.stderr, flush=True)
    model.optimizer = getattr(own, "optimizer", None)
    return model


def _settings() -> tuple[str, int | None]:
    return keras.config.dtype_policy().name, tf.compat.v1.random.get_seed(0)[0]


def _unchanged(name: str, digest: str, model_file: Path | str | None) -> Path:
    """Return the path of a model file that is still the one of the planned runs."""
    if model_file is None or not Path(model_file).is_file():
        raise UserError(f"models.{name}: received {model_file}; expected an existing model file.")
    if model_files.digest(model_file) != digest:
        raise UserError(
            f"{model_file}: changed since the runs of {name}-{digest} were planned, or a file that "
            "it imports or names did; expected the same files; run snakemake again."
        )
    return Path(model_file)


def _of_module(path: Path, look: ModelInput) -> object:
    """Return what `build` of a module returns; without it, the module's `model`.

    The module is imported again for each network, so that the run's seed draws the weights.
    """
    module = _import(path)
    builder = getattr(module, "build", None)
    if callable(builder):
        return builder(look.input_shape, look.classes)
    model = getattr(module, "model", None)
    if not isinstance(model, keras.Model):
        raise UserError(f"{path}: {model_files.EXPECTED} is expected.")
    return model


def _saved(path: Path) -> object:
    """Returns a model that Keras saved, with weights drawn anew and of the policy that is set.

    No code in the file is run. Of its compilation only loss and optimizer are read.
    """
    try:
        config, compiled = (_keras_config if path.suffix == ".keras" else _h5_config)(path)
        kept = {key: compiled[key] for key in ("loss", "loss_weights") if compiled.get(key)}
        config["compile_config"] = kept or None
        model = keras.saving.deserialize_keras_object(config, safe_mode=True)
    except Exception as error:
        text = str(error)
        own = re.search(r"(?:Could not locate|Unknown layer:) (\w+ '[^']+'|'[^']+')", text)
        own = own or re.search(r"(Lambda\b)", text)
        if own is None:
            raise
        raise UserError(
            f"{path}: received {own[1]}, whose code a saved model does not hold; a .py file whose "
            "build makes the model is expected."
        ) from error
    model.optimizer = None
    with suppress(Exception):  # An optimizer of the user's own cannot be read.
        model.optimizer = keras.optimizers.get(compiled["optimizer"])
    return model


def _keras_config(path: Path) -> tuple[dict[str, Any], dict[str, Any]]:
    with zipfile.ZipFile(path) as archive:
        config = json.loads(archive.read("config.json"), object_hook=_without_policy)
    return config, config.get("compile_config") or {}


def _h5_config(path: Path) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the same of an older file, whose model Keras loads and describes in its new format."""
    import h5py

    model = keras.saving.load_model(path, compile=False, safe_mode=True)
    text = json.dumps(keras.saving.serialize_keras_object(model))
    with h5py.File(path) as file:
        compiled = json.loads(file.attrs.get("training_config", "{}"))
    config = json.loads(text, object_hook=_without_policy)
    return config, {**compiled, "optimizer": compiled.get("optimizer_config")}


def _without_policy(config: dict[str, Any]) -> dict[str, Any]:
    return {key: each for key, each in config.items() if key != "dtype" or isinstance(each, str)}


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
    except (UserError, interruption.Stopped):
        raise
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
    return ": ".join([type(error).__name__, *(each[:200] for each in messages[:1])])


def _with_input(model: object, input_shape: Shape, dtype: str) -> object:
    """Returns a functional model of one that has no input yet; this makes its weights."""
    with suppress(AttributeError, ValueError):  # a Sequential without Input, or a subclassed model
        if not isinstance(model, keras.Model) or model.input_shape is not None:
            return model
    inputs = keras.Input(input_shape, name="images", dtype=dtype)
    # The same name: it is no part of the names of weights (see models.weights).
    return keras.Model(inputs, model(inputs), name=model.name)
