"""The same trainings in frameworks other than TensorFlow, each written as its users write it.

Nothing is timed here, and none is installed: batchscope.timing and batchscope.host do.

What is the same in all of them: the network, its initial weights, the images in memory, the
order in which they are read, the loss (from the logits, a mean over the batch), the updates, and
dropout where the Keras model has it. What differs is what each framework makes of a step:

`pytorch`  an eager module, autograd, `torch.optim`: one operation after the other from Python
`mxnet`    a hybridized Gluon block, autograd, `Trainer`: operations queued for an engine
`jax`      one jitted function per batch size that takes the weights' buffers over

Each runs in its own environment (batchscope.host.framework_environments), so that this package
is imported there: nothing here may import TensorFlow, or another framework than the one that is
asked for.
"""

from __future__ import annotations

import abc
import contextlib
import importlib
import os
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from batchscope.datasets import Examples
from batchscope.errors import UserError
from batchscope.frameworks.layers import Arrays, Network
from batchscope.host import tensorflow_start

# Keras's constants of Adam; each framework has an epsilon of its own otherwise.
ADAM = {"beta_1": 0.9, "beta_2": 0.999, "epsilon": 1e-7}
SEED = 0  # of dropout
# Whose own switches leave more threads busy than asked for: XLA takes one for each core of the
# process, and MXNet's engine computes while Python queues what comes next.
CONFINED = ("mxnet", "jax")


class Training(abc.ABC):
    """A network in training; one copy of its images serves all batch sizes.

    Args:
        optimizer: `sgd` or `adam`.
    """

    # The framework's error, and what its text says where an allocator refused memory.
    memory_error: type[Exception]
    memory_words: tuple[str, ...]

    def __init__(
        self,
        network: Network,
        weights: Arrays,
        optimizer: str,
        learning_rate: float,
        examples: Examples,
        device: str,
    ) -> None:
        self.network, self.initial = network, weights
        self.optimizer, self.learning_rate = optimizer, learning_rate
        self.scale, self.device = examples.scale, device
        self.examples = len(examples.labels)
        with self._memory():
            self._load(examples.images, examples.labels)
        self.restart()

    def run(self, starts: Sequence[int], batch_size: int) -> float:
        """Makes one update per entry of `starts`, and waits for the device.

        Args:
            starts: First example of each batch, in the order that the images are read in.

        Returns:
            The loss of the last batch, before its update. It is finite only if all were: what
            is not finite stays in the weights.

        Raises:
            MemoryError: If an allocator refused. Training then begins anew, since what the
                refused step had in its hands may be lost.
        """
        try:
            with self._memory():
                return self._run(starts, batch_size)
        except Exception:
            self.restart()
            raise

    @contextlib.contextmanager
    def _memory(self) -> Iterator[None]:
        try:
            yield
        except self.memory_error as error:
            if any(word in str(error) for word in self.memory_words):
                raise MemoryError(str(error)) from error
            raise

    @abc.abstractmethod
    def restart(self) -> None:
        """Begins anew from the initial weights."""

    @abc.abstractmethod
    def weights(self) -> Arrays:
        """Returns the weights as they are, in Keras's layout."""

    @abc.abstractmethod
    def _load(self, images: np.ndarray, labels: np.ndarray) -> None:
        """Puts the data on the device."""

    @abc.abstractmethod
    def _run(self, starts: Sequence[int], batch_size: int) -> float:
        """Does what `run` says."""

    def reset_peak(self) -> bool:
        """Lets `peak_bytes` count from now on; returns whether the allocator keeps count."""
        return False

    def peak_bytes(self) -> int | None:
        """Returns the most that the allocator gave out at once since; None where unknown."""
        return None


def start(framework: str, threads: int, device: str) -> Any:
    """Sets a framework up and returns its module, before anything else imports it.

    Args:
        threads: Threads that it may use; 0 for as many as this process has cores.

    Raises:
        UserError: If it finds no GPU, where one is asked for.
    """
    threads = tensorflow_start.threads_of(threads)
    tensorflow_start.limit(threads, device)
    if framework == "mxnet":
        # Threads of the engine run operations side by side, each with OpenMP's threads besides.
        os.environ["MXNET_CPU_WORKER_NTHREADS"] = "1"
        os.environ["MXNET_CPU_PRIORITY_NTHREADS"] = "1"
        os.environ["MXNET_OMP_MAX_THREADS"] = str(threads)
    if framework == "jax":
        os.environ["JAX_PLATFORMS"] = "cpu" if device == "cpu" else "cuda"
        # As TensorFlow is set up: memory is taken as it is needed.
        os.environ["XLA_PYTHON_CLIENT_PREALLOCATE"] = "false"
    if framework in CONFINED and hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:threads])
    module = importlib.import_module(f"batchscope.frameworks.{framework}")
    module.start(threads, device)
    return module


def no_gpu(title: str) -> UserError:
    """Returns the error of a framework that finds no GPU, where one is asked for."""
    return UserError(
        f"device: received 'gpu', but {title} finds no GPU here; an NVIDIA GPU, and {title} "
        "installed on the machine that has it, are expected; or use device: cpu."
    )
