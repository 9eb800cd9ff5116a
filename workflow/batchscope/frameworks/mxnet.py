"""Updates in MXNet: a hybridized Gluon block, autograd and its Trainer."""

from __future__ import annotations

from collections.abc import Sequence

import mxnet
import numpy as np
from mxnet import autograd, gluon
from mxnet.gluon import nn

from batchscope import frameworks

# Without support for larger arrays, which no release has, MXNet counts an array with 32 bits.
_MOST_NUMBERS = 2**31 - 1


def start(threads: int, device: str) -> None:
    """Checks the device; MXNet read its threads when it was imported."""
    if device == "gpu" and not mxnet.context.num_gpus():
        wheel = " by its wheel for CUDA (mxnet-cu112 in place of mxnet in envs/mxnet.lock)"
        raise frameworks.no_gpu("MXNet", wheel)


def campbell_cnn(outputs: int) -> nn.HybridSequential:
    """Returns the network of `batchscope.training.networks.campbell_cnn`, up to its logits."""
    model = nn.HybridSequential()
    model.add(nn.Conv2D(16, 4, activation="relu"), nn.MaxPool2D(2))
    model.add(nn.Conv2D(32, 4, activation="relu"), nn.MaxPool2D(2))
    model.add(nn.Flatten(), nn.Dropout(0.25), nn.Dense(500, activation="relu"))
    model.add(nn.Dropout(0.5), nn.Dense(outputs))
    return model


def lheureux_cnn(outputs: int) -> nn.HybridSequential:
    """Returns the network of `batchscope.training.networks.lheureux_cnn`, up to its logits."""
    model = nn.HybridSequential()
    model.add(nn.Conv2D(32, 3, padding=1, activation="relu"), nn.MaxPool2D(2))
    model.add(nn.Flatten(), nn.Dense(128, activation="relu"), nn.Dense(outputs))
    return model


NETWORKS = {"campbell_cnn": campbell_cnn, "lheureux_cnn": lheureux_cnn}


class Runner(frameworks.FrameworkRunner):
    """Updates in MXNet; see `frameworks.FrameworkRunner`."""

    def _load(self, images: np.ndarray, labels: np.ndarray) -> None:
        self._context = mxnet.gpu() if self.device == "gpu" else mxnet.cpu()
        first = np.ascontiguousarray(images.transpose(0, 3, 1, 2))
        # NumPy gathers the batches of what is too large for one array of MXNet's.
        self._images = first if first.size > _MOST_NUMBERS else self._array(first, first.dtype)
        self._labels = self._array(labels, np.float32)
        self._order = self._array(np.arange(self.examples), np.int32)

    def _array(self, values: np.ndarray, dtype: np.dtype | type) -> mxnet.nd.NDArray:
        return mxnet.nd.array(values, ctx=self._context, dtype=dtype)

    def restart(self) -> None:
        """Begins anew from the initial weights."""
        mxnet.random.seed(frameworks.SEED)
        self.network = NETWORKS[self.model](self.outputs)
        self.network.initialize(ctx=self._context)
        self.network.hybridize()
        loss = gluon.loss
        kind = loss.SigmoidBinaryCrossEntropyLoss if self.binary else loss.SoftmaxCrossEntropyLoss
        self._loss = kind()
        self._loss.hybridize()
        options = {"learning_rate": self.learning_rate}
        if self.optimizer == "adam":
            options |= {name.replace("_", ""): each for name, each in frameworks.ADAM.items()}
        self._trainer = gluon.Trainer(self.network.collect_params(), self.optimizer, options)

    def _update(self, starts: Sequence[int], batch_size: int) -> float:
        for first in starts:
            batch = self._order[first : first + batch_size]
            images = self._gathered(first, batch_size, batch).astype(np.float32) * self.scale
            labels = mxnet.nd.take(self._labels, batch)
            with autograd.record():
                loss = self._loss(self.network(images), labels)
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
