"""Train a run again, with branches at several points: the computation of the measure `branches`."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np

from batchscope.core import disk
from batchscope.measures import finite, noise_scale
from batchscope.measures.finished_run import FinishedRun
from batchscope.study import names
from batchscope.study.batch_phases import rate_factor
from batchscope.study.versions import VERSIONS
from batchscope.training import models
from batchscope.training.branches import Branches, Window
from batchscope.training.fit import Training
from batchscope.training.losses import Objective
from batchscope.training.step_loop import epoch_order


class BranchedTraining(Training):
    """Training that repeats a run bit for bit; `points` has the results at its branch points."""

    def __init__(self, run: FinishedRun, settings: dict[str, Any], noise_loss: Objective) -> None:
        name = names.run_name({**run.factors, "evaluate_every": 0})
        super().__init__(replace(run, name=name), folder=run.scratch)
        self.window = Window.from_settings(settings, self.factors["batch_size"], self.examples)
        self._noise_loss, self._branches = noise_loss, None
        examples_used = run.record["epochs_run"] * self.examples
        shares = settings["points"]
        self._shares = {self._updates_after(share * examples_used): share for share in shares}
        self.visited_updates = tuple(self._shares)
        self._file = self.folder / "points.json"
        weights = run.record["sha256"].get("final.npz")
        self._training = f"{VERSIONS['branches']} {self._run_key} {weights}"
        saved = disk.read_json(self._file) if self._file.exists() else {}
        # A killed job may have left points, but also another training in the same folder.
        is_same = saved.get("training") == self._training
        self.points: dict[str, Any] = saved["points"] if is_same else {}

    def _updates_after(self, examples: float) -> int:
        epoch, remainder = divmod(max(examples - 1e-6, 0.0), self.examples)
        size = self.factors["batch_size"]
        return self.course.updates(int(epoch)) + int(remainder // size) + 1

    @property
    def epochs(self) -> int:
        return math.ceil(max(self.visited_updates) / self.course.epoch_updates(0))

    def visit(self) -> None:
        """Measure at a branch point, unless a killed job has done so."""
        key = str(self.updates)
        if key not in self.points:
            self.points[key] = self._measure_point()
            disk.write_json(self._file, {"training": self._training, "points": self.points})

    def _measure_point(self) -> dict[str, Any]:
        if self._branches is None:
            state = self.factors, self.model, self.optimizer, self.training_set, self.batches
            self._branches = Branches(
                *state, lambda: self.validation_objective.evaluate()[0], self.window
            )
        rate = self.optimizer.learning_rate
        if self.schedule:
            last = self.course.updates(self.factors["epochs"]) - 1  # the schedule ends there
            rate = self.schedule(min(self.updates, last))
        rate = float(np.asarray(rate))
        losses = self._branches.losses(self._next_examples(), rate)
        optimizer = self.factors["optimizer"]
        return {
            "share": self._shares[self.updates],
            "examples_used": self.progress.epoch * self.examples + self.examples_of_epoch,
            "losses": [loss if math.isfinite(loss) else None for loss in losses],
            "learning_rates": [rate * rate_factor(optimizer, k) for k in self.window.multiples],
            "noise": self._measure_noise_scale(),
        }

    def _next_examples(self) -> np.ndarray:
        """Return the indices of the examples of a window: the next ones of the training."""
        seed, epoch = self.factors["seed"], self.progress.epoch
        order = epoch_order(seed, epoch, self.examples)[self.examples_of_epoch :]
        while len(order) < self.window.examples:
            epoch += 1
            order = np.concatenate([order, epoch_order(seed, epoch, self.examples)])
        return order[: self.window.examples]

    def _measure_noise_scale(self) -> dict[str, float | None]:
        models.set_weights(self._noise_loss.model, *models.weights(self.model))
        return finite(noise_scale.estimate_noise_scale(self._noise_loss)[0].columns)
