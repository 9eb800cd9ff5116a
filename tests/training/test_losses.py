"""Loss and gradient against answers worked out by hand."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from batchscope.datasets import Examples, TaskInfo
from batchscope.training import losses

SHAPE = (2, 2, 1)


def objective_of(model, images, labels, **options):
    return losses.Objective(model, Examples(images, labels, 1 / 16), **options)


def examples(n=23, classes=3, seed=0):
    random = np.random.default_rng(seed)
    images = random.integers(0, 17, (n, *SHAPE), np.uint8)
    return images, random.integers(0, classes, n).astype(np.int32)


def chain(*layers):
    keras.utils.set_random_seed(3)
    return keras.Sequential([keras.Input(SHAPE), keras.layers.Flatten(), *layers])


def softmax_regression(classes=3, **kwargs):
    return chain(keras.layers.Dense(classes, activation="softmax", **kwargs))


def by_hand(weights, images, labels, classes):
    """Returns mean loss, accuracy and gradient of a softmax regression, in float64."""
    inputs = images.reshape(len(images), -1) / 16
    kernel, bias = weights[: 4 * classes].reshape(4, classes), weights[4 * classes :]
    numbers = inputs @ kernel + bias
    shifted = numbers - numbers.max(1, keepdims=True)
    probabilities = np.exp(shifted) / np.exp(shifted).sum(1, keepdims=True)
    rows = np.arange(len(labels))
    error = probabilities.copy()
    error[rows, labels] -= 1
    gradient = np.concatenate([(inputs.T @ error).reshape(-1), error.sum(0)]) / len(labels)
    loss = -np.log(probabilities[rows, labels]).mean()
    return loss, (probabilities.argmax(1) == labels).mean(), gradient


def test_layers_may_have_another_precision():
    model = chain(keras.layers.Dense(3, dtype="float16"), keras.layers.Dense(3))
    objective = objective_of(model, *examples())
    gradient = objective.loss_and_gradient(objective.weights())[1]
    assert gradient.any() and objective.hessian_times(gradient).any()


@pytest.mark.parametrize("chunk", [1, 5, 512])
def test_softmax_regression_by_hand_whatever_the_chunks(chunk):
    images, labels = examples()
    objective = objective_of(softmax_regression(), images, labels, chunk=chunk)
    weights = np.random.default_rng(1).standard_normal(objective.size)
    rounded = weights.astype(np.float32).astype(np.float64)
    expected, accuracy, gradient = by_hand(rounded, images, labels, 3)
    loss, received = objective.loss_and_gradient(weights)
    assert loss == pytest.approx(expected, rel=1e-6)
    assert received.dtype == np.float64 and received.shape == (15,)
    np.testing.assert_allclose(received, gradient, rtol=1e-5, atol=1e-7)
    assert objective.loss(weights) == pytest.approx(expected, rel=1e-6)
    assert objective.evaluate()[1] == {"accuracy": accuracy}


def convolutional():
    keras.utils.set_random_seed(4)
    first = keras.layers.Conv2D(3, 2, activation="tanh"), keras.layers.BatchNormalization()
    last = keras.layers.Dense(3, activation="softmax", kernel_regularizer="l2")
    rest = keras.layers.Flatten(), keras.layers.Dropout(0.5), last
    return keras.Sequential([keras.Input(SHAPE), *first, *rest])


def test_batch_statistics_normalise_by_the_chunk():
    images, labels = examples(n=64)
    moving = objective_of(convolutional(), images, labels)
    batch = objective_of(convolutional(), images, labels, batch_statistics=True)
    halves = objective_of(convolutional(), images, labels, chunk=32, batch_statistics=True)
    values = [objective.evaluate()[0] for objective in (moving, batch, halves)]
    assert len({round(value, 5) for value in values}) == 3
    # What the layer does with the statistics of all 64, worked out by hand.
    model = convolutional()
    convolution, norm, _, _, dense = model.layers
    features = np.asarray(convolution(images.astype(np.float32) / 16)).reshape(64, 3)
    normal = (features - features.mean(0)) / np.sqrt(features.var(0) + norm.epsilon)
    kernel, bias = (np.asarray(variable) for variable in dense.weights)
    numbers = normal @ kernel + bias
    rows = np.log(np.exp(numbers).sum(1)) - numbers[np.arange(64), labels]
    assert values[1] == pytest.approx(rows.mean() + 0.01 * (kernel**2).sum(), rel=1e-5)


@pytest.mark.parametrize("chunk", [None, 5])
def test_penalties_count_once_and_those_of_activities_are_a_mean_over_the_examples(chunk):
    images, labels = examples()
    plain = objective_of(softmax_regression(), images, labels)
    l2 = keras.regularizers.L2
    layer = keras.layers.Dense(3, kernel_regularizer=l2(0.3), activity_regularizer=l2(0.2))
    penalised = objective_of(chain(layer, keras.layers.Softmax()), images, labels, chunk=chunk)
    weights = np.random.default_rng(2).standard_normal(15).astype(np.float32).astype(np.float64)
    kernel, inputs = np.append(weights[:12], np.zeros(3)), images.reshape(len(images), -1) / 16
    numbers = inputs @ weights[:12].reshape(4, 3) + weights[12:]
    (loss, gradient), (more, steeper) = (
        objective.loss_and_gradient(weights) for objective in (plain, penalised)
    )
    penalty = 0.3 * (kernel**2).sum() + 0.2 * (numbers**2).sum() / len(labels)
    assert more - loss == pytest.approx(penalty, rel=1e-5)
    assert penalised.loss(weights) == pytest.approx(more, rel=1e-6)
    slope = 0.4 * np.append(inputs.T @ numbers, numbers.sum(0)) / len(labels)
    np.testing.assert_allclose(steeper - gradient, 0.6 * kernel + slope, rtol=1e-4, atol=1e-6)


def ends(units, activation):
    """Return the ways in which a model may end in an activation, or in the numbers before it."""
    layers = keras.layers
    apart = layers.Softmax() if activation == "softmax" else layers.Activation(activation)
    return {
        "activation": lambda: [layers.Dense(units, activation)],
        "logits": lambda: [layers.Dense(units)],
        "apart": lambda: [layers.Dense(units), apart],
        "nested": lambda: [keras.Sequential([keras.Input((1,)), layers.Dense(units, activation)])],
    }


@pytest.mark.parametrize("graph", [False, True], ids=["eager", "graph"])
@pytest.mark.parametrize("end", ends(1, "sigmoid"))
@pytest.mark.parametrize("classes", [1, 3])
def test_a_saturated_loss_is_not_clipped(classes, end, graph):
    """The first number is -50, the others are 0."""
    last = ends(classes, "sigmoid" if classes == 1 else "softmax")[end]()
    model = keras.Sequential([keras.Input((1, 1, 1)), keras.layers.Flatten(), *last])
    model.set_weights([np.zeros((1, classes)), np.array([-50.0] + [0.0] * (classes - 1))])

    def both(labels, images):
        return losses.scoring_for(TaskInfo()).score_examples(labels, model(images))

    function = tf.function(both) if graph else both
    # One example of the class whose numbers are low, and one of another.
    labels = [1, 0] if classes == 1 else [0, 1]
    values, hits = function(tf.constant(labels), tf.zeros((2, 1, 1, 1)))
    expected = [50.0, np.exp(-50.0)] if classes == 1 else [50 + np.log(2), np.log(2)]
    np.testing.assert_allclose(values, expected, rtol=1e-5)
    assert hits.numpy().tolist() == [False, True]


def test_noise_is_switched_off_in_nested_models_too():
    layers = keras.layers
    noise = [layers.GaussianNoise(0.9), layers.Dropout(0.9), layers.Reshape((2, 2))]
    noise += [layers.TimeDistributed(layers.Dropout(0.9))]
    noise += [layers.LSTM(4, dropout=0.5, recurrent_dropout=0.5), layers.Reshape((2, 2, 1))]
    noise += [layers.RandomContrast(0.9, value_range=(0, 1)), layers.Flatten()]
    inner = keras.Sequential([keras.Input((4,)), *noise])
    model = chain(inner, layers.Dense(3))
    losses.switch_off_randomness(model)
    inputs = np.random.default_rng(0).random((1, *SHAPE), np.float32)
    assert (np.asarray(model(inputs, training=True)) == np.asarray(model(inputs))).all()


def test_an_embedding_has_a_dense_gradient():
    table, rows = tf.Variable(tf.ones((5, 2))), tf.constant([1, 1, 3])
    with tf.GradientTape() as tape:
        picked = tf.reduce_sum(tf.gather(table, rows))
    (result,) = losses.dense_gradients([tape.gradient(picked, table)])
    assert result.numpy().tolist() == [[0, 0], [2, 2], [0, 0], [1, 1], [0, 0]]
    assert losses.dense_gradients([None]) == [None]
