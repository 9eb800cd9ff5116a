"""Which examples train, validate and test."""

import numpy as np
import pytest

from batchscope.core.errors import UserError
from batchscope.datasets import splits
from prepared_data import SPLIT

FIFTHS = {"train": 0.6, "validation": 0.2, "test": 0.2}


@pytest.mark.parametrize(
    ("split", "members", "counts"),
    [
        ((0.6, 0.2, 0.2), 178, (108, 35, 35)),
        ((0.7, 0.2, 0.1), 10, (7, 2, 1)),
        ((0.3, 0.3, 0.3), 10, (3, 3, 3)),
    ],
)
def test_split_counts(split, members, counts):
    named = dict(zip(("train", "validation", "test"), split, strict=True))
    assert splits.split_counts(named, members) == counts


@pytest.mark.parametrize(
    ("split", "drawn", "expected"),
    [
        ({"validation": 0.2, "test": 0.1}, ("validation", "test"), [7, 2, 1]),
        ({"validation": 3}, ("validation",), [7, 3, 0]),
        # What the source itself gives for testing leaves its share to train.
        (FIFTHS, ("validation",), [8, 2, 0]),
        ({"train": 5, "validation": 2, "test": 9}, ("validation",), [5, 2, 0]),
        (FIFTHS, (), [10, 0, 0]),
    ],
)
def test_sizes_where_parts_are_missing_or_given(split, drawn, expected):
    assert splits.drawn_counts("here", 10, split, drawn) == expected


def test_a_stratified_split_by_hand():
    groups = [np.arange(0, 20, 2), np.arange(1, 20, 2)]
    rows = splits.draw_parts("here", groups, SPLIT | {"seed": 7}, ("validation", "test"))
    zeros, ones = (np.random.default_rng([7, index]).permutation(groups[index]) for index in (0, 1))
    order = np.random.default_rng([7, 10**6])
    assert rows["train"].tolist() == order.permutation([*zeros[:6], *ones[:6]]).tolist()
    assert set(rows["validation"]) == {*zeros[6:8], *ones[6:8]}
    assert set(rows["test"]) == {*zeros[8:], *ones[8:]}


def test_a_part_that_would_stay_empty_is_refused():
    groups = [np.arange(2), np.arange(2, 4)]
    with pytest.raises(UserError, match="split.validation: received 0.2, which leaves none of 4"):
        splits.draw_parts("here", groups, SPLIT, ("validation", "test"))
