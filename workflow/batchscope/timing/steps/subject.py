"""What a timing job times in TensorFlow: data, model and optimizer, and what runs the steps."""

from __future__ import annotations

import functools
import tempfile
from collections.abc import Callable
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import tensorflow as tf

from batchscope.catalogue import incompatible_factors
from batchscope.timing import TimingJob
from batchscope.timing.instruments import flops, peak, peak_memory
from batchscope.timing.largest import fates
from batchscope.timing.steps import loops, parts
from batchscope.timing.steps.subjects import Subject
from batchscope.training import augmentations, replicas, step_loop


class TensorFlowSubject(Subject):
    """A sweep, ready to be timed in TensorFlow, which must be started.

    Its runners share the model, the optimizer and the images: a step takes as long with one
    weight as with another.

    Raises:
        UserError: If the data are missing, or are fewer than the largest batch.
    """

    def __init__(self, job: TimingJob) -> None:
        super().__init__(job)
        factors = job.factors
        # Of a call into the graph.
        self.unit = loops.STEPS_PER_EXECUTION if factors["loop"] == "fit_steps" else 1
        self.fates = fates.known()
        self.model = job.network()
        self._optimizer = parts.make_optimizer(factors)
        self._train = augmentations.extended(factors["augmentation"], job.data.examples("train"))
        self.examples = len(self._train.labels)
        incompatible_factors.check_batch_size(factors, max(self.sweep.batch_sizes), self.examples)
        # One copy for whatever loop; on a GPU it is in the GPU's memory.
        self._placed = replace(self._train, images=tf.constant(self._train.images))
        self._folder = tempfile.TemporaryDirectory(prefix="batchscope-")
        self._shared: loops.Runner | None = None
        self._replicated = functools.cache(self._make_replicated)

    def __exit__(self, *_: object) -> None:
        """Removes the temporary files."""
        self._folder.cleanup()

    def runner(self, batch_size: int, delayed: bool = True) -> Callable[[int], float]:
        """Returns what runs so many consecutive steps and returns the seconds that they took."""
        if self.sweep.factors["replicas"] > 1:
            return self._replicated(batch_size)
        self._shared = self._shared or self._make_shared(batch_size)
        return self._shared.at(batch_size, delayed)

    def _make_shared(self, batch_size: int) -> loops.Runner:
        """Returns the runner of all batch sizes; this one is the first."""
        factors = self.sweep.factors
        pipeline = factors["input_pipeline"]
        return loops.make(
            factors["loop"],
            self.model,
            self._optimizer,
            self._placed,
            parts.make_batches(factors, batch_size, whole=True),
            loops.Source(
                None if pipeline == "plain" else pipeline,
                factors["delay_seconds"],
                Path(self._folder.name) / "jpeg",
            ),
        )

    def _make_replicated(self, batch_size: int) -> Callable[[int], float]:
        """Returns what runs steps divided among replicas: a loop of its own per batch size."""
        steps = replicas.make_loop(
            self.sweep.factors,
            self.model,
            self._optimizer,
            self._train,
            parts.make_batches(self.sweep.factors, batch_size),
        )
        steps.compile()
        order = step_loop.epoch_order(0, 0, self.examples)
        whole = max(1, self.examples // batch_size)
        position = 0

        def run(count: int) -> float:
            nonlocal position
            seconds = 0.0
            while count:
                stop = min(position + count, whole)
                seconds += steps.run(order, position, stop, step_loop.Totals())[2]
                count -= stop - position
                position = stop % whole
            return seconds

        return run

    def ceiling(self) -> dict[str, Any]:
        """Measures the peak of a matrix product on this process's threads and device."""
        return peak.matmul_peak()

    def counted(self) -> dict[str, Any]:
        """Returns the operations per example, and the layers that are not counted."""
        return asdict(flops.per_image(self.model))

    def reset_peak(self) -> bool:
        """Lets `peak_mb` count from now on; returns whether TensorFlow keeps count."""
        return peak_memory.reset_tensorflow_peak_memory(self.sweep.factors["device"])

    def peak_mb(self) -> float | None:
        """Returns the most that TensorFlow's tensors held at once since, 10^6 bytes."""
        return peak_memory.tensorflow_peak_memory(self.sweep.factors["device"])
