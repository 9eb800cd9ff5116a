"""Trainings in PyTorch: an eager module, autograd and torch.optim."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence

import numpy as np
import torch
from torch.nn import functional

from batchscope import frameworks
from batchscope.frameworks import layers


def start(threads: int, device: str) -> None:
    """Sets PyTorch's threads; see `frameworks.start`."""
    torch.set_num_threads(threads)
    torch.set_num_interop_threads(1)
    if device == "gpu" and not torch.cuda.is_available():
        raise frameworks.no_gpu("PyTorch")


def build(network: layers.Network) -> torch.nn.Sequential:
    """Returns the network as a module that gives logits, for NCHW images."""
    parts: dict[str, torch.nn.Module] = {}
    for layer, shape in network.inputs():
        if layer.kind == "conv":
            padding = "same" if layer.same else "valid"
            parts[layer.name] = torch.nn.Conv2d(shape[-1], layer.units, layer.size, padding=padding)
        elif layer.kind == "max_pool":
            parts[layer.name] = torch.nn.MaxPool2d(layer.size)
        elif layer.kind == "flatten":
            parts[layer.name] = torch.nn.Flatten()
        elif layer.kind == "dropout":
            parts[layer.name] = torch.nn.Dropout(layer.rate)
        else:
            parts[layer.name] = torch.nn.Linear(shape[-1], layer.units)
        if layer.relu:
            parts[f"{layer.name}_relu"] = torch.nn.ReLU()
    return torch.nn.Sequential(OrderedDict(parts))


class Training(frameworks.Training):
    """A training in PyTorch; see `frameworks.Training`."""

    memory_error = RuntimeError  # CUDA's OutOfMemoryError is one
    memory_words = ("can't allocate memory", "out of memory")

    def _load(self, images: np.ndarray, labels: np.ndarray) -> None:
        self._device = torch.device("cuda" if self.device == "gpu" else "cpu")
        first = np.array(images.transpose(0, 3, 1, 2), order="C")
        self._images = torch.from_numpy(first).to(self._device)
        kind = torch.float32 if self.network.binary else torch.int64
        self._labels = torch.from_numpy(np.array(labels)).to(self._device, kind)
        self._order = torch.arange(self.examples, device=self._device)

    def restart(self) -> None:
        """Begins anew from the initial weights."""
        torch.manual_seed(frameworks.SEED)
        self._model = build(self.network)
        weights = layers.channels_first(self.network, self.initial)
        with torch.no_grad():
            for name, parameter in self._model.named_parameters():
                parameter.copy_(torch.from_numpy(weights[_path(name)]))
        self._model.to(self._device).train()
        given = self._model.parameters(), self.learning_rate
        if self.optimizer == "adam":
            beta_1, beta_2, epsilon = frameworks.ADAM.values()
            self._optimizer = torch.optim.Adam(*given, (beta_1, beta_2), epsilon)
        else:
            self._optimizer = torch.optim.SGD(*given)

    def weights(self) -> layers.Arrays:
        """Returns the weights as they are, in Keras's layout."""
        found = {
            _path(name): parameter.detach().cpu().numpy().copy()
            for name, parameter in self._model.named_parameters()
        }
        return layers.channels_last(self.network, found)

    def _run(self, starts: Sequence[int], batch_size: int) -> float:
        loss = None
        for first in starts:
            batch = self._order[first : first + batch_size]
            images = self._images[batch].to(torch.float32) * self.scale
            loss = self._loss(self._model(images), self._labels[batch])
            self._optimizer.zero_grad()
            loss.backward()
            self._optimizer.step()
        value = loss.item()
        if self._device.type == "cuda":
            torch.cuda.synchronize()
        return value

    def _loss(self, logits: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        if self.network.binary:
            return functional.binary_cross_entropy_with_logits(logits[:, 0], labels)
        return functional.cross_entropy(logits, labels)

    def reset_peak(self) -> bool:
        """Lets `peak_bytes` count from now on; on the CPU, PyTorch keeps no count."""
        if self._device.type != "cuda":
            return False
        torch.cuda.reset_peak_memory_stats()
        return True

    def peak_bytes(self) -> int | None:
        """Returns the most that the allocator gave out at once since; None on the CPU."""
        return torch.cuda.max_memory_allocated() if self._device.type == "cuda" else None


def _path(name: str) -> str:
    """Returns Keras's path of a parameter: conv_1/kernel of conv_1.weight."""
    layer, _, what = name.partition(".")
    return f"{layer}/{'kernel' if what == 'weight' else 'bias'}"
