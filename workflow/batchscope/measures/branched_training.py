"""Train a run again, with branches at several points: the computation of the measure `branches`.

All branches of a point use the next examples of the training, in the same order. The branch with
the multiple k has k times the batch size and a constant rate: the rate of the training, times k for
sgd or the square root of k otherwise (`batch_phases.rate_factor`). Its loss is the validation loss
after each of `part_count` parts of the window, smoothed exponentially: l <- (l + loss) / 2.

Source: W. Merrill et al. 2025, "Critical Batch Size Revisited", arXiv 2505.23971.
"""

import math
from collections.abc import Iterator
from dataclasses import replace
from functools import cached_property
from typing import Any, NamedTuple, Self

import numpy as np
import tensorflow as tf

from batchscope.core import disk
from batchscope.measures import finite, noise_scale
from batchscope.measures.measure_job import FinishedRun
from batchscope.store.progress import Reporter
from batchscope.study import names
from batchscope.study.batch_phases import rate_factor
from batchscope.study.registry import VERSIONS
from batchscope.training import models, optimizers
from batchscope.training.fit import Training
from batchscope.training.losses import Objective
from batchscope.training.step_loop import StepLoop, Totals, assign_values, epoch_order


class Window(NamedTuple):
    """Length of the branches, and their multiples of the batch size."""

    multiples: tuple[int, ...]  # in rising order from 1; each divides the last
    batch_size: int  # of the branch with the multiple 1
    part_size: int  # examples between two evaluations: whole batches of every multiple
    part_count: int

    @property
    def examples(self) -> int:
        return self.part_size * self.part_count

    @classmethod
    def from_settings(cls, settings: dict[str, Any], batch_size: int, examples: int) -> Self:
        """Return the window of a measure's settings, rounded up to whole batches."""
        multiples = tuple(sorted({1, *settings["factors"]}))
        largest = multiples[-1] * batch_size
        count = settings["evaluations"]
        length = settings["window"] or examples
        return cls(multiples, batch_size, math.ceil(length / count / largest) * largest, count)


class Branches:
    """Branches of a training whose graphs are built. They leave all its variables unchanged."""

    def __init__(self, training: Training, window: Window) -> None:
        self._training, self._window = training, window
        self._optimizer = optimizers.make_optimizer(training.factors)
        self._size = tf.Variable(window.batch_size, False, dtype=tf.int32)
        settings = replace(training.update_settings, size=self._size, drop_remainder=True, offset=0)
        self._loop = StepLoop(training.model, self._optimizer, training.training_set, settings)
        self._shared_variables = training.variables_without_optimizer

    def losses(self, order: np.ndarray, rate: float) -> list[float]:
        """Return the smoothed loss of each branch from the present weights; NaN if it diverged.

        Args:
            order: Indices of the examples of the window, int32.
            rate: Learning rate of the training's next update.
        """
        values = [variable.numpy() for variable in self._shared_variables]
        losses = []
        for multiple in self._window.multiples:
            losses.append(self._branch_loss(order, rate, multiple))
            assign_values(self._shared_variables, values)
        return losses

    def _branch_loss(self, order: np.ndarray, rate: float, multiple: int) -> float:
        # The rate is left out, because it is no variable if it follows a schedule.
        variables, training_variables = (
            [variable for variable in optimizer.variables if variable.name != "learning_rate"]
            for optimizer in (self._optimizer, self._training.optimizer)
        )
        assign_values(variables, [variable.value for variable in training_variables])
        factor = rate_factor(self._training.factors["optimizer"], multiple)
        self._optimizer.learning_rate = rate * factor
        size, smoothed = multiple * self._window.batch_size, math.nan
        self._size.assign(size)
        for part in np.split(order, self._window.part_count):
            for examples in self._examples_of_calls(part):
                padded = np.resize(examples, self._loop.example_count)
                _, totals, _, _ = self._loop.run(padded, 0, len(examples) // size, Totals())
                if not math.isfinite(totals.loss):
                    return math.nan
            loss, _ = self._training.validation_loss.evaluate()
            smoothed = loss if math.isnan(smoothed) else (smoothed + loss) / 2
        return smoothed

    def _examples_of_calls(self, part: np.ndarray) -> Iterator[np.ndarray]:
        """Yield the examples of each call: whole batches of every multiple, at most an epoch."""
        largest = self._window.multiples[-1] * self._window.batch_size
        max_examples = self._loop.example_count // largest * largest
        for start in range(0, len(part), max_examples):
            yield part[start : start + max_examples]


class BranchedTraining(Training):
    """Training that repeats a run bit for bit; `points` has the results at its branch points."""

    def __init__(self, run: FinishedRun, settings: dict[str, Any], noise_loss: Objective) -> None:
        name = names.run_name({**run.factors, "evaluate_every": 0})
        super().__init__(replace(run, name=name), folder=run.scratch)
        self.window = Window.from_settings(settings, self.factors["batch_size"], self.examples)
        self._noise_loss = noise_loss
        examples_used = run.record["epochs_run"] * self.examples
        shares = settings["points"]
        self._shares = {self._updates_after(share * examples_used): share for share in shares}
        self.visited_updates = tuple(self._shares)
        self.reporter = Reporter(run.results, run.name, self.epochs, "branches")
        self._file = self.folder / "points.json"
        weights = run.record["sha256"].get("final.npz")
        self._key = f"{VERSIONS['branches']} {self._run_key} {weights}"
        saved = disk.read_json(self._file) if self._file.exists() else {}
        # A killed job may have left points, but also another training in the same folder.
        is_same = saved.get("training") == self._key
        self.points: dict[str, Any] = saved["points"] if is_same else {}

    def _updates_after(self, examples: float) -> int:
        epoch, remainder = divmod(max(examples - 1e-6, 0.0), self.examples)
        size = self.factors["batch_size"]
        return self.course.updates(int(epoch)) + int(remainder // size) + 1

    @property
    def epochs(self) -> int:
        return math.ceil(max(self.visited_updates) / self.course.epoch_updates(0))

    @cached_property
    def _branches(self) -> Branches:
        return Branches(self, self.window)

    def visit(self) -> None:
        """Measure at a branch point, unless a killed job has done so."""
        key = str(self.updates)
        if key not in self.points:
            self.points[key] = self._measure_point()
            disk.write_json(self._file, {"training": self._key, "points": self.points})

    def _measure_point(self) -> dict[str, Any]:
        rate = self.optimizer.learning_rate
        if self.schedule:
            last = self.course.updates(self.factors["epochs"]) - 1  # the schedule ends there
            rate = self.schedule(min(self.updates, last))
        rate = float(np.asarray(rate))
        losses = self._branches.losses(self._next_examples(), rate)
        optimizer = self.factors["optimizer"]
        models.set_weights(self._noise_loss.model, *models.weights(self.model))
        noise, _ = noise_scale.estimate_noise_scale(self._noise_loss)
        return {
            "share": self._shares[self.updates],
            "examples_used": self.examples_used,
            "losses": [loss if math.isfinite(loss) else None for loss in losses],
            "learning_rates": [rate * rate_factor(optimizer, k) for k in self.window.multiples],
            "noise": finite(noise.columns),
        }

    def _next_examples(self) -> np.ndarray:
        """Return the indices of the examples of a window: the next ones of the training."""
        seed, epoch = self.factors["seed"], self.progress.epoch
        order = epoch_order(seed, epoch, self.examples)[self.examples_of_epoch :]
        while len(order) < self.window.examples:
            epoch += 1
            order = np.concatenate([order, epoch_order(seed, epoch, self.examples)])
        return order[: self.window.examples]
