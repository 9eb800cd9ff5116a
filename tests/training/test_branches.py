"""Branches of a training: their updates by hand, known risks, and nothing moved."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from batchscope.core.errors import UserError
from batchscope.datasets import Examples
from batchscope.datasets.prepared import TaskInfo
from batchscope.measures.branches import critical_multiple
from batchscope.study import tasks
from batchscope.study.names import parse_run
from batchscope.study.registry import MEASURES
from batchscope.training import optimizers
from batchscope.training.branches import Branches, Window
from batchscope.training.step_loop import Batches, StepLoop, Totals
from digit_runs import run_name

SETTINGS = {"factors": (2, 4), "evaluations": 2, "window": 24}


def stem(images, targets, truth, **factors):
    """A linear regression from 0 whose loss is the distance from the truth, squared."""
    factors = parse_run(run_name(**factors))
    model = keras.Sequential([keras.Input(images.shape[1:]), keras.layers.Dense(1, use_bias=False)])
    model.set_weights([np.zeros((images.shape[1], 1), np.float32)])
    task_info = TaskInfo(tasks.REGRESSION, deviations=(1.0,))
    examples = Examples(images, targets[:, None], 1.0, task_info)
    batches, optimizer = Batches(factors["batch_size"]), optimizers.make_optimizer(factors)
    loop = StepLoop(model, optimizer, examples, batches)

    def validate():
        return float(np.sum((model.get_weights()[0][:, 0] - truth) ** 2))

    return (factors, model, optimizer, examples, batches, validate), loop


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
    _, model, adam, *_ = left
    variables = [*model.variables, *adam.variables]
    before = [variable.numpy() for variable in variables]
    window = Window.from_settings(SETTINGS, 4, 50)
    assert window == ((1, 2, 4), 4, 16, 2)
    following = np.resize(order[::-1], window.examples)
    result = Branches(*left, window).losses(following, 0.02)
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


def test_known_risks_of_a_noisy_quadratic():
    """The risk of linear regression follows a recursion, and so does the local critical size.

    With Gaussian inputs of unit covariance in d dimensions, for rate k eta and batch size k B,
    r' = r ((1 - 2 k eta)^2 + 4 k eta^2 (d + 1) / B) + 4 k eta^2 d s^2 / B: what noise adds per
    example is the same at every k, and what is lost to curvature grows with k.
    """
    dimension, rate, size, tolerance = 10, 0.05, 4, 0.06
    settings = {"factors": (2, 4, 8, 16), "evaluations": 1, "window": 128}

    def expected(factor):
        risk = float(dimension)
        for _ in range(128 // (size * factor)):
            step, spread = rate * factor, 4 * rate**2 * factor / size
            risk = risk * ((1 - 2 * step) ** 2 + spread * (dimension + 1)) + spread * dimension
        return risk

    images, targets, truth = regression(0, 60 * 128, dimension)
    left, _ = stem(images, targets, truth, batch_size=size, learning_rate=rate)
    branches = Branches(*left, Window.from_settings(settings, size, 128))
    orders = np.split(np.arange(60 * 128, dtype=np.int32), 60)
    losses = [branches.losses(order, rate) for order in orders]
    means, errors = np.mean(losses, axis=0), np.std(losses, axis=0, ddof=1) / np.sqrt(60)
    known = [expected(factor) for factor in (1, 2, 4, 8, 16)]
    assert np.all(np.abs(means - known) < 4 * errors)
    critical = [critical_multiple([1, 2, 4, 8, 16], item, tolerance) for item in (means, known)]
    assert critical[0] == critical[1] and 1 < critical[1] < 16


def test_half_of_the_progress_is_kept_at_the_noise_over_the_loss():
    """L' = L (1 - c / (1 + a / (L B))): the local critical size is a / L in closed form.

    In a short window the loss falls by c D L / (B + a / L), half of its most where B = a / L.
    """
    loss, noise, gain, examples = 0.5, 10.0, 0.0199, 64.0

    def after(size):
        left = loss
        for _ in range(round(examples / size * 16)):  # in sixteenths of an update
            left *= 1 - gain / 16 / (1 + noise / (left * size))
        return left

    sizes = [2 ** (power / 4) for power in range(-32, 29)]
    losses = [after(size) for size in sizes]
    result = critical_multiple(sizes, losses, (loss - losses[0]) / 2)
    assert result == pytest.approx(noise / loss, rel=0.2)


def test_a_branch_that_diverges_has_no_loss():
    images, targets, truth = regression(1, 64, 3)
    left, _ = stem(images, 1e18 * targets, truth, batch_size=4, learning_rate=1.0)
    window = Window.from_settings({"factors": (8,), "evaluations": 1, "window": 64}, 4, 64)
    losses = Branches(*left, window).losses(np.arange(64, dtype=np.int32), 1e12)
    assert np.isnan(losses[-1])
    assert np.isfinite(tf.convert_to_tensor(left[1].weights[0]).numpy()).all()


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
