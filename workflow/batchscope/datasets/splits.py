"""Which examples train, which validate, which test.

In a stratified split the members of each class are shuffled by the split's seed, then dealt
to train, validation and test as `split_counts` of batchscope.catalogue.dataset_splits says.
In one that is not (MNIST's) all examples are one group. Every part is then put in one shuffled
order, so that classes do not follow one another.
"""

from collections.abc import Collection
from typing import Any

import numpy as np

from batchscope.catalogue import dataset_splits
from batchscope.datasets.raw import Pair
from batchscope.errors import unexpected
from batchscope.store.paths import SPLITS

_ORDER = 10**6  # follows the seed of the final order of train; no class has this index


def sizes(where: str, members: int, split: dict[str, Any], drawn: Collection[str]) -> list[int]:
    """Returns how many of a group's members go to train, validation and test.

    A part that is not drawn, because the source itself fixes it, gets none. Its fraction goes
    to train, and so does what is left where `train` has no number.
    """
    if not drawn:
        return [members, 0, 0]
    for part in drawn:
        if split.get(part) is None:
            raise unexpected(f"{where}.split.{part}", "nothing", "a fraction or count")
    numbers = {part: split[part] for part in drawn}
    fractions = all(number < 1 for number in numbers.values())
    rest = (1 if fractions else members) - sum(numbers.values())
    train = rest if split.get("train") is None else split["train"]
    if fractions:
        fixed = [split.get(part) or 0 for part in SPLITS[1:] if part not in drawn]
        train = min(train + sum(fixed), rest)
    parts = {"validation": 0, "test": 0, **numbers, "train": train}
    counts = [int(count) for count in dataset_splits.split_counts(parts, members)]
    if sum(counts) > members or counts[0] < 1:
        listed = ", ".join(f"{part} {split[part]}" for part in SPLITS if split.get(part))
        received = f"{listed}, for {members} examples"
        raise unexpected(f"{where}.split", received, "a smaller sum, with an example to train on,")
    return counts


def divided(where: str, tested: Pair, split: dict[str, Any]) -> dict[str, Pair]:
    """Returns validation and test: `split.validation` examples of a test set, and the others."""
    examples, labels = tested
    count = split["validation"]
    if count >= len(labels):
        received = f"{count}, for {len(labels)} test examples"
        raise unexpected(f"{where}.split.validation", received, "a smaller number")
    rows = _shuffler(split, "validation").permutation(len(labels))
    chosen = {"validation": rows[:count], "test": rows[count:]}
    return {part: (examples[picked], labels[picked]) for part, picked in chosen.items()}


def assign(
    where: str, groups: list[np.ndarray], split: dict[str, Any], drawn: Collection[str]
) -> dict[str, np.ndarray]:
    """Returns the row numbers of train and of each drawn part, in their final order.

    Args:
        groups: Row numbers of each class, or of all examples.
        split: Fractions or counts by part, and `seed`.
    """
    parts: dict[str, list[np.ndarray]] = {part: [] for part in SPLITS}
    for index, group in enumerate(groups):
        rows = np.random.default_rng([split.get("seed", 0), index]).permutation(group)
        ends = np.cumsum(sizes(where, len(group), split, drawn))
        for part, dealt in zip(SPLITS, np.split(rows, ends), strict=False):
            parts[part].append(dealt)
    result = {}
    for part in ("train", *drawn):
        result[part] = _shuffler(split, part).permutation(np.concatenate(parts[part]))
        if len(result[part]) == 0:
            received = f"{split.get(part)}, which leaves none of {sum(map(len, groups))} examples"
            raise unexpected(f"{where}.split.{part}", received, "at least one")
    return result


def _shuffler(split: dict[str, Any], part: str) -> np.random.Generator:
    return np.random.default_rng([split.get("seed", 0), _ORDER + SPLITS.index(part)])
