"""Branches of a training: their updates by hand, known risks, and nothing moved."""

from types import SimpleNamespace

import keras
import numpy as np
import pytest
import tensorflow as tf

from batchscope.core.errors import UserError
from batchscope.datasets import Examples
from batchscope.datasets.prepared import TaskInfo
from batchscope.measures.branched_training import Branches, Window
from batchscope.measures.branches import critical_multiple
from batchscope.study import tasks
from batchscope.study.names import parse_run
from batchscope.study.registry import MEASURES
from batchscope.training import optimizers
from batchscope.training.step_loop import StepLoop, Totals, UpdateSettings
from digit_runs import run_name

SETTINGS = {"factors": (2, 4), "evaluations": 2, "window": 24}


def stem(images, targets, truth, **factors):
    """A linear regression from 0 whose loss is the distance from the truth, squared."""
    factors = parse_run(run_name(**factors))
    model = keras.Sequential([keras.Input(images.shape[1:]), keras.layers.Dense(1, use_bias=False)])
    model.set_weights([np.zeros((images.shape[1], 1), np.float32)])
    task_info = TaskInfo(tasks.REGRESSION, deviations=(1.0,))
    examples = Examples(images, targets[:, None], 1.0, task_info)
    settings, optimizer = UpdateSettings(factors["batch_size"]), optimizers.make_optimizer(factors)
    loop = StepLoop(model, optimizer, examples, settings)

    def evaluate():
        return float(np.sum((model.get_weights()[0][:, 0] - truth) ** 2)), {}

    training = {
        "factors": factors,
        "model": model,
        "optimizer": optimizer,
        "update_settings": settings,
    }
    validation_loss = SimpleNamespace(evaluate=evaluate)
    return SimpleNamespace(training_set=examples, validation_loss=validation_loss, **training), loop


def regression(seed, examples, dimension):
    generator = np.random.default_rng(seed)
    images = generator.normal(size=(examples, dimension)).astype(np.float32)
    noise = generator.normal(size=examples)
    return images, (images @ np.ones(dimension) + noise).astype(np.float32), np.ones(dimension)


@pytest.mark.parametrize("optimizer", ["sgd", "adam"])
def test_updates_are_those_by_hand_and_nothing_moves(optimizer):
    images, targets, truth = regression(1, 50, 3)
    given = {"batch_size": 4, "learning_rate": 0.03, "optimizer": optimizer}
    left, loop = stem(images, targets, truth, **given)
    order = np.random.default_rng(0).permutation(50).astype(np.int32)
    loop.run(order, 0, 5, Totals())
    model, adam = left.model, left.optimizer
    variables = [*model.variables, *adam.variables]
    before = [variable.numpy() for variable in variables]
    window = Window.from_settings(SETTINGS, 4, 50)
    assert window == ((1, 2, 4), 4, 16, 2)
    following = np.resize(order[::-1], window.examples)
    result = Branches(left, window).losses(following, 0.02)
    for value, variable in zip(before, variables, strict=True):
        np.testing.assert_array_equal(value, variable.numpy())
    for factor, loss in zip(window.multiples, result, strict=True):
        weights, moments = before[0][:, 0].astype(float), [np.zeros(3)] * 2
        if optimizer == "adam":
            slots = {item.name: item.numpy() for item in adam.variables}
            names = [name for name in slots if "momentum" in name or "velocity" in name]
            moments = [slots[name][:, 0].astype(float) for name in sorted(names)]
        rate = 0.02 * (factor if optimizer == "sgd" else factor**0.5)
        losses, size, steps = [], 4 * factor, 5
        for part in np.split(following, 2):
            for at in range(0, len(part), size):
                batch = part[at : at + size]
                gradient = 2 * images[batch].T @ (images[batch] @ weights - targets[batch]) / size
                if optimizer == "sgd":
                    weights = weights - rate * gradient
                else:
                    mean, square = moments
                    moments = [0.9 * mean + 0.1 * gradient, 0.999 * square + 0.001 * gradient**2]
                    steps += 1
                    corrected = moments[0] / (1 - 0.9**steps), moments[1] / (1 - 0.999**steps)
                    weights = weights - rate * corrected[0] / (np.sqrt(corrected[1]) + 1e-7)
            losses.append(float(np.sum((weights - truth) ** 2)))
        assert loss == pytest.approx(sum(losses) / 2, rel=1e-4)


def test_a_branch_that_diverges_has_no_loss():
    images, targets, truth = regression(1, 64, 3)
    left, _ = stem(images, 1e18 * targets, truth, batch_size=4, learning_rate=1.0)
    window = Window.from_settings({"factors": (8,), "evaluations": 1, "window": 64}, 4, 64)
    losses = Branches(left, window).losses(np.arange(64, dtype=np.int32), 1e12)
    assert np.isnan(losses[-1])
    assert np.isfinite(tf.convert_to_tensor(left.model.weights[0]).numpy()).all()


@pytest.mark.parametrize(
    ("losses", "expected"),
    [
        ([1.0, 1.0, 1.0], 4),
        ([1.0, 1.2, 1.0], 4),  # the largest that is good enough, whatever lies below
        ([1.0, 0.5, 0.9], 2),
        ([1.0, 1.2, float("inf")], 1),
        ([float("inf"), 1.2, float("inf")], 2),
    ],
)
def test_critical_factor(losses, expected):
    assert critical_multiple([1, 2, 4], losses, 0.1) == expected


def test_a_batch_larger_than_the_training_set_is_refused():
    factors = {"batch_size": 16, "augmentation": "none"}
    with pytest.raises(UserError, match=r"branches.factors: received 4\b.* at most 3 "):
        MEASURES["branches"].check(factors, SETTINGS, 50)
    MEASURES["branches"].check({**factors, "augmentation": "crop"}, SETTINGS, 50)
