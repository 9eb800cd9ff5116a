"""Models that predict each position of a sequence: their loss, accuracy and causality."""

from __future__ import annotations

import math

import numpy as np
import pytest

from batchscope.catalogue import dataset_definitions
from batchscope.errors import UserError
from batchscope.host import tensorflow_start
from costs import first

tensorflow_start.start()

import keras
import tensorflow as tf

from batchscope.datasets import Examples, looks
from batchscope.measures import evaluate
from batchscope.study import model_files
from batchscope.timing import loops
from batchscope.training import losses, models, step_loop

LENGTH, CLASSES = 6, 11
RANDOM = np.random.default_rng(0)
INPUTS = RANDOM.integers(0, CLASSES, (20, LENGTH)).astype(np.int32)
LABELS = RANDOM.integers(0, CLASSES, (20, LENGTH)).astype(np.int32)


def transformer():
    look = looks.Look((LENGTH,), CLASSES, dataset_definitions.TOKENS)
    return models.build("tiny_transformer", look, 0)


def test_a_position_sees_no_later_one():
    model = tf.function(transformer())
    whole = model(INPUTS).numpy()
    for position in range(LENGTH):
        other = INPUTS.copy()
        other[:, position] = (other[:, position] + 1) % CLASSES
        moved = np.abs(model(other).numpy() - whole).max(axis=(0, 2))
        assert (moved[:position] == 0).all()
        assert (moved[position:] > 0).all()


@pytest.mark.slow
def test_loss_is_the_mean_over_positions_and_accuracy_their_share():
    model = transformer()
    probabilities = model(INPUTS).numpy().astype(np.float64)
    of_labels = np.take_along_axis(probabilities, LABELS[..., None], -1)[..., 0]
    expected = -np.log(of_labels).mean(), (probabilities.argmax(-1) == LABELS).mean()
    objective = losses.Objective(model, Examples(INPUTS, LABELS, 1.0), chunk=7)
    assert np.allclose(objective.loss_and_accuracy(), expected, rtol=1e-5)
    (together,) = losses.together([objective])()
    assert np.allclose(together, expected, rtol=1e-5)
    found = evaluate.evaluator(model, 1.0, INPUTS.dtype)(INPUTS, LABELS)
    assert np.allclose(found, expected, rtol=1e-5)


@pytest.mark.slow
def test_a_batch_counts_sequences():
    """One update with 20 of 20 sequences is a step along the gradient of the mean loss."""
    model = transformer()
    objective = losses.Objective(model, Examples(INPUTS, LABELS, 1.0))
    start = objective.weights()
    loss, gradient = objective.loss_and_gradient(start)
    optimizer = keras.optimizers.SGD(0.5)
    examples = Examples(INPUTS, LABELS, 1.0)
    loop = step_loop.StepLoop(model, optimizer, examples, step_loop.Batches(20))
    order = np.arange(20, dtype=np.int32)
    steps, totals, _, _ = loop.run(order, 0, 1, step_loop.Totals())
    assert steps == 1
    assert math.isclose(totals.loss / 20, loss, rel_tol=1e-5)
    assert 0 <= totals.hits <= INPUTS.size
    assert np.allclose(objective.weights(), start - 0.5 * gradient, atol=1e-6)


def test_an_embedding_has_a_dense_gradient():
    table, rows = tf.Variable(tf.ones((5, 2))), tf.constant([1, 1, 3])
    with tf.GradientTape() as tape:
        picked = tf.reduce_sum(tf.gather(table, rows))
    (found,) = losses.dense([tape.gradient(picked, table)])
    assert found.numpy().tolist() == [[0, 0], [2, 2], [0, 0], [1, 1], [0, 0]]
    assert losses.dense([None]) == [None]


def own_model(tmp_path, body, classes=CLASSES, kind=dataset_definitions.TOKENS, **more):
    path = tmp_path / "own.py"
    path.write_text(
        "import keras\nfrom keras import layers\n\n\ndef build(input_shape, classes):\n"
        f"    return keras.Sequential([{body}])\n"
    )
    token = model_files.token("own", str(path))
    return models.build(token, looks.Look((LENGTH,), classes, kind, **more), 0, path)


def test_a_users_model_predicts_each_position(tmp_path):
    model = own_model(tmp_path, "layers.Embedding(classes, 4), layers.Dense(classes)")
    assert model.input_shape == (None, LENGTH)
    objective = losses.Objective(model, Examples(INPUTS, LABELS, 1.0))
    assert np.isfinite(objective.loss_and_gradient(objective.weights())[1]).all()


@pytest.mark.slow
def test_a_users_model_of_sequences_with_one_class_each_is_trained(tmp_path):
    """Whether a token occurs, from its embedding: learnt by every example having one label."""
    body = "layers.Embedding(11, 4), layers.GlobalMaxPooling1D(), layers.Dense(classes)"
    model = own_model(tmp_path, body, 2, dataset_definitions.SEQUENCES)
    assert losses.label_shape(model) == ()
    labels = (INPUTS == 3).any(axis=1).astype(np.int32)
    objective = losses.Objective(model, Examples(INPUTS, labels, 1.0))
    before = objective.loss_and_accuracy()[0]
    examples = Examples(INPUTS, labels, 1.0)
    loop = step_loop.StepLoop(model, keras.optimizers.Adam(0.1), examples, step_loop.Batches(5))
    order = np.arange(20, dtype=np.int32)
    for _ in range(20):
        loop.run(order, 0, 4, step_loop.Totals())
    loss, accuracy = objective.loss_and_accuracy()
    assert loss < before / 5 and accuracy == 1


FLAT = "layers.Embedding(classes, 4), layers.Flatten(), layers.Dense(classes)"
EACH = "layers.Embedding(11, 4), layers.Dense(classes)"
FEW = "layers.Embedding(10, 4), layers.GlobalMaxPooling1D(), layers.Dense(classes)"
OF_CLASSES = {"classes": 3, "kind": dataset_definitions.SEQUENCES, "largest": 10}


@pytest.mark.parametrize(
    ("body", "look", "received"),
    [
        (FLAT, {}, r"gives output \(None, 11\); expected \(None, 6, 11\)"),
        (EACH, OF_CLASSES, r"gives output \(None, 6, 3\); expected \(None, 3\)"),
        (FEW, OF_CLASSES, r"own\.py: cannot be called .*10 is not in \[0, 10\)"),
    ],
    ids=["one per sequence", "one per position", "fewer tokens"],
)
def test_a_users_model_that_does_not_fit_the_tokens_is_refused(tmp_path, body, look, received):
    with pytest.raises(UserError, match=received):
        own_model(tmp_path, body, **look)


@pytest.mark.parametrize("loop", first(name for name in loops.LOOPS if name != "graph"))
@pytest.mark.parametrize("optimizer", first(["SGD", "Adam"]))
def test_every_loop_makes_the_same_updates_of_sequences(loop, optimizer):
    """All but Keras's `fit` with Adam, which takes a token's occurrences one by one."""

    def made():
        return getattr(keras.optimizers, optimizer)(0.01)

    def trained(name):
        keras.utils.set_random_seed(0)
        model = keras.Sequential(
            [
                keras.Input((LENGTH,), dtype="int32"),
                keras.layers.Embedding(CLASSES, 4),
                keras.layers.Dense(CLASSES, activation="softmax"),
            ]
        )
        examples = Examples(tf.constant(INPUTS), LABELS, 1.0)
        batches = step_loop.Batches(5, whole=True)
        order = np.arange(20, dtype=np.int32)
        if name == "graph":  # in the order of the others
            loop = step_loop.StepLoop(model, made(), examples, batches)
            loop.run(order, 0, 4, step_loop.Totals())
        else:
            runner = loops.OVER_PIPELINES[name](name, model, made(), examples)
            runner.lead_in_seconds = 0.0
            runner.run(5, 4)
        return model.get_weights()

    pairs = list(zip(trained("graph"), trained(loop), strict=True))
    close = [np.allclose(one, other, rtol=1e-5, atol=2e-6) for one, other in pairs]
    assert close[0] == (not (loop.startswith("fit") and optimizer == "Adam"))
    assert all(close[1:]) or not close[0]
