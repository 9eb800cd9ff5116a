"""What a model does to its input before its first weights: the scaling that is part of a model.

Images arrive scaled and rows standardised. A model that scales them as the tutorials do, from bytes
to small numbers, would train on numbers that hardly differ, and nothing would say so. What it does
is read off its graph, so that it does not matter how the model is written.
"""

import re
from fractions import Fraction
from typing import NamedTuple

import keras
import numpy as np
import tensorflow as tf

from batchscope import private_interfaces
from batchscope.datasets.model_inputs import ModelInput
from batchscope.study import example_kinds

# Operations that leave numbers as they are, or mix them with their neighbours.
_MOVING = re.compile(
    "Identity|StopGradient|EnsureShape|Cast|Reshape|Squeeze|ExpandDims|Transpose|ReverseV2|Tile|"
    "BroadcastTo|(Strided)?Slice|GatherV2|Unpack|Pack|SplitV?|ConcatV2|(Mirror)?Pad(V2)?|"
    "Resize.*|CropAndResize|ScaleAndTranslate|ImageProjectiveTransformV3|SelectV2|"
    "Minimum|Maximum|ClipByValue|Round|Floor|(Max|Avg)Pool"
)
_SCALING = {  # with a constant
    "Mul": "a multiplication",
    "RealDiv": "a division",
    "Sub": "a subtraction",
    **dict.fromkeys(("AddV2", "BiasAdd"), "an addition"),
}
_SHAPES = {"Shape", "ShapeN", "Size", "Rank"}  # of a tensor; its numbers are not read


class _Change(NamedTuple):
    """What the first weights get of an input x, where it is not x: slope * x + offset."""

    by: str  # the layer or operation that first changed it
    slope: float
    offset: float

    @property
    def spreads(self) -> bool:
        """Whether numbers from 0 to 1 still spread over 1, near 0; if not, bytes are meant."""
        return abs(self.slope) > 0.99 and abs(self.offset) < 10 * abs(self.slope)


def problem(model: keras.Model, look: ModelInput) -> tuple[str | None, str | None]:
    """Returns why a model's own scaling does not fit the data; and a note of what its weights get.

    Where the data set's `scale` is stated, it is what the user wants.
    """
    scaling, rows = look.scaling, look.kind == example_kinds.ROWS
    if scaling is None and not rows:
        return None, None
    usual = rows or (scaling.factor != 1 and not scaling.explicit)
    # A number within what arrives usually; else a whole one, which a cast to bytes leaves as it is.
    changes = _changes(model, look.input_shape, 0.5 if usual else 100.0)
    if not changes:
        return None, None
    change = next((each for each in changes if not each.spreads), changes[0])
    wrong = f"received {change.by} at its input, where "
    if rows:
        return f"{wrong}rows arrive standardised; a model without it is expected.", None
    exact = Fraction(scaling.factor).limit_denominator(1000)
    times = f"images arrive times {exact if float(exact) == scaling.factor else scaling.factor}"
    if usual and not change.spreads:
        mend = "a model without it is expected, or the images as an `npz` with `scale: 1`"
        if scaling.key:
            mend = f"`{scaling.key}: 1` is expected, for raw values, or a model without it"
        return f"{wrong}{times}; {mend}.", None
    stated = f" ({scaling.key})" if scaling.explicit else ""
    plus = f" {change.offset:+.4g}" if change.offset else ""
    return None, (
        f"{times}{stated}; with {change.by} the first weights get "
        f"{change.slope * scaling.factor:.4g} x{plus} of a stored value x."
    )


def _changes(model: keras.Model, shape: tuple[int, ...], probe: float) -> list[_Change]:
    """Returns what operations get that do more than scaling the input, where it is changed.

    Args:
        probe: The number by which, beside 0, the scaling is found.
    """
    spec = tf.TensorSpec((2, *shape), tf.float32)
    traced = tf.compat.v1.wrap_function(lambda given: model(given, training=False), [spec])
    given = traced.graph.inputs[0]
    followed, ends = {given.name: given}, set()
    constant: set[str] = set()  # tensors that no input, no weight and no chance decides
    for op in traced.graph.get_operations():
        own = [each for each in op.inputs if each.name in followed]
        fixed = all(each.name in constant or each.name in followed for each in op.inputs)
        if op is given.op or op.type in _SHAPES:
            continue
        if not own:
            drawn = op.op_def.is_stateful or any(each.dtype == tf.resource for each in op.outputs)
            constant |= {each.name for each in op.outputs if fixed and not drawn}
        elif _MOVING.fullmatch(op.type) or (
            op.type in _SCALING and fixed and len(own) == 1 and op.outputs[0].shape == own[0].shape
        ):
            followed |= {each.name: each for each in op.outputs}
        else:
            ends |= {each.name for each in own}
    numbers = traced.prune([given], [*followed.values()])
    at_zero, at_probe = (numbers(tf.fill(given.shape, each)) for each in (0.0, probe))
    changes, by = [], ""
    for tensor, low, high in zip(followed.values(), at_zero, at_probe, strict=True):
        low, high = (np.asarray(each, np.float64).ravel() for each in (low, high))
        place = np.abs(high - low).argmax()  # not in what was padded
        slope, offset = float(high[place] - low[place]) / probe, float(low[place])
        if abs(slope - 1) > 0.01 or abs(offset) > 0.01:
            by = by or _name(tensor.op, model)
            if tensor.name in ends:
                changes.append(_Change(by, slope, offset))
    return changes


def _name(op: tf.Operation, model: keras.Model) -> str:
    """Returns the innermost layer that an operation is of; its kind where only a model is."""
    layers = {each.name: each for each in private_interfaces.all_layers(model)}
    for part in reversed(op.name.split("/")[:-1]):
        layer = layers.get(re.sub(r"_\d+$", "", part)) or layers.get(part)
        if layer is not None and not isinstance(layer, keras.Model):
            return f"{type(layer).__name__} '{layer.name}'"
    return _SCALING.get(op.type) or f"a cast to {op.outputs[0].dtype.name}"
