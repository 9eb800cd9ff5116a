"""Two updates of a framework on given weights and images, to be compared with Keras's.

Reads a line of JSON for each: how to train, and the file of its arrays: kernels and biases in
Keras's layout and order, `images`, `labels`, `classes` and `scale`. Writes the weights after the
first update, and prints the loss before and after it as JSON. Dropout is off.
"""

from __future__ import annotations

import functools
import json
import math
import sys

import numpy as np

from batchscope import frameworks
from batchscope.datasets import Examples

start = functools.cache(frameworks.start)


def channels_first(weights: list[np.ndarray]) -> list[np.ndarray]:
    """Kernels OIHW and (outputs, inputs); the first dense one sees (height, width, channels)."""
    found, channels = [], 0
    for values in weights:
        if values.ndim == 4:
            channels, values = values.shape[-1], values.transpose(3, 2, 0, 1)
        elif values.ndim == 2:
            if channels:
                side = math.isqrt(len(values) // channels)
                values = values.reshape(side, side, channels, -1).transpose(2, 0, 1, 3)
                values, channels = values.reshape(-1, values.shape[-1]), 0
            values = values.T
        found.append(np.ascontiguousarray(values))
    return found


def channels_last(weights: list[np.ndarray], like: list[np.ndarray]) -> list[np.ndarray]:
    """What `channels_first` was given, by moving the numbers of every place back."""
    places = [np.arange(each.size).reshape(each.shape) for each in like]
    found = []
    for values, moved in zip(weights, channels_first(places), strict=True):
        back = np.empty(values.size, values.dtype)
        back[moved.ravel()] = values.ravel()
        found.append(back)
    return [each.reshape(of.shape) for each, of in zip(found, like, strict=True)]


def begin(framework, runner, weights) -> None:
    """Gives the network the weights, and switches its dropout off."""
    if framework == "jax":
        sys.modules["batchscope.frameworks.jax"].RATES = (0.0, 0.0)
        layers = list(zip(weights[::2], weights[1::2], strict=True))
        runner.state, runner._steps = runner.rule.init_fn(layers), 0
    elif framework == "pytorch":
        import torch

        for module in runner.network.modules():
            if isinstance(module, torch.nn.Dropout):
                module.p = 0.0
        with torch.no_grad():
            for parameter, values in zip(
                runner.network.parameters(), channels_first(weights), strict=True
            ):
                parameter.copy_(torch.from_numpy(values))
    else:
        for block in runner.network:
            if hasattr(block, "_rate"):
                block._rate = 0.0
        first = runner._gathered(0, 1, runner._order[:1]).astype(np.float32)
        runner.network(first)  # shapes follow from the data
        for parameter, values in zip(
            runner.network.collect_params().values(), channels_first(weights), strict=True
        ):
            parameter.set_data(runner._array(values, np.float32))


def current(framework, runner, like) -> list[np.ndarray]:
    if framework == "jax":
        return [np.array(each) for layer in runner.rule.params_fn(runner.state) for each in layer]
    if framework == "pytorch":
        found = [each.detach().numpy().copy() for each in runner.network.parameters()]
    else:
        found = [each.data().asnumpy() for each in runner.network.collect_params().values()]
    return channels_last(found, like)


def two_updates(framework, model, optimizer, learning_rate, epsilon, given, output) -> dict:
    frameworks.ADAM["epsilon"] = epsilon
    with np.load(given, allow_pickle=False) as archive:
        arrays = dict(archive)
    images, labels = arrays.pop("images"), arrays.pop("labels")
    classes, scale = int(arrays.pop("classes")), float(arrays.pop("scale"))
    weights = list(arrays.values())
    module, examples = start(framework, 1, "cpu"), Examples(images, labels, scale)
    runner = module.Runner(model, classes, optimizer, examples, "cpu", learning_rate)
    begin(framework, runner, weights)
    _, before = runner._run(len(labels), 0, 1)
    np.savez(output, *current(framework, runner, weights))
    return {"before": before, "after": runner._run(len(labels), 0, 1)[1]}


for words in sys.stdin:
    print(json.dumps(two_updates(**json.loads(words))), flush=True)
