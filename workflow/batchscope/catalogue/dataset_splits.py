"""How data sets are divided in train, validation and test.

The members of each class are shuffled, then dealt to train, validation and test in this order.
Counts are per class; fractions are of each class, rounded down for validation and test (and for
train where the three sum to less than 1). Where there are no classes, as in a regression, all
examples are dealt at once, and counts are examples in all.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Annotated

from pydantic import AfterValidator, Field

from batchscope.catalogue.fields import Section, Seed, one_of, whole
from batchscope.catalogue.parameters import Parameter
from batchscope.problems import Place, Problem, received

_PARTS = ("train", "validation", "test")
MNIST_TEST = 10_000  # images


def exact(value: float) -> int | float:
    return int(value) if value == int(value) else value


Share = Annotated[
    float,
    Parameter(kind="float", above=0, wanted="a fraction below 1 or a count (per class)"),
    AfterValidator(exact),
]
Fraction = Annotated[float, Parameter(kind="float", above=0, below=1)]


def split_counts(shares: Mapping[str, float], members: int) -> tuple[int, int, int]:
    """Returns how many members of a class go to train, validation and test, by their shares."""
    train, validation, test = (shares[part] for part in _PARTS)
    if train >= 1:
        return train, validation, test
    counts = [math.floor(share * members + 1e-9) for share in (train, validation, test)]
    if train + validation + test >= 1 - 1e-9:
        counts[0] = members - counts[1] - counts[2]
    return tuple(counts)


# Left out of a resolved definition where it is.
_MAY_LACK = Field(None, exclude_if=lambda value: value is None)


class _Shares(Section):
    """Fractions or counts per class, by part."""

    def training_size(self, members: tuple[int, ...]) -> int:
        return sum(split_counts(dict(self), count)[0] for count in members)

    def problems(
        self, place: Place, members: tuple[int, ...], classes: bool = True
    ) -> Iterator[Problem]:
        """Yields at most one problem, given the members of known classes: first of the whole.

        Args:
            classes: Whether they are of classes; else `members` are all examples.
        """
        per_class, of = (
            (" per class", ", the members of the smallest class") if classes else ("", "")
        )
        shares = {part: share for part, share in self if part in _PARTS and share is not None}
        total, fractions = sum(shares.values()), all(share < 1 for share in shares.values())
        if not fractions and not all(isinstance(share, int) for share in shares.values()):
            text = f"received {', '.join(map(str, shares.values()))}; fractions below 1 or whole "
            yield Problem(place, f"{text}counts{per_class}, for all three, are expected.")
        elif fractions and total > 1 + 1e-9:
            text = f"received fractions that sum to {total:g}; at most 1 is expected."
            yield Problem(place, text)
        elif not fractions and members and total > min(members):
            text = f"received {total} examples{per_class}; at most {min(members)} are expected{of}."
            yield Problem(place, text)
        elif members:
            # A part without a share is the rest of train, or is not drawn.
            every = dict.fromkeys(_PARTS, 0) | shares
            dealt = zip(*(split_counts(every, count) for count in members), strict=True)
            empty = [part for part, counts in zip(_PARTS, dealt, strict=True) if not any(counts)]
            for part in [part for part in empty if part in shares][:1]:
                text = f"received {shares[part]}; a part of at least one example is expected."
                yield Problem((*place, part), text)


class Split(_Shares):
    """Three fractions (0.6, 0.2, 0.2) or three counts per class (600, 200, 200).

    Where there are no classes, as in a regression, counts are examples in all.

    What stops a training or picks weights is never what is reported: all three are needed.
    """

    train: Share
    validation: Share
    test: Share
    seed: Seed = 0


class NpzSplit(_Shares):
    """How the parts that a file or folder does not have are taken from its training part."""

    train: Share = _MAY_LACK
    validation: Share = _MAY_LACK
    test: Share = _MAY_LACK
    seed: Seed = 0


class TextSplit(_Shares):
    """Three fractions by position: the first part trains, the next validates, the last tests.

    No window lies in two of them.
    """

    train: Fraction
    validation: Fraction
    test: Fraction


class MnistSplit(Section):
    """How many images validate, and where they are taken from.

    From `train`, the 60,000 training images (of them those that `per_class` keeps), or from
    `test`, the 10,000 test images: then all of the former train and fewer of the latter test.
    """

    validation: whole(1, 59_999) = 10_000
    """Images that validate, in all."""
    validation_from: one_of("train", "test") = Field(
        "train", exclude_if=lambda value: value == "train"
    )
    """Where they are taken from."""
    seed: Seed = 0

    def training_size(self, members: tuple[int, ...]) -> int:
        return sum(members) - (self.validation if self.validation_from == "train" else 0)

    def problems(
        self, place: Place, members: tuple[int, ...], classes: bool = True
    ) -> Iterator[Problem]:
        """Yields what is wrong where the classes have so many training images, if known."""
        source = self.validation_from
        images = sum(members) if source == "train" else MNIST_TEST
        if members and self.validation >= images:
            wanted = f"at most {images - 1} of the {images} {source} images"
            yield received((*place, "validation"), self.validation, wanted)
