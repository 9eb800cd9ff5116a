"""The recommended training as lines of Keras, and that Keras takes them."""

import math

import pytest

from batchscope.report import recommendation
from batchscope.study import run_factors

DEFAULTS = {name: factor.default for name, factor in run_factors.FACTORS.items()}
RUN = {**DEFAULTS, "batch_size": 32, "effective_learning_rate": 0.45, "optimizer": "sgd"}


def test_a_training_with_early_stopping():
    assert recommendation.keras_lines(RUN, 15, 3) == [
        "optimizer = keras.optimizers.SGD(learning_rate=0.45)",
        "model.compile(optimizer=optimizer, loss=loss)",
        "stop = keras.callbacks.EarlyStopping(patience=3, restore_best_weights=True)",
        "model.fit(x, y, batch_size=32, epochs=15, validation_data=validation, callbacks=[stop])",
    ]


@pytest.mark.parametrize(
    ("factors", "optimizer"),
    [
        (
            {"momentum": 0.9, "nesterov": True},
            "SGD(learning_rate=0.45, momentum=0.9, nesterov=True)",
        ),
        ({"optimizer": "adam", "beta_2": 0.99}, "Adam(learning_rate=0.45, beta_2=0.99)"),
        (
            {"optimizer": "adamw", "weight_decay": 0.1},
            "AdamW(learning_rate=0.45, weight_decay=0.1)",
        ),
    ],
)
def test_an_optimizer_has_the_constants_that_are_no_defaults(factors, optimizer):
    assert recommendation.keras_lines(RUN | factors, None, None)[0].endswith(f".{optimizer}")


def test_runs_that_were_trained_elsewhere_may_have_fewer_factors():
    factors = {"batch_size": 8.0, "learning_rate": 1}
    assert recommendation.keras_lines(factors, None, None) == []
    optimizer, _, fit = recommendation.keras_lines(factors | {"optimizer": "adam"}, None, None)
    assert optimizer == "optimizer = keras.optimizers.Adam(learning_rate=1)"
    assert fit == "model.fit(x, y, batch_size=8)"
    # Their tables have an empty column for every factor.
    factors = dict.fromkeys(RUN, math.nan) | {"batch_size": 8.0, "optimizer": "sgd"}
    optimizer, *_ = recommendation.keras_lines(factors, None, None)
    assert optimizer == "optimizer = keras.optimizers.SGD()"
    factors |= {"learning_rate": 0.5, "momentum": 0.9}
    optimizer, *_ = recommendation.keras_lines(factors, None, None)
    assert optimizer == "optimizer = keras.optimizers.SGD(learning_rate=0.5, momentum=0.9)"
    comment, *_ = recommendation.keras_lines(RUN | {"schedule": "cosine"}, 15, None)
    assert comment == "# also: schedule cosine"


def test_keras_makes_every_optimizer():
    library = pytest.importorskip("keras")
    for optimizer in run_factors.DEFAULT_CONSTANTS:
        factors = RUN | {"optimizer": optimizer, "weight_decay": 0.01}
        line, *_ = recommendation.keras_lines(factors, 15, 3)
        made = eval(line.partition(" = ")[2], {"keras": library})
        assert float(made.learning_rate) == pytest.approx(0.45), optimizer
