"""What a timing job times in TensorFlow: data, model and optimizer, and what runs the steps."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

import tensorflow as tf

from batchscope import datasets
from batchscope.catalogue import incompatible_factors
from batchscope.catalogue.sweep_names import Sweep
from batchscope.host import tensorflow_start
from batchscope.timing.instruments import flops, peak
from batchscope.timing.instruments.peak_memory import (
    reset_tensorflow_peak_memory,
    tensorflow_peak_memory,
)
from batchscope.timing.instruments.sampler import Sampler
from batchscope.timing.largest import fates
from batchscope.timing.steps import loops
from batchscope.timing.time_epoch import make_optimizer
from batchscope.training import augmentations, models, replicas, step_loop
from batchscope.training.update_methods import Method


class Subject:
    """A sweep, ready to be timed; TensorFlow must be started. See `subjects.Subject`.

    Its runners share the model, the optimizer and the images: a step takes as long with one
    weight as with another.

    Args:
        model_file: The user's model file, where the model is not built in.

    Attributes:
        model: The Keras model.
        examples: Training images.

    Raises:
        UserError: If the data are missing, or are fewer than the largest batch.
    """

    def __init__(
        self, results: Path | str, sweep: Sweep, model_file: Path | str | None = None
    ) -> None:
        self.sweep = sweep
        factors = sweep.factors
        self.threads = tensorflow_start.threads_of(factors["threads"])
        self.fates = fates.known()
        data = datasets.load(results, factors["dataset"])
        self._data = data
        scope = replicas.scope(factors)
        self.model = models.build(
            factors["model"],
            data.input_shape,
            data.classes,
            0,
            model_file,
            scope,
            factors["precision"],
            kind=data.kind,
        )
        self._optimizer = make_optimizer(factors)
        self._arrays = augmentations.extended(
            factors["augmentation"], data.images("train"), data.labels("train")
        )
        self.examples = len(self._arrays[1])
        incompatible_factors.check_batch_size(factors, max(sweep.batch_sizes), self.examples)
        # One copy for whatever loop; on a GPU it is in the GPU's memory.
        self._images = tf.constant(self._arrays[0])
        self._folder = tempfile.TemporaryDirectory(prefix="batchscope-")
        self._shared: loops.Runner | None = None
        self._divided: dict[int, Callable[[int], float]] = {}

    def __enter__(self) -> Subject:
        """Returns itself."""
        return self

    def __exit__(self, *_: object) -> None:
        """Takes the temporary files away."""
        self._folder.cleanup()

    @property
    def unit(self) -> int:
        """Steps of one call into the graph: only multiples of it are to be timed."""
        return loops.STEPS_PER_EXECUTION if self.sweep.factors["loop"] == "fit_steps" else 1

    def runner(self, batch_size: int, delayed: bool = True) -> Callable[[int], float]:
        """Returns what runs so many consecutive steps and returns the seconds that they took.

        Every step is of whole batches: an epoch's last, smaller one is left out, so that a
        time belongs to its batch size.
        """
        if self.sweep.factors["replicas"] > 1:
            if batch_size not in self._divided:
                self._divided[batch_size] = self._replicated(batch_size)
            return self._divided[batch_size]

        return self._runner(batch_size).at(batch_size, delayed)

    def _runner(self, batch_size: int) -> loops.Runner:
        if self._shared is None:
            factors, data = self.sweep.factors, self._data
            pipeline = factors["input_pipeline"]
            self._shared = loops.make(
                factors["loop"],
                self.model,
                self._optimizer,
                step_loop.Examples(self._images, self._arrays[1], data.scale),
                step_loop.Batches(
                    batch_size,
                    whole=True,
                    augment=augmentations.layer(factors["augmentation"], 0),
                    method=Method.of(factors),
                    piece=factors["micro_batch_size"],
                ),
                loops.Source(
                    None if pipeline == "plain" else pipeline,
                    factors["delay_seconds"],
                    Path(self._folder.name) / "jpeg",
                ),
            )
        return self._shared

    def _replicated(self, batch_size: int) -> Callable[[int], float]:
        """Returns what runs steps divided among replicas: a loop of its own per batch size."""
        steps = replicas.make_loop(
            self.sweep.factors,
            self.model,
            self._optimizer,
            step_loop.Examples(*self._arrays, self._data.scale),
            step_loop.Batches(batch_size, method=Method.of(self.sweep.factors)),
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

    def sampler(self, interval: float = 0.1) -> Sampler:
        """Returns a sampler of this process's cores and GPU, to be entered."""
        gpu = 0 if self.sweep.factors["device"] == "gpu" else None
        return Sampler(interval, self.threads, gpu)

    def ceiling(self) -> dict[str, Any] | None:
        """Measures the peak of a matrix product on this process's threads and device."""
        return peak.matmul_peak()

    def counted(self) -> dict[str, Any]:
        """Returns the operations per example, and the layers that are not counted."""
        return asdict(flops.per_image(self.model))

    def reset_peak(self) -> bool:
        """Lets `peak_mb` count from now on; returns whether TensorFlow keeps count."""
        return reset_tensorflow_peak_memory(self.sweep.factors["device"])

    def peak_mb(self) -> float | None:
        """Returns the most that TensorFlow's tensors held at once since, 10^6 bytes."""
        return tensorflow_peak_memory(self.sweep.factors["device"])
