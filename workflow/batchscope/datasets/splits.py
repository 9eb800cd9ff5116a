"""Shares of a split in, row numbers of train, validation and test out.

The members of each class are shuffled by the split's seed, then dealt to train, validation and test
in this order. Counts are per class. Fractions apply to each class and are rounded down for
validation and test (and for train if the three sum to less than 1). Without classes, as in a
regression, all examples are dealt at once, and counts are total numbers. Every part is shuffled at
the end, so that it is not sorted by class.

`Shares.problems` checks a definition before files are read, `drawn_counts` checks the real counts.
A new kind of split is a model that derives from `Shares`.
"""

import math
from collections.abc import Collection, Iterator, Mapping
from typing import Annotated, Any

import numpy as np
from pydantic import AfterValidator, Field

from batchscope.core.errors import unexpected
from batchscope.core.problems import Place, Problem, received
from batchscope.datasets.source import integer_if_whole, is_none
from batchscope.store.paths import SPLITS
from batchscope.study.model import Model, Positive, Seed

# Name of a folder, column or array, in lower case -> its part.
PART_OF_NAME = {
    **dict.fromkeys(("train", "training"), "train"),
    **dict.fromkeys(("validation", "val", "valid", "dev"), "validation"),
    **dict.fromkeys(("test", "testing"), "test"),
}

_FINAL_ORDER_SEED = 10**6  # seed of the final order of train, above the index of any class
_ROUNDING = 1e-9  # Sums and products of fractions such as 0.1 are not exact.

# A fraction below 1, or a count per class.
PartShare = Annotated[Positive, AfterValidator(integer_if_whole)]
OptionalPartShare = Annotated[PartShare | None, Field(exclude_if=is_none)]


def split_counts(shares: Mapping[str, float], members: int) -> tuple[int, int, int]:
    """Return the numbers of members of a class in train, validation and test."""
    train, validation, test = (shares[part] for part in SPLITS)
    if train >= 1:
        return train, validation, test
    counts = [math.floor(share * members + _ROUNDING) for share in (train, validation, test)]
    if train + validation + test >= 1 - _ROUNDING:
        counts[0] = members - counts[1] - counts[2]
    return tuple(counts)


class Shares(Model):
    """Fractions or counts per class, by part."""

    def training_size(self, members: tuple[int, ...]) -> int:
        return sum(split_counts(dict(self), count)[0] for count in members)

    def problems(
        self, place: Place, members: tuple[int, ...], has_classes: bool = True
    ) -> Iterator[Problem]:
        """Yield at most one problem.

        Args:
            members: Numbers of members of each class, or of the data set; empty if unknown.
        """
        shares = {part: share for part, share in self if part in SPLITS and share is not None}
        total, per_class = sum(shares.values()), " per class" if has_classes else ""
        are_fractions = all(share < 1 for share in shares.values())
        if not are_fractions and not all(isinstance(share, int) for share in shares.values()):
            text = f"received {', '.join(map(str, shares.values()))}; fractions below 1 or counts"
            yield Problem(place, f"{text}{per_class}, for all three, are expected.")
        elif are_fractions and total > 1 + _ROUNDING:
            text = f"received fractions that sum to {total:g}; at most 1 is expected."
            yield Problem(place, text)
        elif not are_fractions and members and total > min(members):
            text = f"received {total} examples{per_class}; at most {min(members)} are expected."
            yield Problem(place, text)
        elif are_fractions and members:
            counts = [split_counts(dict.fromkeys(SPLITS, 0) | shares, count) for count in members]
            counts_by_part = dict(zip(SPLITS, zip(*counts, strict=True), strict=True))
            if empty_parts := [part for part in shares if not any(counts_by_part[part])]:
                part = empty_parts[0]
                yield received((*place, part), shares[part], "one example or more")


class Split(Shares):
    """Three fractions (0.6, 0.2, 0.2) or three counts per class (600, 200, 200).

    Without classes, as in a regression, counts are examples in all.

    All three parts are needed, because data that select weights must not give the reported results.
    """

    train: PartShare
    validation: PartShare
    test: PartShare
    seed: Seed = 0


FIFTHS = Split(train=0.6, validation=0.2, test=0.2)


class PartialSplit(Shares):
    """Shares of the training part that become the parts that a file or folder does not have."""

    train: OptionalPartShare = None
    validation: OptionalPartShare = None
    test: OptionalPartShare = None
    seed: Seed = 0


def drawn_counts(
    place: str, members: int, split: dict[str, Any], drawn: Collection[str]
) -> list[int]:
    """Return the numbers of a group's members that are drawn for train, validation and test.

    A part that the source contains is not drawn: its number is 0, and its fraction goes to train.
    If the split has no share of train, train gets all remaining members.
    """
    if not drawn:
        return [members, 0, 0]
    for part in drawn:
        if split.get(part) is None:
            raise unexpected(f"{place}.split.{part}", "nothing", "a fraction or count")
    parts = dict.fromkeys(SPLITS, 0) | {part: split[part] for part in drawn}
    are_fractions = all(number < 1 for number in parts.values())
    parts["train"] = split.get("train") or (1 if are_fractions else members) - sum(parts.values())
    if are_fractions and split.get("train"):
        parts["train"] += sum(split.get(part) or 0 for part in SPLITS[1:] if part not in drawn)
    counts = list(split_counts(parts, members))
    if sum(counts) > members or counts[0] < 1:
        listed = ", ".join(f"{part} {split[part]}" for part in SPLITS if split.get(part))
        received = f"{listed}, for {members} examples"
        raise unexpected(f"{place}.split", received, "a smaller sum, with an example to train on,")
    return counts


def draw_parts(
    place: str, groups: list[np.ndarray], split: dict[str, Any], drawn: Collection[str]
) -> dict[str, np.ndarray]:
    """Draw the row numbers of train and of each drawn part, in their final order.

    Args:
        groups: Row numbers of each class, or of all examples.
        split: Fractions or counts by part, and `seed`.
    """
    parts: dict[str, list[np.ndarray]] = {part: [] for part in SPLITS}
    for index, group in enumerate(groups):
        rows = np.random.default_rng([split.get("seed", 0), index]).permutation(group)
        ends = np.cumsum(drawn_counts(place, len(group), split, drawn))
        for part, dealt in zip(SPLITS, np.split(rows, ends), strict=False):
            parts[part].append(dealt)
    ordered = {}
    for part in ("train", *drawn):
        ordered[part] = order_generator(split, part).permutation(np.concatenate(parts[part]))
        if len(ordered[part]) == 0:
            received = f"{split.get(part)}, which leaves none of {sum(map(len, groups))} examples"
            raise unexpected(f"{place}.split.{part}", received, "at least one")
    return ordered


def order_generator(split: dict[str, Any], part: str) -> np.random.Generator:
    return np.random.default_rng([split.get("seed", 0), _FINAL_ORDER_SEED + SPLITS.index(part)])
