"""Where a training stands, and the checkpoint from which a killed one goes on."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import keras
import numpy as np

from batchscope import disk, errors

Arrays = dict[str, np.ndarray]


@dataclass
class Progress:
    """Where a training stands beside its variables: numbers, rows and arrays."""

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
    best: Arrays = field(default_factory=dict)  # weights of the best epoch, by names in a file
    # Trainable weights at the start of the epoch. A checkpoint leaves them out where they are its
    # variables, or the initial weights.
    epoch_start: Arrays = field(default_factory=dict)
    norms: list[np.ndarray] = field(default_factory=list)  # of the updates, call by call

    def update_norms(self) -> np.ndarray:
        """Returns the norm of every update so far, float32; empty where they are not kept."""
        self.norms = [np.concatenate([np.empty(0, np.float32), *self.norms])]
        return self.norms[0]


_ARRAYS = ("best", "epoch_start", "norms")


def save(path: Path, key: str, progress: Progress, variables: list[keras.Variable]) -> None:
    """Writes a checkpoint atomically.

    Args:
        key: What the checkpoint belongs to; `load` takes it for nothing else.
        variables: Every variable that a step changes: weights, moving statistics, generators
            and the optimizer's.
    """
    members = {f"variable:{i}": variable.numpy() for i, variable in enumerate(variables)}
    members |= {f"best:{name}": array for name, array in progress.best.items()}
    members["updates:norms"] = progress.update_norms()
    if progress.step and progress.epoch:
        members |= {f"epoch_start:{name}": array for name, array in progress.epoch_start.items()}
    numbers = {name: value for name, value in vars(progress).items() if name not in _ARRAYS}
    # Python's JSON writes NaN and the shortest exact text of a float, and reads both.
    members["progress"] = np.array(json.dumps({"key": key, **numbers}))
    disk.write_arrays(path, members)


def load(path: Path, key: str, variables: list[keras.Variable]) -> Progress | None:
    """Sets the variables to a checkpoint's and returns its progress.

    Returns None, sets nothing, and says so, where it is damaged or belongs to something else:
    other code, another machine's half-written file. Returns None where there is no checkpoint.

    Raises:
        UserError: If it cannot be read, as while a disk of the network is away: it may be whole.
    """
    if not path.exists():
        return None
    try:
        members = disk.read_arrays(path, "progress")
        numbers = json.loads(str(members.pop("progress")))
    except (errors.Damaged, ValueError):
        return _passed_over(path, "damaged")
    if numbers.pop("key", None) != key:
        return _passed_over(path, "of another version")
    values = [members.get(f"variable:{i}") for i in range(len(variables))]
    pairs = list(zip(values, variables, strict=True))
    if any(value is None or value.shape != tuple(variable.shape) for value, variable in pairs):
        return _passed_over(path, "of another model")
    for value, variable in pairs:
        variable.assign(value)
    groups: dict[str, Arrays] = {}
    for member, array in members.items():
        group, _, name = member.partition(":")
        groups.setdefault(group, {})[name] = array
    arrays = {name: groups.get(name, {}) for name in ("best", "epoch_start")}
    return Progress(**numbers, **arrays, norms=list(groups.get("updates", {}).values()))


def _passed_over(path: Path, why: str) -> None:
    print(f"{path}: passed over, since it is {why}.", flush=True)
