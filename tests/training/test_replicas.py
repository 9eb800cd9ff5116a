"""Data parallelism: a batch divided among devices is the batch.

Logical devices must exist before TensorFlow runs, so a process of its own runs the tests' code.
"""

import json
import os
import subprocess
import sys

import pytest

from batchscope.core import project_files
from digit_runs import arrays, run_name, train, with_digits

pytestmark = pytest.mark.slow

# `trained` makes a model and trains it on noise; 42 examples in batches of 10 end in a batch of
# 2, and neither is a multiple of 4.
PREAMBLE = """
from batchscope.host import tensorflow_start
tensorflow_start.start(replicas=4)
import keras
import numpy as np
from batchscope.study import run_factors
from batchscope.datasets import Examples
from batchscope.training import checkpoint, models, optimizers, replicas, step_loop
from keras import layers

random = np.random.default_rng(5)
IMAGES = random.integers(0, 17, (42, 8, 8, 1), np.uint8)
LABELS = random.integers(0, 3, 42)


def made(count, build, images=IMAGES, labels=LABELS, scale=1 / 16, batch_size=10, **more):
    given = {name: factor.default for name, factor in run_factors.FACTORS.items()}
    given |= {"replicas": count, "batch_size": batch_size, "base_batch_size": batch_size}
    given |= {"optimizer": "sgd", "momentum": 0.9, "learning_rate": 0.05, **more}
    keras.utils.clear_session(free_memory=False)
    keras.utils.set_random_seed(3)
    with replicas.scope(given):
        model = build()
        optimizer = optimizers.make_optimizer(given)
    examples, batches = Examples(images, labels, scale), step_loop.Batches(batch_size)
    return model, optimizer, replicas.make_loop(given, model, optimizer, examples, batches, True)


def epoch(steps, number=0, batch_size=10):
    stop = step_loop.steps_per_epoch(steps.examples, batch_size)
    order = step_loop.epoch_order(0, number, steps.examples)
    done, totals, _, norms = steps.run(order, 0, stop, step_loop.Totals())
    assert done == stop
    return totals, norms


def trained(count, build, batch_size=10, **more):
    model, _, steps = made(count, build, batch_size=batch_size, **more)
    totals, norms = epoch(steps, batch_size=batch_size)
    weights = [variable.numpy() for variable in model.weights]
    return {"weights": weights, "totals": totals, "norms": norms, "model": model}


def same(one, other):
    return all(np.array_equal(a, b) for a, b in zip(one["weights"], other["weights"], strict=True))


def close(one, other):
    for a, b in zip(one["weights"], other["weights"], strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-4, atol=2e-6)
    np.testing.assert_allclose(one["totals"].loss, other["totals"].loss, rtol=1e-6)
    assert one["totals"].scores == other["totals"].scores
    np.testing.assert_allclose(one["norms"], other["norms"], rtol=1e-4)
"""


# Runs each line of its input, code as JSON, and answers with what it raised.
WORKER = """
import json, sys, traceback
for line in sys.stdin:
    try:
        exec(json.loads(line), dict(globals()))
        raised = ""
    except Exception:
        raised = traceback.format_exc()
    print(json.dumps(raised), flush=True)
"""


@pytest.fixture(scope="module")
def passes():
    """A function that runs code after the preamble and fails as it does."""
    worker = subprocess.Popen(
        [sys.executable, "-c", PREAMBLE + WORKER],
        env={**os.environ, "PYTHONPATH": str(project_files.WORKFLOW)},
        text=True,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )

    def passes(code: str) -> None:
        worker.stdin.write(json.dumps(code) + "\n")
        worker.stdin.flush()
        raised = json.loads(worker.stdout.readline())
        assert not raised, raised

    yield passes
    worker.stdin.close()
    assert worker.wait(60) == 0


# What is built, and what it is trained with.
CASES = {
    "convolutions with Adam": """
given = {"optimizer": "adam", "momentum": 0.0, "learning_rate": 0.001}

def build():
    return keras.Sequential([
        keras.Input((8, 8, 1)), layers.Conv2D(8, 3, 2, activation="relu"), layers.Flatten(),
        layers.Dense(3, activation="softmax"),
    ])
""",
    # Every position has a label; the gradient of the embedding is one of looked-up rows.
    "sequences": """
given = {
    "scale": 1.0, "images": random.integers(0, 5, (42, 6)).astype(np.int32),
    "labels": random.integers(0, 5, (42, 6)),
}

def build():
    return keras.Sequential([
        keras.Input((6,), dtype="int32"), layers.Embedding(5, 4),
        layers.Dense(5, activation="softmax"),
    ])
""",
    # A penalty counts once, and what is frozen stays.
    "penalties, constraints and frozen layers": """
given = {}

def build():
    return keras.Sequential([
        keras.Input((8, 8, 1)), layers.Flatten(), layers.Dense(5, trainable=False),
        layers.Dense(3, kernel_regularizer=keras.regularizers.L2(0.5), bias_regularizer="l1",
                     kernel_constraint="unit_norm", activation="softmax"),
    ])
""",
}


@pytest.mark.parametrize("case", CASES)
def test_replicas_end_with_the_weights_of_one_device(passes, case):
    passes(
        CASES[case]
        + """
one, two, four = (trained(count, build, **given) for count in (1, 2, 4))
close(one, two)
close(one, four)
assert same(two, trained(2, build, **given))  # the same bits twice
for layer, other in zip(one["model"].layers, four["model"].layers, strict=True):
    for weights in zip(layer.non_trainable_weights, other.non_trainable_weights, strict=True):
        assert np.array_equal(*weights)
"""
    )


def test_an_empty_shard_adds_exactly_nothing(passes):
    # With batch normalisation: what one example alone would do to it must not be seen either.
    passes(
        """
def build():
    return keras.Sequential([
        keras.Input((8, 8, 1)), layers.Conv2D(4, 3, name="conv"),
        layers.BatchNormalization(name="norm"), layers.Flatten(),
        layers.Dense(3, kernel_regularizer="l2", name="output", activation="softmax"),
    ])

given = {"images": IMAGES[:6], "labels": LABELS[:6], "batch_size": 2}
two, four = trained(2, build, **given), trained(4, build, **given)
assert same(two, four)
assert two["totals"] == four["totals"]
"""
    )


def test_batch_normalisation_sees_shards_and_its_mean_the_batch(passes):
    passes(
        """
def build():
    return keras.Sequential([
        keras.Input((8, 8, 1)), layers.BatchNormalization(name="norm"), layers.Flatten(),
        layers.Dense(3, activation="softmax", name="output"),
    ])

given = {"images": IMAGES[:5], "labels": LABELS[:5], "batch_size": 5, "learning_rate": 1e-6}
norm = trained(2, build, **given)["model"].layers[0]
seen = IMAGES[:5][step_loop.epoch_order(0, 0, 5)] / 16
variance = (3 * seen[:3].var() + 2 * seen[3:].var()) / 5
np.testing.assert_allclose(norm.moving_variance.numpy(), [0.99 + 0.01 * variance], rtol=1e-6)
"""
    )


def test_every_replica_draws_its_own_dropout(passes):
    # The kernel's gradient at an input is the sum over the two examples of mask times error, so
    # two masks give it four values and one mask two.
    passes(
        """
def build():
    return keras.Sequential([
        keras.Input((8, 8, 1)), layers.Flatten(), layers.Dropout(0.5, name="dropout"),
        layers.Dense(1, kernel_initializer="zeros", activation="sigmoid", name="output"),
    ])

given = {"images": np.ones((2, 8, 8, 1), np.float32), "labels": np.ones(2), "scale": 1.0,
         "batch_size": 2, "learning_rate": 0.5, "momentum": 0.0}
two, again = trained(2, build, **given), trained(2, build, **given)
assert same(two, again)
values, counts = np.unique(two["weights"][0], return_counts=True)
np.testing.assert_allclose(values, [0, 0.25, 0.5], atol=1e-6)
assert counts.min() > 4
one = trained(1, build, **given)
state = [[v.numpy() for v in f["model"].variables if "seed" in v.path] for f in (one, two)]
assert np.array_equal(*state)
"""
    )


def test_a_checkpoint_holds_mirrored_variables(passes, tmp_path):
    passes(
        f"""
from pathlib import Path
path = Path({str(tmp_path)!r}) / "checkpoint.npz"

def build():
    return keras.Sequential([
        keras.Input((8, 8, 1)), layers.BatchNormalization(name="norm"), layers.Flatten(),
        layers.Dropout(0.5, name="dropout"), layers.Dense(3, activation="softmax", name="output"),
    ])

given = {{"build": build, "optimizer": "adam", "momentum": 0.0, "learning_rate": 0.001}}

def variables(model, optimizer):
    return [*model.variables, *optimizer.variables]

model, optimizer, steps = made(2, **given)
epoch(steps)
checkpoint.save(path, "key", checkpoint.Progress(epoch=1), variables(model, optimizer))
epoch(steps, 1)
other, its_optimizer, its_steps = made(2, **given)
assert checkpoint.load(path, "key", variables(other, its_optimizer)) is not None
epoch(its_steps, 1)
for one, two in zip(variables(model, optimizer), variables(other, its_optimizer), strict=True):
    assert np.array_equal(one.numpy(), two.numpy()), one.path
    for replica in two.value.values:
        assert np.array_equal(one.numpy(), replica.numpy()), one.path
trainable, state = models.weights(model)
models.set_weights(other, {{path: value + 1 for path, value in trainable.items()}}, state)
np.testing.assert_array_equal(other.weights[0].value.values[1].numpy(), model.weights[0] + 1.0)
"""
    )


@pytest.fixture(scope="module")
def results(tmp_path_factory, digits):
    return with_digits(digits, tmp_path_factory.mktemp("replicas"))


def test_a_training_has_the_same_weights_to_rounding(results):
    given = {"epochs": 1, "batch_size": 101}
    one, two = run_name(**given), run_name(**given, replicas=2)
    alone, divided = train(results, one), train(results, two)
    assert alone["sha256"]["initial.npz"] == divided["sha256"]["initial.npz"]
    finals = [arrays(results / "runs" / name / "final.npz") for name in (one, two)]
    for path, value in finals[0].items():
        assert finals[1][path] == pytest.approx(value, rel=1e-4, abs=1e-5)
