"""Check a user's model before the first job: build it, train one step, and return notes."""

from pathlib import Path

import keras
import numpy as np

from batchscope.core import display
from batchscope.core.errors import UserError
from batchscope.datasets.model_inputs import ModelInput
from batchscope.study import example_kinds, model_files, run_factors, tasks
from batchscope.training import models, step_times, user_models
from batchscope.training.step_loop import Totals


def check(token: str, model_input: ModelInput, model_file: Path | str) -> list[str]:
    """Build a model, train one step, and return notes for the user.

    Raises:
        UserError: If Keras cannot build or train it, if its output has another shape than the
            labels need, or if it scales rows that are already standardised.
    """
    model = models.build(token, model_input, 0, model_file)
    _check_output(model, model_file, model_input)
    layer, notes = user_models.scaling_layer(model, model_input), []
    if layer is not None:
        name = f"{type(layer).__name__} '{layer.name}'"
        if not model_input.scaling:
            raise UserError(f"{model_file}: Rows are standardised. Remove {name} from the input.")
        notes += [f"{name} gets the raw values of the images, which are not scaled before it."]
    with user_models.errors_at_line(model_file, f"cannot train on {model_input.input_shape}"):
        defaults = {name: factor.default for name, factor in run_factors.FACTORS.items()}
        factors = {**defaults, "optimizer": "sgd", "batch_size": 2, "seed": 0}
        loop = step_times.step_loop(model, factors, model_input)
        loop.run(np.arange(2, dtype=np.int32), 0, 1, Totals())
    if model.optimizer is not None:
        notes += ["compile(...) is not used. The study has optimizer, learning rate and loss."]
    if model_files.is_saved(model_file):
        notes += ["The run's seed draws all weights. Saved weights are not used."]
    return [f"{model_file}: {note}" for note in notes]


def _check_output(model: keras.Model, model_file: Path | str, model_input: ModelInput) -> None:
    classes, received = model_input.classes, model.output_shape
    expected = [(None, classes)]
    if model_input.kind == example_kinds.TOKENS:  # one output per position
        expected = [(None, *model_input.input_shape, classes)]
    elif model_input.task == tasks.CLASSIFICATION and classes == 2:
        expected.append((None, 1))
    if received not in expected:
        shapes = display.listed(map(str, expected), "or")
        raise UserError(
            f"{model_file}: Expected an output of shape {shapes} for {model_input.task} "
            f"(received {received})."
        )
