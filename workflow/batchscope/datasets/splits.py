"""Which examples train, which validate, which test.

In a stratified split the members of each class are shuffled by the split's seed, then dealt
to train, validation and test as `split_counts` of batchscope.catalogue.dataset_definitions says.
In one that is not (MNIST's) all examples are one group. Every split is then put in one shuffled
order, so that classes do not follow one another.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

import numpy as np

from batchscope.catalogue import dataset_definitions
from batchscope.errors import UserError
from batchscope.store import records

PARTS = records.SPLITS
_ORDER = 10**6  # follows the seed of the final order of train; no class has this index


def sizes(where: str, members: int, split: dict[str, Any], drawn: Collection[str]) -> list[int]:
    """Returns how many of a group's members go to train, validation and test.

    A part that is not drawn, because the source itself fixes it, gets none. Its fraction goes
    to train, and so does what is left where `train` has no number.

    Args:
        members: Members of the group (a class, or all examples).

    Raises:
        UserError: If a number is missing or needs more members than there are.
    """
    if not drawn:
        return [members, 0, 0]
    numbers = {part: _number(where, split, part) for part in drawn}
    fractions = all(number < 1 for number in numbers.values())
    rest = (1 if fractions else members) - sum(numbers.values())
    train = rest if split.get("train") is None else _number(where, split, "train")
    if fractions:
        fixed = [split.get(part) or 0 for part in PARTS[1:] if part not in drawn]
        train = min(train + sum(fixed), rest)
    parts = {"validation": 0, "test": 0, **numbers, "train": train}
    counts = [int(count) for count in dataset_definitions.split_counts(parts, members)]
    if sum(counts) > members or counts[0] < 1:
        listed = ", ".join(f"{part} {split[part]}" for part in PARTS if split.get(part))
        raise UserError(
            f"{where}.split: received {listed}, for {members} examples; fewer are expected, with "
            "at least one to train on."
        )
    return counts


def _number(where: str, split: dict[str, Any], part: str) -> float:
    number = split.get(part)
    if isinstance(number, bool) or not isinstance(number, int | float) or number <= 0:
        raise UserError(
            f"{where}.split.{part}: received {number!r}; a positive fraction or count is expected."
        )
    return number


def divided(
    where: str, images: np.ndarray, labels: np.ndarray, split: dict[str, Any]
) -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """Returns validation and test, divided from the examples that a source gives as its test set.

    Args:
        split: `validation`, how many are drawn to validate with, and `seed`.

    Raises:
        UserError: If none would be left to test with.
    """
    count = split["validation"]
    if count >= len(labels):
        raise UserError(
            f"{where}.split.validation: received {count}, for {len(labels)} test examples; fewer "
            "are expected."
        )
    order = np.random.default_rng([int(split.get("seed", 0)), _ORDER + PARTS.index("validation")])
    rows = order.permutation(len(labels))
    parts = {"validation": rows[:count], "test": rows[count:]}
    return {part: (images[picked], labels[picked]) for part, picked in parts.items()}


def assign(
    where: str,
    labels: np.ndarray,
    classes: int,
    split: dict[str, Any],
    drawn: Collection[str],
    stratified: bool,
) -> dict[str, np.ndarray]:
    """Returns the row numbers of train and of each drawn part, in their final order.

    Args:
        labels: Class of each example, shape (n,).
        split: Fractions or counts by part, and `seed`.

    Raises:
        UserError: If a part would stay empty, or a class would have nothing to train on.
    """
    seed, groups = int(split.get("seed", 0)), [np.arange(len(labels))]
    if stratified:
        groups = [np.flatnonzero(labels == index) for index in range(classes)]
    parts: dict[str, list[np.ndarray]] = {part: [] for part in PARTS}
    for index, group in enumerate(groups):
        rows = np.random.default_rng([seed, index]).permutation(group)
        counts = sizes(where, len(group), split, drawn)
        for part, start, count in zip(PARTS, np.cumsum([0, *counts]), counts, strict=False):
            parts[part].append(rows[start : start + count])
    result = {}
    for part in ("train", *drawn):
        order = np.random.default_rng([seed, _ORDER + PARTS.index(part)])
        result[part] = order.permutation(np.concatenate(parts[part]))
        if len(result[part]) == 0:
            raise UserError(
                f"{where}.split.{part}: received {split.get(part)}, which leaves none of "
                f"{len(labels)} examples; at least one is expected."
            )
    counts = np.bincount(labels[result["train"]], minlength=classes)
    if counts.min() == 0:
        raise UserError(
            f"{where}: class {counts.argmin()} has no example to train on; one or more of each "
            "class is expected."
        )
    return result
