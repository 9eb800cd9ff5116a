"""Whether a user's model is trained here as it means to be: its logic, loss, input and outputs."""

import re
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from batchscope import private_interfaces, wording
from batchscope.datasets.model_inputs import ModelInput
from batchscope.errors import TrainsItself, UserError
from batchscope.study import example_kinds, tasks

# Methods by which a class decides its updates itself.
_UPDATES = ("train_step", "compute_loss", "make_train_function", "fit", "train_on_batch")
_LOSSES = {
    tasks.CLASSIFICATION: ("sparse_categorical_crossentropy", "categorical_crossentropy"),
    tasks.REGRESSION: ("mean_squared_error", "mean_absolute_error", "huber"),
    tasks.MULTI_LABEL: ("binary_crossentropy",),
}
# What a loss may be given -> the values of it with which it is the usual one.
_USUAL = {
    "label_smoothing": (0,),
    "reduction": ("sum_over_batch_size", "mean", "mean_with_sample_weight"),
    "ignore_class": (None,),
}
# Operations that hand on what a last activation gave; and activations, as operations.
_PASSING = ("Identity", "Cast", "Reshape", "Squeeze", "ExpandDims")
_BENT = ("Sigmoid", "Softmax", "Relu", "Relu6", "Tanh", "Softplus", "Elu", "Selu", "LeakyRelu")


def refuse_own_updates(model: Any, where: str) -> None:
    """Refuses what is no model, and one whose class has updates of its own."""
    if not isinstance(model, keras.Model):
        raise UserError(
            f"{where}: received {type(model).__name__}; build must return a keras.Model."
        )
    for name in _UPDATES:
        if getattr(getattr(model, name), "__func__", None) is not getattr(keras.Model, name):
            raise TrainsItself(
                f"{where}: received {type(model).__name__}.{name}, which is never called here; a "
                "model that the usual loss trains is expected, or a command of your own "
                "(docs/own_training.md)."
            )


def refuse_lost_weights(model: keras.Model, where: str) -> None:
    """Refuses a saved model with weights that training does not find again once drawn anew."""
    for layer in private_interfaces.all_layers(model):
        adapted = isinstance(layer, keras.layers.Normalization) and layer.input_mean is None
        if adapted or (layer.weights and not layer.trainable):
            raise UserError(
                f"{where}: received '{layer.name}', which is {'adapted' if adapted else 'frozen'}, "
                "while weights are drawn anew; a .py file whose build loads them is expected."
            )


def check_shapes(model: keras.Model, where: str, look: ModelInput) -> None:
    """Refuses a model of other examples, or of other classes or targets."""
    taken, wanted, classes = model.input_shape, (None, *look.input_shape), look.classes
    one = isinstance(taken, tuple) and taken[0] is None
    if not (one and tf.TensorShape(taken).is_compatible_with(wanted)):
        raise UserError(f"{where}: takes input {taken}; expected one input {wanted}.")
    given, classified = model.output_shape, look.task == tasks.CLASSIFICATION
    expected = [(None, classes), *([(None, 1)] if classified and classes == 2 else [])]
    if look.kind == example_kinds.TOKENS:  # one output for each position
        expected = [(*wanted, classes)]
    if given not in expected:
        outputs = wording.listed(map(str, expected), "or")
        hint = _hint(tasks.REGRESSION) if classified and given == (None, 1) else ""
        raise UserError(f"{where}: gives output {given}; expected {outputs}{hint}.")
    if not model.trainable_variables:
        raise UserError(f"{where}: has no trainable weights; expected at least one layer of them.")


def _hint(task: str) -> str:
    return f" (or `task: {task}` in the data set)"


def check_loss(model: keras.Model, where: str, look: ModelInput) -> None:
    """Refuses a model that was compiled with another loss than the usual one of the data's task."""
    weights = (model.get_compile_config() or {}).get("loss_weights")
    if any(each not in (None, 1) for each in keras.tree.flatten(weights)):
        raise UserError(f"{where}: received compile(loss_weights={weights}); none is expected.")
    # As it was given; where none was, `model.loss` is a method.
    for loss in map(keras.losses.get, keras.tree.flatten(vars(model).get("loss"))):
        if loss is not None and (other := _other_loss(loss, look)):
            raise UserError(f"{where}: received compile(loss={other}.")


def _other_loss(loss: Any, look: ModelInput) -> str | None:
    """Returns what is not usual of a loss, and what is; None of the usual loss of a task."""
    own = loss if hasattr(loss, "__name__") else type(loss)
    # Keras's class of a loss is named as its function, in capitals.
    name = re.sub("(?<=[a-z])(?=[A-Z])", "_", own.__name__).lower()
    expected, pair = _LOSSES[look.task], look.task == tasks.CLASSIFICATION and look.classes == 2
    expected += _LOSSES[tasks.MULTI_LABEL] if pair else ()
    if not own.__module__.startswith("keras.") or name not in expected:
        meant = [task for task, names in _LOSSES.items() if name in names]
        hint = _hint(meant[0]) if meant else ""
        return f"{own.__name__}); {wording.listed(expected, 'or')} is expected{hint}"
    config = loss.get_config() if isinstance(loss, keras.losses.Loss) else {}
    for key in _USUAL.keys() & config.keys():
        if config[key] not in _USUAL[key]:
            return f"{own.__name__}({key}={config[key]})); {_USUAL[key][0]} is expected"
    return None


def wrong_outputs(model: keras.Model, images: tf.Tensor, task: str) -> str | None:
    """Returns why outputs cannot be trained on with the loss of a task, or None.

    Probabilities whose logits Keras has lost would be taken for logits, and the logits behind
    several sigmoids for those of a softmax.
    """
    several, classified = model.output_shape[-1] > 1, task == tasks.CLASSIFICATION
    last, lost = [], []  # of the graphs of training and inference, which are made and not run

    @tf.function(autograph=False)
    def trace(images: tf.Tensor) -> None:
        for training in (True, False):
            outputs = model(images, training=training)
            op = outputs.op
            while op.type in _PASSING:
                op = op.inputs[0].op
            last.append(op.type)
            kept = private_interfaces.kept_logits(outputs) is not None or op is outputs.op
            lost.append(op.type in ("Sigmoid", "Softmax") and not kept)

    trace.get_concrete_function(images)
    fit = {tasks.REGRESSION: (), tasks.MULTI_LABEL: ("Sigmoid",)}.get(task, _BENT)
    if bent := [each for each in last if each in _BENT and each not in fit]:
        what = "several labels" if fit else "targets that are standardised"
        wanted = " or ".join([*map(str.lower, fit), "no activation"])
        return f"received {bent[0].lower()} in its last layer, for {what}; expected {wanted}."
    if several and classified and "Sigmoid" in last:
        return (
            f"received {model.output_shape[-1]} sigmoid units; expected one sigmoid unit for two "
            'classes, else units with activation="softmax" or no activation'
            f"{_hint(tasks.MULTI_LABEL)}."
        )
    if not several and "Softmax" in last:
        return (
            "received a softmax over one unit, which is always 1; expected "
            'activation="sigmoid" or no activation.'
        )
    outputs = model(images, training=False)
    sums = np.asarray(tf.cast(outputs, tf.float32)).sum(axis=-1)
    rounding = 1e-5 if outputs.dtype.size >= 4 else 0.05
    kept = not (several and classified) or private_interfaces.kept_logits(outputs) is not None
    if any(lost) or (not kept and np.allclose(sums, 1, atol=rounding)):
        activation = "softmax" if several and classified else "sigmoid"
        return (
            "received probabilities without their logits; expected a last layer with "
            f'activation="{activation}" or no activation.'
        )
    return None
