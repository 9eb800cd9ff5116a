"""Losses and metrics of each task, against NumPy and scikit-learn."""

from batchscope.host import tensorflow_start

tensorflow_start.start(1, "cpu")

import keras
import numpy as np
import pytest
import sklearn.metrics
import tensorflow as tf

from batchscope.datasets import Examples, TaskInfo
from batchscope.study import tasks
from batchscope.training import losses, scoring, step_loop

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


def numbers():
    return Examples(ROWS, NUMBERS, 1.0, TaskInfo(tasks.REGRESSION, DEVIATIONS))


def labels():
    return Examples(ROWS, NAMED, 1.0, TaskInfo(tasks.MULTI_LABEL))


def test_errors_are_those_of_scikit_learn_in_the_targets_own_units():
    network = model()
    loss, result = losses.Objective(network, numbers(), chunk=16).evaluate()
    predicted, scale = network(ROWS).numpy(), np.array(DEVIATIONS)
    given = NUMBERS * scale, predicted * scale
    assert loss == pytest.approx(((NUMBERS - predicted) ** 2).mean(), rel=1e-6)
    assert result == {
        "r2": pytest.approx(sklearn.metrics.r2_score(*given), rel=1e-5),
        "mse": pytest.approx(sklearn.metrics.mean_squared_error(*given), rel=1e-5),
        "mae": pytest.approx(sklearn.metrics.mean_absolute_error(*given), rel=1e-5),
    }


def loss_of_a_step(network, examples):
    """Return the loss that an update minimises."""
    settings = step_loop.UpdateSettings(len(ROWS))
    loop = step_loop.StepLoop(network, keras.optimizers.SGD(0.1), examples, settings)
    order = np.arange(len(ROWS), dtype=np.int32)
    _, totals, _, _ = loop.run(order, 0, 1, step_loop.Totals())
    return totals.loss / len(ROWS)


@pytest.mark.parametrize(
    ("units", "task", "targets", "for_keras", "of_keras"),
    [
        (
            3,
            tasks.CLASSIFICATION,
            CLASSES,
            np.eye(3, dtype=np.float32)[CLASSES],
            keras.losses.CategoricalCrossentropy,
        ),
        (
            1,
            tasks.CLASSIFICATION,
            NAMED[:, 0],
            NAMED[:, :1].astype(np.float32),
            keras.losses.BinaryCrossentropy,
        ),
        (2, tasks.MULTI_LABEL, NAMED, NAMED.astype(np.float32), keras.losses.BinaryCrossentropy),
    ],
    ids=["classes", "one output", "labels"],
)
def test_losses_are_those_of_keras(units, task, targets, for_keras, of_keras):
    examples = Examples(ROWS, targets, 1.0, TaskInfo(task))
    expected = float(of_keras(from_logits=True)(for_keras, model(units)(ROWS)))
    assert losses.Objective(model(units), examples).evaluate()[0] == pytest.approx(
        expected, rel=1e-5
    )
    assert loss_of_a_step(model(units), examples) == pytest.approx(expected, rel=1e-5)


def test_loss_and_accuracy_of_a_sequence_are_means_over_its_tokens():
    tokens = CLASSES.reshape(10, 5)
    outputs = tf.constant(RANDOM.normal(size=(10, 5, 3)), tf.float32)
    scored = scoring.for_task(TaskInfo(tasks.CLASSIFICATION))
    result, correct = scored.score_examples(tf.constant(tokens), outputs)
    keras_loss = keras.losses.CategoricalCrossentropy(from_logits=True)
    expected = keras_loss(np.eye(3, dtype=np.float32)[tokens], outputs)
    assert float(tf.reduce_mean(result)) == pytest.approx(float(expected), rel=1e-5)
    accuracy = scored.metrics(scored.sum_scores(correct), tokens)["accuracy"]
    assert accuracy == (outputs.numpy().argmax(-1) == tokens).mean()


def test_a_target_without_spread_has_no_share_in_r2():
    constant = NUMBERS.copy()
    constant[:, 1] = 2.0
    examples = Examples(ROWS, constant, 1.0, TaskInfo(tasks.REGRESSION, DEVIATIONS))
    network = model()
    _, result = losses.Objective(network, examples).evaluate()
    expected = sklearn.metrics.r2_score(NUMBERS[:, 0], network(ROWS).numpy()[:, 0])
    assert result["r2"] == pytest.approx(expected, rel=1e-5)


@pytest.mark.parametrize("activation", ["sigmoid", "linear"])
def test_several_labels_have_a_binary_cross_entropy_and_micro_f1(activation):
    network = model(activation=activation)
    loss, result = losses.Objective(network, labels(), chunk=16).evaluate()
    logits = ROWS @ network.get_weights()[0]
    chances = 1 / (1 + np.exp(-logits))
    expected = -np.where(NAMED > 0, np.log(chances), np.log(1 - chances)).mean()
    assert loss == pytest.approx(expected, rel=1e-5)
    f1 = sklearn.metrics.f1_score(NAMED, logits > 0, average="micro")
    assert result == {"f1": pytest.approx(f1)}


def test_nothing_named_where_nothing_is_true_is_no_division_by_zero():
    scored = scoring.for_task(TaskInfo(tasks.MULTI_LABEL))
    assert scored.metrics([0, 0, 0], NAMED) == {"f1": 0.0}


@pytest.mark.parametrize("examples", [numbers(), labels()], ids=["numbers", "labels"])
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
