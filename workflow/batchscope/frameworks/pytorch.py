"""Updates in PyTorch: an eager module, autograd and torch.optim."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from torch import nn
from torch.nn import functional

from batchscope import frameworks


def start(threads: int, device: str) -> None:
    """Sets PyTorch's threads; see `frameworks.start`."""
    torch.set_num_threads(threads)
    torch.set_num_interop_threads(1)
    if device == "gpu" and not torch.cuda.is_available():
        raise frameworks.no_gpu("PyTorch")


def campbell_cnn(channels: int, outputs: int) -> nn.Sequential:
    """Returns the network of `batchscope.training.networks.campbell_cnn`, up to its logits."""
    return nn.Sequential(
        *(nn.Conv2d(channels, 16, 4), nn.ReLU(), nn.MaxPool2d(2)),
        *(nn.Conv2d(16, 32, 4), nn.ReLU(), nn.MaxPool2d(2)),
        *(nn.Flatten(), nn.Dropout(0.25), nn.LazyLinear(500), nn.ReLU()),
        *(nn.Dropout(0.5), nn.Linear(500, outputs)),
    )


def lheureux_cnn(channels: int, outputs: int) -> nn.Sequential:
    """Returns the network of `batchscope.training.networks.lheureux_cnn`, up to its logits."""
    return nn.Sequential(
        *(nn.Conv2d(channels, 32, 3, padding="same"), nn.ReLU(), nn.MaxPool2d(2)),
        *(nn.Flatten(), nn.LazyLinear(128), nn.ReLU(), nn.Linear(128, outputs)),
    )


NETWORKS = {"campbell_cnn": campbell_cnn, "lheureux_cnn": lheureux_cnn}


class Runner(frameworks.FrameworkRunner):
    """Updates in PyTorch; see `frameworks.FrameworkRunner`."""

    def _load(self, images: np.ndarray, labels: np.ndarray) -> None:
        self._device = torch.device("cuda" if self.device == "gpu" else "cpu")
        first = np.array(images.transpose(0, 3, 1, 2), order="C")
        self._images = torch.from_numpy(first).to(self._device)
        kind = torch.float32 if self.binary else torch.int64
        self._labels = torch.from_numpy(np.array(labels)).to(self._device, kind)
        self._order = torch.arange(self.examples, device=self._device)

    def restart(self) -> None:
        """Begins anew from the initial weights."""
        torch.manual_seed(frameworks.SEED)
        self.network = NETWORKS[self.model](self.shape[-1], self.outputs).train()
        with torch.no_grad():  # the widths of dense layers follow from the images
            self.network(self._images[:1].to("cpu", torch.float32))
        self.network.to(self._device)
        given = self.network.parameters(), self.learning_rate
        if self.optimizer == "adam":
            beta_1, beta_2, epsilon = frameworks.ADAM.values()
            self._optimizer = torch.optim.Adam(*given, (beta_1, beta_2), epsilon)
        else:
            self._optimizer = torch.optim.SGD(*given)

    def _update(self, starts: Sequence[int], batch_size: int) -> float:
        for first in starts:
            batch = self._order[first : first + batch_size]
            images = self._images[batch].to(torch.float32) * self.scale
            loss = self._loss(self.network(images), self._labels[batch])
            self._optimizer.zero_grad()
            loss.backward()
            self._optimizer.step()
        value = loss.item()
        if self._device.type == "cuda":
            torch.cuda.synchronize()
        return value

    def _loss(self, logits: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        if self.binary:
            return functional.binary_cross_entropy_with_logits(logits[:, 0], labels)
        return functional.cross_entropy(logits, labels)

    def reset_peak(self) -> bool:
        """Lets `peak_mb` count from now on; on the CPU, PyTorch keeps no count."""
        if self._device.type != "cuda":
            return False
        torch.cuda.reset_peak_memory_stats()
        return True

    def peak_mb(self) -> float | None:
        """Returns the most that the allocator gave out at once since; None on the CPU."""
        on_gpu = self._device.type == "cuda"
        return torch.cuda.max_memory_allocated() / 10**6 if on_gpu else None
