"""Words for the factors of optimizers, pieces and schedules in labels of series."""

import pytest

from batchscope.analysis import run_series
from batchscope.catalogue.optimizer_constants import DEFAULT


@pytest.mark.parametrize(
    ("factors", "words"),
    [
        ({"beta_2": DEFAULT}, "default beta 2"),
        ({"beta_2": 0.95, "weight_decay": DEFAULT}, "beta 2 0.95, default weight decay"),
        ({"micro_batch_size": 0}, "whole batches"),
        ({"micro_batch_size": 16}, "pieces of 16"),
        ({"beta_scaling": "half_life"}, "beta scaling half life"),
        (
            {"schedule": "cosine", "precision": "mixed_float16"},
            "schedule cosine, precision mixed float16",
        ),
    ],
)
def test_of_a_series(factors, words):
    assert run_series.describe(factors) == words
