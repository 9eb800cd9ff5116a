"""A run that is trained again, with branches at several points."""

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
    """Training of a run with branches at its points."""

    def __init__(self, run: FinishedRun, settings: dict[str, Any], noise: Objective) -> None:
        plain = names.run_name({**run.factors, "evaluate_every": 0})
        super().__init__(replace(run, name=plain), folder=run.scratch)
        self.window = Window.from_settings(settings, self.factors["batch_size"], self.examples)
        self._noise, self._branches = noise, None
        used = run.record["epochs_run"] * self.examples
        self._shares = {self._update(share * used): share for share in settings["points"]}
        self.visits = tuple(self._shares)
        self._file = self.folder / "points.json"
        weights = run.record["sha256"].get("final.npz")
        self._training = f"{VERSIONS['branches']} {self._key} {weights}"
        kept = disk.read_json(self._file) if self._file.exists() else {}
        # Another training in the same folder may have left points.
        is_same = kept.get("training") == self._training
        self.points: dict[str, Any] = kept["points"] if is_same else {}

    def _update(self, examples: float) -> int:
        epoch, remainder = divmod(max(examples - 1e-6, 0.0), self.examples)
        size = self.factors["batch_size"]
        return self.course.updates(int(epoch)) + int(remainder // size) + 1

    @property
    def epochs(self) -> int:
        return math.ceil(max(self.visits) / self.course.steps(0))

    def visit(self) -> None:
        """Measure at a point, unless a killed job did so."""
        key = str(self.updates)
        if key not in self.points:
            self.points[key] = self._point()
            disk.write_json(self._file, {"training": self._training, "points": self.points})

    def _point(self) -> dict[str, Any]:
        if self._branches is None:
            state = self.factors, self.model, self.optimizer, self.training_set, self.batches
            self._branches = Branches(*state, lambda: self.validation.evaluate()[0], self.window)
        rate = self.optimizer.learning_rate
        if self.schedule:  # after the last update there is no next one
            last = self.course.updates(self.factors["epochs"]) - 1
            rate = self.schedule(min(self.updates, last))
        rate = float(np.asarray(rate))
        losses = self._branches.losses(self._next_examples(), rate)
        times = (rate_factor(self.factors["optimizer"], factor) for factor in self.window.factors)
        return {
            "share": self._shares[self.updates],
            "examples_used": self.progress.epoch * self.examples + self.used,
            "losses": [loss if math.isfinite(loss) else None for loss in losses],
            "learning_rates": [rate * factor for factor in times],
            "noise": self._noise_scale(),
        }

    def _next_examples(self) -> np.ndarray:
        """Return the examples of a window: the next ones of the training."""
        seed, epoch = self.factors["seed"], self.progress.epoch
        order = epoch_order(seed, epoch, self.examples)[self.used :]
        while len(order) < self.window.examples:
            epoch += 1
            order = np.concatenate([order, epoch_order(seed, epoch, self.examples)])
        return order[: self.window.examples]

    def _noise_scale(self) -> dict[str, float | None]:
        models.set_weights(self._noise.model, *models.weights(self.model))
        return finite(noise_scale.estimate_noise_scale(self._noise)[0].columns)
