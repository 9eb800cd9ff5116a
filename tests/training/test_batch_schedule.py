"""Trainings whose batch size rises: the updates by hand, known risks, the same bits."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from batchscope.datasets import Examples
from batchscope.datasets.prepared import TaskInfo
from batchscope.study import names, tasks
from batchscope.study.batch_phases import Course
from batchscope.training import optimizers, step_loop
from digit_runs import run_name

RISING = {"batch_schedule": "steps", "batch_rises": 3, "batch_rises_from": 0.3}
RISING |= {"batch_size": 8, "largest_batch_size": 64}


def trained(factors, images, targets):
    """Weights after a training of a linear regression from 0, by our loop."""
    model = keras.Sequential([keras.Input(images.shape[1:]), keras.layers.Dense(1, use_bias=False)])
    model.set_weights([np.zeros((images.shape[1], 1), np.float32)])
    course = Course(factors, len(images))
    optimizer = optimizers.make_optimizer(factors, optimizers.make_schedule(factors, course))
    size, offset = (tf.Variable(item, dtype=tf.int32) for item in (factors["batch_size"], 0))
    settings = step_loop.UpdateSettings(size, offset=offset)
    task_info = TaskInfo(tasks.REGRESSION, deviations=(1.0,))
    examples = Examples(images, targets[:, None], 1.0, task_info)
    loop = step_loop.StepLoop(model, optimizer, examples, settings)
    for epoch in range(factors["epochs"]):
        order, start, totals = step_loop.epoch_order(0, epoch, len(images)), 0, step_loop.Totals()
        for segment in course.segments(epoch):
            settings.set_segment(segment)
            _, totals, _, _ = loop.run(order, start, segment.stop, totals)
            start = segment.stop
    return model.get_weights()[0][:, 0]


def by_hand(factors, images, targets):
    """The same by numpy, batch after batch by the definition of the phases."""
    course, weights, update = Course(factors, len(images)), np.zeros(images.shape[1]), 0
    changes = course.rate_changes()
    for epoch in range(factors["epochs"]):
        order, used = step_loop.epoch_order(0, epoch, len(images)), course.example_positions(epoch)
        for start, stop in zip(used, used[1:], strict=False):
            rate = factors["learning_rate"] * [item for at, item in changes if at <= update][-1]
            batch = order[start:stop]
            errors = images[batch] @ weights - targets[batch]
            weights = weights - rate * 2 * images[batch].T @ errors / len(batch)
            update += 1
    return weights


@pytest.fixture(scope="module")
def regression():
    generator = np.random.default_rng(3)
    images = generator.normal(size=(203, 5)).astype(np.float32)
    noise = generator.normal(size=203)
    return images, (images @ np.arange(1, 6) + noise).astype(np.float32)


@pytest.mark.parametrize(
    "given",
    [
        RISING,
        {**RISING, "largest_batch_size": 16},  # the rate falls too
        {**RISING, "batch_schedule": "seesaw", "schedule": "cosine", "batch_rises": 1}
        | {"batch_rises_from": 0.5, "warmup_epochs": 0},
    ],
)
def test_updates_are_those_by_hand(regression, given):
    factors = names.parse_run(run_name(learning_rate=0.01, epochs=3, **given))
    result = trained(factors, *regression)
    np.testing.assert_allclose(result, by_hand(factors, *regression), rtol=2e-4)
