"""Losses and metrics of each task, against NumPy and scikit-learn."""

from dataclasses import replace

import keras
import numpy as np
import pytest
import sklearn.metrics
import tensorflow as tf

from batchscope.datasets import Examples, TaskInfo
from batchscope.study import tasks
from batchscope.training import losses, step_loop

RANDOM = np.random.default_rng(0)
ROWS = RANDOM.normal(size=(50, 3)).astype(np.float32)
NUMBERS = (ROWS @ RANDOM.normal(size=(3, 2)) + RANDOM.normal(size=(50, 2))).astype(np.float32)
NAMED = (NUMBERS > 0.3).astype(np.int32)
DEVIATIONS = (10.0, 0.5)
CLASSES = (ROWS[:, 0] > 0.5).astype(np.int32) + (ROWS[:, 1] > 0).astype(np.int32)


def model(units=2, activation="linear"):
    keras.utils.set_random_seed(1)
    inputs = keras.Input((3,))
    outputs = keras.layers.Dense(units, activation=activation, name="output")(inputs)
    return keras.Model(inputs, outputs)


REGRESSION = Examples(ROWS, NUMBERS, 1.0, TaskInfo(tasks.REGRESSION, DEVIATIONS))
LABELS = Examples(ROWS, NAMED, 1.0, TaskInfo(tasks.MULTI_LABEL))


def test_errors_are_those_of_scikit_learn_in_the_targets_own_units():
    """A target without spread has no share in R2."""
    network = model()
    loss, result = losses.Objective(network, REGRESSION, chunk=16).evaluate()
    predicted, scale = network(ROWS).numpy(), np.array(DEVIATIONS)
    given = NUMBERS * scale, predicted * scale
    assert loss == pytest.approx(((NUMBERS - predicted) ** 2).mean(), rel=1e-6)
    assert result == {
        "r2": pytest.approx(sklearn.metrics.r2_score(*given), rel=1e-5),
        "mse": pytest.approx(sklearn.metrics.mean_squared_error(*given), rel=1e-5),
        "mae": pytest.approx(sklearn.metrics.mean_absolute_error(*given), rel=1e-5),
    }
    constant = replace(REGRESSION, labels=np.where([True, False], NUMBERS, np.float32(2.0)))
    _, result = losses.Objective(network, constant).evaluate()
    expected = sklearn.metrics.r2_score(NUMBERS[:, 0], predicted[:, 0])
    assert result["r2"] == pytest.approx(expected, rel=1e-5)


ONE_HOT = np.eye(3, dtype=np.float32)[CLASSES]
CATEGORICAL, BINARY = keras.losses.CategoricalCrossentropy, keras.losses.BinaryCrossentropy


@pytest.mark.parametrize(
    ("task", "targets", "for_keras", "of_keras"),
    [
        (tasks.CLASSIFICATION, CLASSES, ONE_HOT, CATEGORICAL),
        (tasks.CLASSIFICATION, NAMED[:, 0], NAMED[:, :1].astype(np.float32), BINARY),
        (tasks.MULTI_LABEL, NAMED, NAMED.astype(np.float32), BINARY),
    ],
    ids=["classes", "one output", "labels"],
)
def test_losses_are_those_of_keras(task, targets, for_keras, of_keras):
    examples, network = Examples(ROWS, targets, 1.0, TaskInfo(task)), model(for_keras.shape[1])
    expected = float(of_keras(from_logits=True)(for_keras, network(ROWS)))
    assert losses.Objective(network, examples).evaluate()[0] == pytest.approx(expected, rel=1e-5)
    # An update minimises the same loss.
    settings = step_loop.UpdateSettings(len(ROWS))
    loop = step_loop.StepLoop(network, keras.optimizers.SGD(0.1), examples, settings)
    _, totals, _, _ = loop.run(np.arange(50, dtype=np.int32), 0, 1, step_loop.Totals())
    assert totals.loss / 50 == pytest.approx(expected, rel=1e-5)


def test_loss_and_accuracy_of_a_sequence_are_means_over_its_tokens():
    tokens = CLASSES.reshape(10, 5)
    outputs = tf.constant(RANDOM.normal(size=(10, 5, 3)), tf.float32)
    scored = losses.scoring_for(TaskInfo(tasks.CLASSIFICATION))
    result, correct = scored.score_examples(tf.constant(tokens), outputs)
    keras_loss = keras.losses.CategoricalCrossentropy(from_logits=True)
    expected = keras_loss(np.eye(3, dtype=np.float32)[tokens], outputs)
    assert float(tf.reduce_mean(result)) == pytest.approx(float(expected), rel=1e-5)
    accuracy = scored.metrics(scored.sum_scores(correct), tokens)["accuracy"]
    assert accuracy == (outputs.numpy().argmax(-1) == tokens).mean()


@pytest.mark.parametrize("activation", ["sigmoid", "linear"])
def test_several_labels_have_a_binary_cross_entropy_and_micro_f1(activation):
    network = model(activation=activation)
    loss, result = losses.Objective(network, LABELS, chunk=16).evaluate()
    logits = ROWS @ network.get_weights()[0]
    chances = 1 / (1 + np.exp(-logits))
    expected = -np.where(NAMED > 0, np.log(chances), np.log(1 - chances)).mean()
    assert loss == pytest.approx(expected, rel=1e-5)
    f1 = sklearn.metrics.f1_score(NAMED, logits > 0, average="micro")
    assert result == {"f1": pytest.approx(f1)}
    # Without any label, true or predicted, nothing is divided by zero.
    assert losses.scoring_for(LABELS.task_info).metrics([0, 0, 0], NAMED) == {"f1": 0.0}


@pytest.mark.parametrize("examples", [REGRESSION, LABELS], ids=["numbers", "labels"])
def test_an_epoch_adds_up_its_scores_however_it_is_cut(examples):
    """Micro-batches too; the metrics are those of the weights where the rate is 0."""
    result = []
    for micro_batch, stops in ((0, (7,)), (0, (3, 7)), (4, (7,))):
        network = model()
        settings = step_loop.UpdateSettings(8, micro_batch=micro_batch)
        loop = step_loop.StepLoop(network, keras.optimizers.SGD(0.0), examples, settings)
        totals, start = step_loop.Totals(), 0
        for stop in stops:
            order = step_loop.epoch_order(0, 0, 50)
            start, totals, _, _ = loop.run(order, start, stop, totals)
        result.append(loop.scoring.metrics(totals.scores, examples.labels))
    _, expected = losses.Objective(model(), examples).evaluate()
    assert all(item == pytest.approx(expected, rel=1e-6) for item in result)
    assert result[0] == result[1]
