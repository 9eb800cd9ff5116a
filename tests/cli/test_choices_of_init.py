"""What `init` chooses before any training: an optimizer, and a batch size for the range test."""

from __future__ import annotations

from batchscope.host import tensorflow_start

tensorflow_start.start(1, "cpu")

import keras
import pytest

from batchscope.cli import init, range_test


class Own(keras.optimizers.SGD):
    pass


@pytest.mark.parametrize(
    ("name", "compiled", "expected"),
    [
        (None, None, {"optimizer": "adam"}),
        ("sgd", keras.optimizers.Adam(), {"optimizer": "sgd"}),
        (None, keras.optimizers.Adam(0.5), {"optimizer": "adam"}),
        (None, keras.optimizers.RMSprop(), {"optimizer": "rmsprop"}),
        (
            None,
            keras.optimizers.SGD(1.0, momentum=0.5, nesterov=True),
            {"optimizer": "sgd", "momentum": 0.5, "nesterov": True},
        ),
        (
            None,
            keras.optimizers.AdamW(beta_1=0.5, weight_decay=0.25),
            {"optimizer": "adamw", "weight_decay": 0.25, "beta_1": 0.5},
        ),
        (None, Own(), {"optimizer": "adam"}),
    ],
)
def test_an_optimizer_is_named_or_compiled_or_adam(name, compiled, expected, capsys):
    assert init._optimizer_factors(name, compiled) == expected
    assert ("Own" in capsys.readouterr().out) == isinstance(compiled, Own)


@pytest.mark.parametrize(
    ("sizes", "seconds", "middle"),
    [
        ([4, 16, 64, 256], {64: 1e-6}, 64),
        ([4, 16, 64, 256], {64: 1.0}, 16),
        ([4, 16, 64, 256], {}, 16),
        ([1, 2], {2: 1e-6}, 2),
        ([8], {8: 1.0}, 8),
    ],
)
def test_the_range_test_takes_a_middle_size_whose_updates_are_fast(sizes, seconds, middle):
    assert range_test._middle_size(sizes, seconds) == middle
