"""The state of an unfinished training on disk."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import keras
import numpy as np

from batchscope import disk, errors


def save(
    path: Path,
    key: str,
    progress: dict[str, Any],
    variables: list[keras.Variable],
    groups: dict[str, dict[str, np.ndarray]],
) -> None:
    """Writes a checkpoint atomically.

    Args:
        key: What the checkpoint belongs to; `load` takes it for nothing else.
        progress: JSON-like position of the training. Floats survive exactly.
        variables: Every variable that a step changes: weights, moving statistics, generators
            and the optimizer's.
    """
    members = {f"variable:{i}": variable.numpy() for i, variable in enumerate(variables)}
    for group, arrays in groups.items():
        members.update({f"{group}:{name}": value for name, value in arrays.items()})
    # Python's JSON writes NaN and the shortest exact text of a float, and reads both.
    members["progress"] = np.array(json.dumps({"key": key, **progress}))
    disk.write_arrays(path, members)


def load(
    path: Path, key: str, variables: list[keras.Variable]
) -> tuple[dict[str, Any], dict[str, dict[str, np.ndarray]]] | None:
    """Sets the variables to a checkpoint's and returns its progress and groups of arrays.

    Returns None, sets nothing, and says so, where it is damaged or belongs to something else:
    other code, another machine's half-written file. Returns None where there is no checkpoint.

    Raises:
        UserError: If it cannot be read, as while a disk of the network is away: it may be whole.
    """
    if not path.exists():
        return None
    try:
        members = disk.read_arrays(path, "progress")
        progress = json.loads(str(members["progress"]))
    except (errors.Damaged, ValueError):
        return _passed_over(path, "damaged")
    if progress.pop("key", None) != key:
        return _passed_over(path, "of another version")
    pairs = [(members.get(f"variable:{i}"), variable) for i, variable in enumerate(variables)]
    if any(value is None or value.shape != tuple(variable.shape) for value, variable in pairs):
        return _passed_over(path, "of another model")
    for value, variable in pairs:
        variable.assign(value)
    groups: dict[str, dict[str, np.ndarray]] = {}
    for member, array in members.items():
        group, separator, name = member.partition(":")
        if separator and group != "variable":
            groups.setdefault(group, {})[name] = array
    return progress, groups


def _passed_over(path: Path, why: str) -> None:
    print(f"{path}: passed over, since it is {why}.", flush=True)
