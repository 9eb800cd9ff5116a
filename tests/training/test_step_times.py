"""The seconds of a step, on examples that only look like those of the data set."""

import pytest

from batchscope.datasets.model_inputs import ModelInput
from batchscope.study import run_factors
from batchscope.training import step_times

# A rate at which a loss diverges.
CORE = {"learning_rate": 1e20, "optimizer": "sgd", "epochs": 1, "seed": 0, "batch_size": 8}


@pytest.mark.parametrize(
    ("model", "look"),
    [
        ("small_cnn", ModelInput((8, 8, 1), 10)),
        ("mlp", ModelInput((10,), 1, "rows", task="regression")),
        ("mlp", ModelInput((10,), 4, "rows", task="multi_label")),
        ("tiny_transformer", ModelInput((16,), 12, "tokens")),
    ],
)
def test_every_kind_of_example_is_timed(model, look, monkeypatch):
    monkeypatch.setattr(step_times, "_MIN_SECONDS", 0.001)
    frozen = {name: factor.default for name, factor in run_factors.FACTORS.items()}
    assert 0 < step_times.step_seconds({**frozen, **CORE, "model": model}, look, None) < 60
