"""Trainings in MXNet: a hybridized Gluon block, autograd and its Trainer."""

from __future__ import annotations

from collections.abc import Sequence

import mxnet
import numpy as np
from mxnet import autograd, gluon

from batchscope import frameworks
from batchscope.errors import UserError
from batchscope.frameworks import layers

# Without support for larger arrays, which no release has, MXNet counts an array with 32 bits.
_MOST_NUMBERS = 2**31 - 1


def start(threads: int, device: str) -> None:
    """Checks the device; MXNet read its threads when it was imported."""
    if device == "gpu" and not mxnet.context.num_gpus():
        raise UserError(
            "device: received 'gpu', but MXNet finds no GPU here; its wheel for CUDA "
            "(mxnet-cu112 in place of mxnet in envs/mxnet.lock) on a machine with an NVIDIA GPU "
            "is expected; or use device: cpu."
        )


def build(network: layers.Network) -> gluon.nn.HybridSequential:
    """Returns the network as a block that gives logits, for NCHW images."""
    parts: list[gluon.Block] = []
    for layer, shape in network.inputs():
        relu = "relu" if layer.relu else None
        if layer.kind == "conv":
            parts.append(
                gluon.nn.Conv2D(
                    layer.units,
                    layer.size,
                    # Sides are odd where it pads, so that both edges get the same.
                    padding=layer.size // 2 if layer.same else 0,
                    activation=relu,
                    in_channels=shape[-1],
                )
            )
        elif layer.kind == "max_pool":
            parts.append(gluon.nn.MaxPool2D(layer.size))
        elif layer.kind == "flatten":
            parts.append(gluon.nn.Flatten())
        elif layer.kind == "dropout":
            parts.append(gluon.nn.Dropout(layer.rate))
        else:
            parts.append(gluon.nn.Dense(layer.units, activation=relu, in_units=shape[-1]))
    model = gluon.nn.HybridSequential()
    model.add(*parts)
    return model


class Training(frameworks.Training):
    """A training in MXNet; see `frameworks.Training`."""

    memory_error = mxnet.base.MXNetError
    memory_words = ("out of memory", "Failed to allocate", "Memory allocation failed")

    def _load(self, images: np.ndarray, labels: np.ndarray) -> None:
        self._context = mxnet.gpu() if self.device == "gpu" else mxnet.cpu()
        first = np.ascontiguousarray(images.transpose(0, 3, 1, 2))
        # Too many for one array of MXNet's: batches are then gathered in NumPy.
        self._images = first if first.size > _MOST_NUMBERS else self._array(first, first.dtype)
        self._labels = self._array(labels, np.float32)
        self._order = self._array(np.arange(self.examples), np.int32)

    def _array(self, values: np.ndarray, dtype: np.dtype | type) -> mxnet.nd.NDArray:
        return mxnet.nd.array(values, ctx=self._context, dtype=dtype)

    def restart(self) -> None:
        """Begins anew from the initial weights."""
        mxnet.random.seed(frameworks.SEED)
        self._model = build(self.network)
        self._model.initialize(ctx=self._context)
        weights = layers.channels_first(self.network, self.initial)
        for path, parameter in self._parameters().items():
            parameter.set_data(self._array(weights[path], np.float32))
        self._model.hybridize()
        if self.network.binary:
            self._loss = gluon.loss.SigmoidBinaryCrossEntropyLoss()
        else:
            self._loss = gluon.loss.SoftmaxCrossEntropyLoss()
        self._loss.hybridize()
        options = {"learning_rate": self.learning_rate}
        if self.optimizer == "adam":
            names = {"beta_1": "beta1", "beta_2": "beta2", "epsilon": "epsilon"}
            options.update((names[name], value) for name, value in frameworks.ADAM.items())
        self._trainer = gluon.Trainer(self._model.collect_params(), self.optimizer, options)

    def _parameters(self) -> dict[str, gluon.Parameter]:
        """Returns Keras's path of each parameter -> the parameter; blocks stand as the layers."""
        found = {}
        for layer, part in zip(self.network.layers, self._model, strict=True):
            if layer.kind in ("conv", "dense"):
                found[f"{layer.name}/kernel"] = part.weight
                found[f"{layer.name}/bias"] = part.bias
        return found

    def weights(self) -> layers.Arrays:
        """Returns the weights as they are, in Keras's layout."""
        found = {path: each.data().asnumpy() for path, each in self._parameters().items()}
        return layers.channels_last(self.network, found)

    def _run(self, starts: Sequence[int], batch_size: int) -> float:
        loss = None
        for first in starts:
            batch = self._order[first : first + batch_size]
            images = self._gathered(first, batch_size, batch).astype(np.float32) * self.scale
            labels = mxnet.nd.take(self._labels, batch)
            with autograd.record():
                loss = self._loss(self._model(images), labels)
            loss.backward()  # of the sum; the trainer divides by the batch size
            self._trainer.step(batch_size)
        value = float(loss.mean().asscalar())
        mxnet.nd.waitall()
        return value

    def _gathered(self, first: int, size: int, batch: mxnet.nd.NDArray) -> mxnet.nd.NDArray:
        if isinstance(self._images, np.ndarray):
            chosen = self._images[np.arange(first, first + size)]
            return self._array(chosen, chosen.dtype)
        return mxnet.nd.take(self._images, batch)
