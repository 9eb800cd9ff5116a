"""What a timing job times in a framework beside TensorFlow; see `batchscope.frameworks`."""

from __future__ import annotations

import functools
import math
import time
from collections.abc import Callable

from batchscope import frameworks
from batchscope.catalogue import incompatible_factors
from batchscope.errors import UserError
from batchscope.frameworks import layers
from batchscope.store import records
from batchscope.timing import TimingJob
from batchscope.timing.instruments.units import MEGABYTE
from batchscope.timing.largest.fates import NotFinite
from batchscope.timing.steps import lead_in
from batchscope.timing.steps.subjects import Subject
from batchscope.timing.time_epoch import LEARNING_RATE


class FrameworkSubject(Subject):
    """A sweep, ready to be timed in the framework that it names.

    As in TensorFlow's loop in the graph, all batch sizes share the weights and the images, which
    are read in the order 0 to n - 1, whole batches only, epoch after epoch.

    Attributes:
        training: What makes the updates.

    Raises:
        UserError: If the data are missing, their images are too small or fewer than the largest
            batch, or the framework finds no GPU that is asked for.
    """

    fates = {MemoryError: records.OUT_OF_MEMORY, NotFinite: records.DIVERGED}

    def __init__(self, job: TimingJob) -> None:
        super().__init__(job)
        factors, look = job.factors, job.data.look
        train = job.data.examples("train")
        self.examples = len(train.labels)
        incompatible_factors.check_batch_size(factors, max(self.sweep.batch_sizes), self.examples)
        try:
            network = layers.build(factors["model"], look.input_shape, look.classes)
        except ValueError as error:
            raise UserError(f"{self.sweep.name}: {error}") from None
        module = frameworks.start(factors["framework"], self.threads, factors["device"])
        self.training: frameworks.Training = module.Training(
            network,
            layers.initial_weights(network, 0),
            factors["optimizer"],
            LEARNING_RATE,
            train,
            factors["device"],
        )
        self._positions: dict[int, int] = {}
        self._current: int | None = None

    def runner(self, batch_size: int, delayed: bool = True) -> Callable[[int], float]:
        """Returns what runs steps; no framework has a delay that could be left out."""

        def run(steps: int) -> float:
            if batch_size != self._current:
                self._current = batch_size
                # Its memory, or its function, is looked up anew.
                lead_in.run(functools.partial(self._run, batch_size))
            return self._run(batch_size, steps)

        return run

    def _run(self, batch_size: int, steps: int) -> float:
        whole = max(1, self.examples // batch_size)
        position = self._positions.get(batch_size, 0)
        starts = [(position + step) % whole * batch_size for step in range(steps)]
        begun = time.perf_counter()
        loss = self.training.run(starts, batch_size)
        seconds = time.perf_counter() - begun
        if not math.isfinite(loss):
            self.training.restart()  # the other batch sizes share the weights
            raise NotFinite(f"The loss is not finite within {steps} steps.")
        self._positions[batch_size] = (position + steps) % whole
        return seconds

    def reset_peak(self) -> bool:
        """Lets `peak_mb` count from now on; returns whether the allocator keeps count."""
        return self.training.reset_peak()

    def peak_mb(self) -> float | None:
        """Returns the most that the allocator gave out at once since, 10^6 bytes; or None."""
        peak = self.training.peak_bytes()
        return None if peak is None else peak / MEGABYTE
