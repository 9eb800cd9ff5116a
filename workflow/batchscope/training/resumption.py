"""What a training carries along, and takes up again from a checkpoint."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import keras
import numpy as np

from batchscope.training import checkpoint, models


@dataclass
class Progress:
    """Where a training stands; all of it goes into the checkpoint as text."""

    epoch: int = 0
    step: int = 0  # done of the epoch after those
    loss: float = 0.0  # sum over those steps' examples
    hits: int = 0  # correct ones among those examples
    epoch_seconds: float = 0.0  # that those steps took
    contended_seconds: float = 0.0  # that all steps took, while other jobs shared the machine
    best_epoch: int = 0  # 0 before there is one
    best_value: float = math.nan  # what is monitored, there
    resumed: int = 0  # times that the training went on from a checkpoint
    history: list[dict[str, Any]] = field(default_factory=list)  # a row per completed epoch
    trajectory: list[dict[str, Any]] = field(default_factory=list)  # a row per evaluation


class Carried:
    """The arrays that a training carries along beside its variables."""

    def __init__(self, initial: dict[str, np.ndarray]) -> None:
        self._initial = initial
        self.best: dict[str, np.ndarray] = {}  # weights of the best epoch, by their names in a file
        self.epoch_start = initial  # trainable weights at the start of the epoch
        self.norms: list[np.ndarray] = []  # of the updates, float32, call by call

    def update_norms(self) -> np.ndarray:
        """Returns the norm of every update so far, float32; empty where they are not kept."""
        return np.concatenate([np.empty(0, np.float32), *self.norms])

    def save(
        self, path: Path, key: str, progress: Progress, variables: list[keras.Variable]
    ) -> None:
        """Writes a checkpoint; the arguments are those of `checkpoint.save`."""
        self.norms = [self.update_norms()]
        groups = {"best": self.best, "updates": {"norms": self.norms[0]}}
        # At an epoch's start these are the variables, and in the first epoch the initial weights.
        if progress.step and progress.epoch:
            groups["epoch_start"] = self.epoch_start
        checkpoint.save(path, key, asdict(progress), variables, groups)

    def load(
        self, path: Path, key: str, model: keras.Model, variables: list[keras.Variable]
    ) -> Progress | None:
        """Takes up a checkpoint, and sets the variables to its own.

        Returns how far the training came; None where there is no such checkpoint.
        """
        loaded = checkpoint.load(path, key, variables)
        if loaded is None:
            return None
        progress, groups = Progress(**loaded[0]), loaded[1]
        self.best = groups.get("best", {})
        self.norms = list(groups.get("updates", {}).values())
        self.epoch_start = groups.get("epoch_start", self._initial)
        if progress.step == 0:
            self.epoch_start = models.weights(model)[0]
        return progress
