"""What runs and times training steps: one interface, and the frameworks other than TensorFlow.

TensorFlow's loops implement the same interface in batchscope.timing.loops. Every framework trains
the same two networks, written as its users write them, on images in memory, with the same loss,
updates and dropout. Each runs in its own environment (batchscope.host.framework_environments),
which imports this package: nothing here may import a framework that is not asked for.
"""

from __future__ import annotations

import abc
import functools
import importlib
import math
import os
import time
from collections.abc import Callable, Sequence
from types import ModuleType

import numpy as np

from batchscope.datasets import Examples
from batchscope.errors import UserError
from batchscope.host import tensorflow_start

# No model diverges within a timing at this rate, and a step's time does not depend on it.
LEARNING_RATE = 1e-6
# Keras's constants of Adam; each framework has an epsilon of its own otherwise.
ADAM = {"beta_1": 0.9, "beta_2": 0.999, "epsilon": 1e-7}
SEED = 0  # of weights and dropout
# Steps after a change of batch size that are not timed: more than a pipeline keeps ready.
LEAD_IN_STEPS = 3
# A longer step has filled its memory and found its functions by itself.
LEAD_IN_SECONDS = 0.25


class NotFinite(ArithmeticError):
    """The loss is not finite, so the steps cannot be timed."""


class Runner(abc.ABC):
    """Runs and times consecutive updates on whole batches, at any batch size of a sweep.

    All batch sizes share weights and images, and each keeps its own place in its epoch. The last,
    smaller batch of an epoch is left out, so that a time belongs to its batch size.
    """

    threads = 1
    unit = 1  # updates of one call: only multiples of it are to be timed
    lead_in_seconds = LEAD_IN_SECONDS  # a lead-in ends after this time

    def __init__(self, examples: int) -> None:
        self.examples = examples
        self._positions: dict[int, int] = {}
        self._current: tuple[int, bool] | None = None

    def per_epoch(self, batch_size: int) -> int:
        """Returns the updates of an epoch; a batch above all examples is one update."""
        return max(1, self.examples // batch_size)

    def at(self, batch_size: int, delayed: bool = True) -> Callable[[int], float]:
        """Returns `run` at a batch size, as a function of the number of steps."""
        return functools.partial(self.run, batch_size, delayed=delayed)

    def run(self, batch_size: int, steps: int, delayed: bool = True) -> float:
        """Runs the next updates, waits for the device, and returns the seconds that they took.

        After a change of batch size, or of whether the sweep's delay comes before every step, a
        lead-in runs untimed. Raises `NotFinite` if the loss is not finite.
        """
        try:
            if (batch_size, delayed) != self._current:
                self._current = (batch_size, delayed)
                self._switch(batch_size, delayed)
                done, spent = 0, 0.0
                while done < LEAD_IN_STEPS and spent < self.lead_in_seconds:
                    spent += self._next(batch_size, self.unit)
                    done += self.unit
            return self._next(batch_size, steps)
        except Exception:
            self.restart()
            raise

    def _next(self, batch_size: int, steps: int) -> float:
        start = self._positions.get(batch_size, 0)
        seconds, loss = self._run(batch_size, start, steps)
        if not math.isfinite(loss):
            raise NotFinite(f"The loss is not finite within {steps} steps.")
        self._positions[batch_size] = (start + steps) % self.per_epoch(batch_size)
        return seconds

    @abc.abstractmethod
    def _run(self, batch_size: int, start: int, steps: int) -> tuple[float, float]:
        """Returns the seconds of updates from a place in the epoch, and a loss.

        It is finite only if all losses were.
        """

    def _switch(self, batch_size: int, delayed: bool) -> None:
        """Prepares the updates of another batch size or delay."""
        return

    def restart(self) -> None:
        """Begins anew after an error: the other batch sizes share the weights."""
        return

    def reset_peak(self) -> bool:
        """Lets `peak_mb` count from now on; returns whether the allocator keeps count."""
        return False

    def peak_mb(self) -> float | None:
        """Returns the most that the allocator gave out at once since, 10^6 bytes."""
        return None


class FrameworkRunner(Runner):
    """Updates by sgd or adam in a framework beside TensorFlow, on images in its device's memory."""

    def __init__(
        self,
        model: str,
        classes: int,
        optimizer: str,
        examples: Examples,
        device: str,
        learning_rate: float = LEARNING_RATE,
    ) -> None:
        super().__init__(len(examples.labels))
        self.model, self.optimizer, self.device = model, optimizer, device
        self.scale, self.learning_rate = examples.scale, learning_rate
        # The one output is the logit of the second of two classes.
        self.binary = model == "lheureux_cnn" and classes == 2
        self.outputs = 1 if self.binary else classes
        self.shape = examples.images.shape[1:]
        self._load(examples.images, examples.labels)
        self.restart()

    def _run(self, batch_size: int, start: int, steps: int) -> tuple[float, float]:
        whole = self.per_epoch(batch_size)
        starts = [(start + step) % whole * batch_size for step in range(steps)]
        begun = time.perf_counter()
        loss = self._update(starts, batch_size)
        return time.perf_counter() - begun, loss

    @abc.abstractmethod
    def _load(self, images: np.ndarray, labels: np.ndarray) -> None:
        """Puts the data on the device."""

    @abc.abstractmethod
    def _update(self, starts: Sequence[int], batch_size: int) -> float:
        """Makes one update per first example of a batch, and waits; returns the last loss."""


def start(framework: str, threads: int, device: str) -> ModuleType:
    """Sets a framework up and returns its module, before anything else imports it."""
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
    if framework in ("mxnet", "jax"):
        # Their switches leave more threads busy than asked for: XLA takes a thread for each core
        # of the process, and MXNet's engine computes while Python queues what comes next.
        os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:threads])
    module = importlib.import_module(f"batchscope.frameworks.{framework}")
    module.start(threads, device)
    return module


def no_gpu(title: str, wheel: str = "") -> UserError:
    """Returns the error of a framework that finds no GPU, where one is asked for."""
    return UserError(
        f"device: received 'gpu', but {title} finds no GPU here; an NVIDIA GPU, and {title} "
        f"installed on the machine that has it{wheel}, are expected; or use device: cpu."
    )
