"""Write and read the checkpoint of a training: its `Progress` and its variables.

A killed training continues from it with the same bits. Fields of `Progress` in JSON need no code.
"""

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

    epoch: int = 0  # number of completed epochs
    step: int = 0  # number of completed steps of the next epoch
    loss: float = 0.0  # sum over the examples of these steps
    scores: Any = 0  # sums over these examples, as in `Totals`
    epoch_seconds: float = 0.0  # seconds of these steps
    contended_seconds: float = 0.0  # seconds of all steps, while other jobs shared the machine
    evaluation_seconds: float = 0.0
    best_epoch: int = 0  # epoch with the lowest validation loss; 0 before the first epoch
    best_value: float = math.nan  # validation loss of the best epoch
    resumed: int = 0  # number of times that the training continued from a checkpoint
    history: list[dict[str, Any]] = field(default_factory=list)  # one row per completed epoch
    trajectory: list[dict[str, Any]] = field(default_factory=list)  # one row per evaluation
    best: Arrays = field(default_factory=dict)  # weights of the best epoch, by names in a file
    epoch_start: Arrays = field(default_factory=dict)  # trainable weights at the epoch's start
    norms: list[np.ndarray] = field(default_factory=list)  # norms of updates, one array per call

    def end_epoch(self, row: dict[str, Any], weights: Arrays) -> None:
        self.history.append(row)
        self.epoch += 1
        self.step, self.loss, self.scores, self.epoch_seconds = 0, 0.0, 0, 0.0
        self.epoch_start = weights

    def update_norms(self) -> np.ndarray:
        """Return the norm of every recorded update so far, float32."""
        self.norms = [np.concatenate([np.empty(0, np.float32), *self.norms])]
        return self.norms[0]


def save(path: Path, key: str, progress: Progress, variables: list[keras.Variable]) -> None:
    """Write a checkpoint atomically. The key identifies the run and the versions of libraries.

    The variables are all that a step changes: weights, moving statistics, generators and the
    optimizer's variables.
    """
    numbers = {"key": key, **vars(progress)}
    del numbers["norms"]
    groups = {
        "variable": {str(index): variable.numpy() for index, variable in enumerate(variables)},
        "best": numbers.pop("best"),
        "epoch_start": numbers.pop("epoch_start"),
        "updates": {"norms": progress.update_norms()},
    }
    members = {
        f"{group}:{name}": array
        for group, arrays in groups.items()
        for name, array in arrays.items()
    }
    # Python's JSON writes and reads NaN and the shortest exact text of a float.
    members["progress"] = np.array(json.dumps(numbers))
    disk.write_arrays(path, members)


def load(path: Path, key: str, variables: list[keras.Variable]) -> Progress | None:
    """Set the variables to the values of a checkpoint and return its progress.

    If the checkpoint is missing, damaged or has another key, set nothing and return None. Raise a
    `UserError` if the file cannot be read, because it may be intact.
    """
    if not path.exists():
        return None
    try:
        members = disk.read_arrays(path, "progress")
        numbers = json.loads(str(members.pop("progress")))
    except (errors.DamagedFileError, ValueError):
        return _ignore_file(path, "damaged")
    if numbers.pop("key", None) != key:
        return _ignore_file(path, "of another version")
    groups: dict[str, Arrays] = {"variable": {}, "best": {}, "epoch_start": {}, "updates": {}}
    for member, array in members.items():
        group, _, name = member.partition(":")
        groups[group][name] = array
    values = [groups["variable"].get(str(index)) for index in range(len(variables))]
    pairs = list(zip(values, variables, strict=True))
    if any(value is None or value.shape != tuple(variable.shape) for value, variable in pairs):
        return _ignore_file(path, "of another model")
    for value, variable in pairs:
        variable.assign(value)
    arrays = {name: groups[name] for name in ("best", "epoch_start")}
    return Progress(**numbers, **arrays, norms=list(groups["updates"].values()))


def _ignore_file(path: Path, reason: str) -> None:
    print(f"{path}: passed over, since it is {reason}.", flush=True)
