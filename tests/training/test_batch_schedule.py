"""Trainings whose batch size rises: the updates by hand, known risks, the same bits."""

import signal
import subprocess

import keras
import numpy as np
import pytest
import tensorflow as tf

from batchscope.datasets import Examples
from batchscope.datasets.prepared import TaskInfo
from batchscope.study import names, tasks
from batchscope.study.batch_phases import Course
from batchscope.training import optimizers, step_loop
from digit_runs import assert_same_bits, door, run_name, train, wait_for_checkpoints, with_digits

RISING = {"batch_schedule": "steps", "batch_rises": 3, "batch_rises_from": 0.3}
RISING |= {"batch_size": 8, "largest_batch_size": 64}


def trained(factors, images, targets):
    """Weights after a training of a linear regression from 0, by our loop."""
    model = keras.Sequential([keras.Input(images.shape[1:]), keras.layers.Dense(1, use_bias=False)])
    model.set_weights([np.zeros((images.shape[1], 1), np.float32)])
    course = Course(factors, len(images))
    optimizer = optimizers.make_optimizer(factors, optimizers.make_schedule(factors, course))
    size, offset = (tf.Variable(item, dtype=tf.int32) for item in (factors["batch_size"], 0))
    batches = step_loop.Batches(size, offset=offset)
    task_info = TaskInfo(tasks.REGRESSION, deviations=(1.0,))
    examples = Examples(images, targets[:, None], 1.0, task_info)
    loop = step_loop.StepLoop(model, optimizer, examples, batches)
    for epoch in range(factors["epochs"]):
        order, start, totals = step_loop.epoch_order(0, epoch, len(images)), 0, step_loop.Totals()
        for segment in course.segments(epoch):
            batches.follow(segment)
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


def test_a_rising_batch_size_has_the_risk_of_a_falling_rate():
    """Of noisy linear regression both have the same risk within a constant (Meterez et al. 2025).

    Both use every example once, so that batches are independent. With Gaussian inputs of unit
    covariance in d dimensions the risk r follows, for rate eta, batch size B and noise of
    variance 1, r' = r ((1 - 2 eta)^2 + 4 eta^2 (d + 1) / B) + 4 eta^2 d / B.
    """
    risks, updates = [], []
    for largest in (64, 8):
        given = {**RISING, "learning_rate": 0.02, "epochs": 1, "largest_batch_size": largest}
        factors = names.parse_run(run_name(**given))
        course, risk = Course(factors, 4096), 10.0
        changes, sizes = course.rate_changes(), np.diff(course.example_positions(0))
        for update, size in enumerate(sizes):
            rate = factors["learning_rate"] * [item for at, item in changes if at <= update][-1]
            risk = risk * ((1 - 2 * rate) ** 2 + 44 * rate**2 / size) + 40 * rate**2 / size
        risks.append(risk)
        updates.append(course.updates(1))
    assert 0.5 < risks[0] / risks[1] < 2
    assert updates[0] < 0.6 * updates[1]


@pytest.mark.slow
def test_a_killed_ramp_ends_with_the_same_bits(digits, tmp_path):
    run = run_name(**RISING, optimizer="adam", evaluate_every=150, micro_batch_size=8)
    complete = with_digits(digits, tmp_path / "whole")
    done = train(complete, run)
    again = with_digits(digits, tmp_path / "again")
    arguments = ("train", "--results", str(again), "--run", run)
    arguments += ("--chunk-steps", "2", "--checkpoint-seconds", "0")
    process = door(*arguments, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    wait_for_checkpoints(process, again / "runs" / run, 20)
    process.send_signal(signal.SIGKILL)
    process.communicate(timeout=300)
    assert train(again, run)["resumed"] == 1
    assert_same_bits(complete / "runs" / run, again / "runs" / run)
    folders = [folder / "runs" / run for folder in (complete, again)]
    one, other = ((folder / "trajectory.csv").read_text() for folder in folders)
    assert one == other
    factors = names.parse_run(run)
    examples = len(np.load(next((complete / "data").glob("*/train_labels.npy"))))
    course = Course(factors, examples)
    assert done["steps_run"] == course.updates(3)
