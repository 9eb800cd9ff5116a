"""Progress of a training, and the checkpoint that a killed training continues from."""

import json
import math
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import keras
import numpy as np

from batchscope.core import disk, errors
from batchscope.store.weights import Arrays


@dataclass
class Progress:
    """Progress of a training without its variables."""

    epoch: int = 0
    step: int = 0  # done of the next epoch
    loss: float = 0.0  # sum over the examples of these steps
    scores: Any = 0  # sums over these examples, as in `Totals`
    epoch_seconds: float = 0.0  # of these steps
    contended_seconds: float = 0.0  # of all steps; other jobs shared the machine
    evaluation_seconds: float = 0.0
    best_epoch: int = 0  # 0 before there is one
    best_value: float = math.nan  # its validation loss
    resumed: int = 0  # times that the training continued from a checkpoint
    history: list[dict[str, Any]] = field(default_factory=list)  # a row per completed epoch
    trajectory: list[dict[str, Any]] = field(default_factory=list)  # a row per evaluation
    best: Arrays = field(default_factory=dict)  # weights of the best epoch, by names in a file
    # Trainable weights at the start of the epoch. A checkpoint leaves them out if they are its
    # variables, or the initial weights.
    epoch_start: Arrays = field(default_factory=dict)
    norms: list[np.ndarray] = field(default_factory=list)  # norms of updates, call by call

    def end_epoch(self, row: dict[str, Any], weights: Arrays) -> None:
        self.history.append(row)
        self.epoch += 1
        self.step, self.loss, self.scores, self.epoch_seconds = 0, 0.0, 0, 0.0
        self.epoch_start = weights

    def update_norms(self) -> np.ndarray:
        """Return the norm of every update so far, float32; empty if they are not recorded."""
        self.norms = [np.concatenate([np.empty(0, np.float32), *self.norms])]
        return self.norms[0]


def save(path: Path, key: str, progress: Progress, variables: list[keras.Variable]) -> None:
    """Write a checkpoint atomically.

    The variables are all that a step changes: weights, moving statistics, generators and the
    optimizer's variables.
    """
    numbers = {"key": key, **vars(progress)}
    best, start, _ = (numbers.pop(name) for name in ("best", "epoch_start", "norms"))
    groups = {
        "variable": {str(index): variable.numpy() for index, variable in enumerate(variables)},
        "best": best,
        "updates": {"norms": progress.update_norms()},
        "epoch_start": start if progress.step and progress.epoch else {},
    }
    members = {
        f"{group}:{name}": array
        for group, arrays in groups.items()
        for name, array in arrays.items()
    }
    # Python's JSON writes NaN and the shortest exact text of a float, and reads both.
    members["progress"] = np.array(json.dumps(numbers))
    disk.write_arrays(path, members)


def load(path: Path, key: str, variables: list[keras.Variable]) -> Progress | None:
    """Set the variables to a checkpoint's and return its progress.

    Return None, and set nothing, without a checkpoint and for one that is damaged or belongs to
    something else. Raise `UserError` if it cannot be read, because it may be whole.
    """
    if not path.exists():
        return None
    try:
        members = disk.read_arrays(path, "progress")
        numbers = json.loads(str(members.pop("progress")))
    except (errors.DamagedFileError, ValueError):
        return _passed_over(path, "damaged")
    if numbers.pop("key", None) != key:
        return _passed_over(path, "of another version")
    groups: dict[str, Arrays] = {"variable": {}, "best": {}, "epoch_start": {}, "updates": {}}
    for member, array in members.items():
        group, _, name = member.partition(":")
        groups[group][name] = array
    values = [groups["variable"].get(str(index)) for index in range(len(variables))]
    pairs = list(zip(values, variables, strict=True))
    if any(value is None or value.shape != tuple(variable.shape) for value, variable in pairs):
        return _passed_over(path, "of another model")
    for value, variable in pairs:
        variable.assign(value)
    arrays = {name: groups[name] for name in ("best", "epoch_start")}
    return Progress(**numbers, **arrays, norms=list(groups["updates"].values()))


def _passed_over(path: Path, why: str) -> None:
    print(f"{path}: passed over, since it is {why}.", flush=True)
