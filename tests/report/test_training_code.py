"""The recommended training as lines of code: what they say, and that Keras takes them."""

from __future__ import annotations

import pytest

from batchscope.report import training_code
from batchscope.study import optimizer_constants, run_factors

DEFAULTS = {name: factor.default for name, factor in run_factors.FACTORS.items()}
RUN = {**DEFAULTS, "batch_size": 32, "effective_learning_rate": 0.45, "optimizer": "sgd"}


def keras(factors, *more):
    return training_code.lines(factors, *more)["Keras"]


def pytorch(factors, *more):
    return training_code.lines(factors, *more).get("PyTorch")


def test_a_training_with_early_stopping():
    assert keras(RUN, 15, 3) == [
        "optimizer = keras.optimizers.SGD(learning_rate=0.45)",
        "model.compile(optimizer=optimizer, loss=loss)",
        "stop = keras.callbacks.EarlyStopping(patience=3, restore_best_weights=True)",
        "model.fit(x, y, batch_size=32, epochs=15, validation_data=validation, callbacks=[stop])",
    ]
    loader, optimizer, loop, *_ = pytorch(RUN, 15, 3)
    assert loader.endswith("DataLoader(data, batch_size=32, shuffle=True)")
    assert optimizer == "optimizer = torch.optim.SGD(model.parameters(), lr=0.45)"
    assert loop.startswith("for epoch in range(15):  # stop after 3")


@pytest.mark.parametrize(
    ("factors", "of_keras", "of_pytorch"),
    [
        (
            {"momentum": 0.9, "nesterov": True},
            "SGD(learning_rate=0.45, momentum=0.9, nesterov=True)",
            "SGD(model.parameters(), lr=0.45, momentum=0.9, nesterov=True)",
        ),
        (
            {"optimizer": "adam", "beta_2": 0.99, "effective_learning_rate": 0.9},
            "Adam(learning_rate=0.9, beta_2=0.99)",
            "Adam(model.parameters(), lr=0.9, eps=1e-7, betas=(0.9, 0.99))",
        ),
        (
            {"optimizer": "adamw", "weight_decay": 0.1},
            "AdamW(learning_rate=0.45, weight_decay=0.1)",
            "AdamW(model.parameters(), lr=0.45, eps=1e-7, weight_decay=0.1, betas=(0.9, 0.999))",
        ),
    ],
)
def test_constants_have_the_names_of_each_library(factors, of_keras, of_pytorch):
    assert keras(RUN | factors, None, None)[0].endswith(f".{of_keras}")
    assert pytorch(RUN | factors, None, None)[1].endswith(f".{of_pytorch}")


def test_only_what_is_known_is_said():
    """Of a command, and of what these lines do not have."""
    known = {"batch_size": 8.0, "learning_rate": 1}
    assert keras(known, None, None) == ["model.fit(x, y, batch_size=8)"]
    assert len(pytorch(known, None, None)) == 1
    named = known | {"optimizer": "adam"}
    assert keras(named, None, None)[0] == "optimizer = keras.optimizers.Adam(learning_rate=1)"
    falling = RUN | {"schedule": "cosine"}
    assert keras(falling, 15, None)[0] == "# also: schedule cosine"
    assert pytorch(RUN | {"optimizer": "lion"}, 15, None) is None
    assert pytorch(RUN | {"optimizer": "adam", "weight_decay": 0.1}, 15, None) is None


@pytest.mark.parametrize("optimizer", sorted(optimizer_constants.CONSTANTS))
def test_keras_makes_every_optimizer(optimizer):
    library = pytest.importorskip("keras")
    line = keras(RUN | {"optimizer": optimizer, "weight_decay": 0.01}, 15, 3)[0]
    made = eval(line.partition(" = ")[2], {"keras": library})
    assert float(made.learning_rate) == pytest.approx(0.45)
