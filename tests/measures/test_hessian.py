"""Products with the Hessian, its largest eigenvalue and its trace, against known ones."""

from __future__ import annotations

import functools

import numpy as np
import pytest

from batchscope.catalogue import measure_settings
from batchscope.catalogue.measures import MEASURES
from batchscope.errors import UserError
from batchscope.host import tensorflow_start
from batchscope.measures import hessian, sharpness
from costs import first
from measured_run import COUNTS, measured

tensorflow_start.start()

import keras
import tensorflow as tf

from batchscope.datasets import Examples
from batchscope.training.losses import Objective

SETTINGS = measure_settings.parse_settings("hessian", "default")
SHAPE = (4, 4, 1)


def symmetric(eigenvalues, seed=0):
    """Returns a matrix of these eigenvalues in a random basis."""
    random = np.random.default_rng(seed)
    basis, _ = np.linalg.qr(random.standard_normal((len(eigenvalues),) * 2))
    return (basis * eigenvalues) @ basis.T


def top(matrix, iterations=100):
    return hessian.top_eigenvalue(lambda v: matrix @ v, len(matrix), iterations)


@pytest.mark.parametrize(
    "eigenvalues",
    [
        # A few far above a bulk, as after a training.
        np.concatenate([np.random.default_rng(0).normal(0, 0.1, 290), np.arange(1.0, 11.0)]),
        np.linspace(-5.0, 1.0, 60),  # the largest is not that of largest size
        np.linspace(-3.0, -1.0, 30),
        np.array([2.0, 1.0]),
        np.array([7.0, 7.0, 7.0]),
    ],
)
def test_top_eigenvalue_of_a_known_spectrum(eigenvalues):
    found = top(symmetric(eigenvalues))
    assert found.converged and found.message == "converged"
    assert found.value == pytest.approx(eigenvalues.max(), rel=1e-4)
    assert found.error <= hessian.TOLERANCE * abs(found.value)
    assert found.products <= 100


@pytest.mark.parametrize("number", [3.5, -2.0, 0.0])
def test_a_model_of_one_weight(number):
    found = top(np.array([[number]]))
    assert (found.value, found.error, found.converged, found.products) == (number, 0.0, True, 1)


@pytest.mark.parametrize("size", [2, 30])
def test_zero_hessian(size):
    found = top(np.zeros((size, size)))
    assert (found.value, found.error, found.converged) == (0.0, 0.0, True)
    assert found.message == "the Hessian is zero"


@pytest.mark.parametrize("iterations", [5, 12, 30])
def test_products_are_bounded_and_the_estimate_has_an_honest_error(iterations):
    eigenvalues = np.linspace(0.0, 1.0, 2000)  # nothing stands out: a hard search
    found = hessian.top_eigenvalue(lambda v: eigenvalues * v, 2000, iterations)
    assert not found.converged
    assert found.message == "the products ran out"
    assert found.products <= iterations
    assert np.abs(eigenvalues - found.value).min() <= found.error
    assert 0.5 < found.value <= 1.0


@pytest.mark.slow
def test_error_is_the_norm_of_the_residual():
    matrix = symmetric(np.linspace(0.0, 1.0, 300))
    seen = []

    def times(v):
        seen.append(v.copy())
        return matrix @ v

    found = hessian.top_eigenvalue(times, 300, 12)
    best = seen[-1]
    assert np.linalg.norm(best) == pytest.approx(1.0, rel=1e-12)
    assert found.value == pytest.approx(best @ matrix @ best, rel=1e-12)
    residual = np.linalg.norm(matrix @ best - found.value * best)
    assert found.error == pytest.approx(residual, rel=1e-12)


def test_rounded_products_converge():
    matrix = symmetric(np.concatenate([np.linspace(0, 1, 200), [1.5, 2.0]]))
    rounded = matrix.astype(np.float32)
    found = hessian.top_eigenvalue(
        lambda v: (rounded @ v.astype(np.float32)).astype(np.float64), 202, 100
    )
    assert found.converged
    assert found.value == pytest.approx(2.0, rel=1e-5)


@pytest.mark.parametrize("bad", [np.inf, np.nan])
def test_products_that_are_not_finite(bad):
    values, details = hessian.measure(lambda v: np.full(5, bad), 5, SETTINGS)
    assert set(values.values()) == {None}
    assert details["message"] == "STOP: A PRODUCT WITH THE HESSIAN IS NOT FINITE"
    assert details["converged"] is False


def test_trace_of_a_diagonal_matrix_is_exact():
    diagonal = np.arange(-3.0, 40.0)
    assert hessian.trace(lambda v: diagonal * v, 43, 2) == (diagonal.sum(), 0.0)


def test_trace_and_its_standard_error():
    matrix = symmetric(np.linspace(-1.0, 3.0, 80))
    expected = np.sqrt(2 * (np.sum(matrix**2) - np.sum(np.diag(matrix) ** 2)))
    value, error = hessian.trace(lambda v: matrix @ v, 80, 400)
    assert error == pytest.approx(expected / 20, rel=0.15)  # the variance of Rademacher probes
    assert abs(value - 80.0) < 3 * error


def test_probes_are_signs_and_nested():
    few, many = [], []
    hessian.trace(lambda v: few.append(v) or v, 9, 3)
    hessian.trace(lambda v: many.append(v) or v, 9, 5)
    assert np.array_equal(few, many[:3])
    assert set(np.ravel(many)) == {-1.0, 1.0}


def test_measure_of_a_quadratic():
    matrix = symmetric(np.linspace(0.5, 4.0, 25))
    values, details = hessian.measure(lambda v: matrix @ v, 25, SETTINGS)
    assert tuple(values) == MEASURES["hessian"].columns_for(SETTINGS)
    assert values["hessian_top_eigenvalue"] == pytest.approx(4.0, rel=1e-6)
    assert abs(values["hessian_trace"] - np.trace(matrix)) < 4 * values["hessian_trace_error"]
    assert details["converged"] and details["parameters"] == 25
    assert details["products"]["trace"] == SETTINGS["probes"]
    assert 5 <= details["products"]["eigenvalue"] <= SETTINGS["iterations"]


def examples(n=40, classes=3, seed=0):
    random = np.random.default_rng(seed)
    images = random.integers(0, 17, (n, *SHAPE), np.uint8)
    return images, random.integers(0, classes, n).astype(np.int32)


def built(*layers):
    keras.utils.set_random_seed(3)
    return keras.Sequential([keras.Input(SHAPE), *layers])


def convolutional(activation="tanh", pooling=keras.layers.AveragePooling2D):
    return built(
        keras.layers.Conv2D(3, 3, padding="same"),
        keras.layers.BatchNormalization(),
        keras.layers.Activation(activation),
        pooling(2),
        keras.layers.Flatten(),
        keras.layers.Dropout(0.5),
        keras.layers.Dense(5, activation=activation),
        keras.layers.Dense(3, activation="softmax", kernel_regularizer="l2"),
    )


def with_ones(images):
    return np.concatenate([images.reshape(len(images), -1) / 16, np.ones((len(images), 1))], 1)


def columns_of(objective):
    return np.stack([objective.hessian_times(row) for row in np.eye(objective.size)], 1)


def test_logistic_regression_by_formula():
    images, labels = examples(classes=2)
    model = built(keras.layers.Flatten(), keras.layers.Dense(1, activation="sigmoid"))
    objective = Objective(model, Examples(images, labels, 1 / 16), chunk=13)
    weights = objective.weights()
    inputs = with_ones(images)
    probability = 1 / (1 + np.exp(-inputs @ weights))
    expected = inputs.T @ (inputs * (probability * (1 - probability))[:, None]) / len(labels)
    np.testing.assert_allclose(columns_of(objective), expected, rtol=1e-4, atol=1e-7)
    values, _ = hessian.measure(objective.hessian_times, objective.size, SETTINGS)
    largest = np.linalg.eigvalsh(expected)[-1]
    assert values["hessian_top_eigenvalue"] == pytest.approx(largest, rel=1e-4)
    deviation = abs(values["hessian_trace"] - np.trace(expected))
    assert deviation < 4 * values["hessian_trace_error"]


def test_softmax_regression_by_formula():
    images, labels = examples()
    model = built(keras.layers.Flatten(), keras.layers.Dense(3, activation="softmax"))
    objective = Objective(model, Examples(images, labels, 1 / 16))
    kernel, bias = (np.asarray(variable, np.float64) for variable in model.weights)
    inputs = with_ones(images)
    numbers = np.exp(inputs[:, :-1] @ kernel + bias)
    p = numbers / numbers.sum(1, keepdims=True)
    curvature = np.einsum("ij,jk->ijk", p, np.eye(3)) - np.einsum("ij,ik->ijk", p, p)
    expected = np.einsum("na,nb,nij->aibj", inputs, inputs, curvature) / len(labels)
    # Flattened, the weights are the kernel's rows and then the bias: input by class.
    expected = expected.reshape(objective.size, objective.size)
    np.testing.assert_allclose(columns_of(objective), expected, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("activation", first(["tanh", "relu"]))
def test_symmetric_whatever_the_chunks(activation):
    images, labels = examples()
    model = convolutional(activation, keras.layers.MaxPooling2D)
    whole = Objective(model, Examples(images, labels, 1 / 16), chunk=40)
    chunks = Objective(model, Examples(images, labels, 1 / 16), chunk=11)
    random = np.random.default_rng(1)
    one, two = random.standard_normal((2, whole.size))
    product = whole.hessian_times(one)
    assert product.dtype == np.float64 and product.shape == (whole.size,)
    assert two @ product == pytest.approx(one @ whole.hessian_times(two), rel=1e-4)
    scale = np.abs(product).max()
    np.testing.assert_allclose(chunks.hessian_times(one), product, rtol=0, atol=1e-5 * scale)
    assert np.array_equal(whole.hessian_times(one), product)


def test_product_is_the_change_of_the_gradient():
    images, labels = examples()
    objective = Objective(convolutional(), Examples(images, labels, 1 / 16))
    start = objective.weights()
    random = np.random.default_rng(2)
    for _ in range(3):
        direction = random.standard_normal(objective.size)
        direction /= np.linalg.norm(direction)
        objective.set_weights(start)
        product = objective.hessian_times(direction)
        step = 1e-2 * direction
        ahead, behind = (objective.loss_and_gradient(start + s)[1] for s in (step, -step))
        change = ahead - behind
        error = np.linalg.norm(change / 2e-2 - product)
        assert error < 2e-3 * np.linalg.norm(product)


def test_neither_weights_nor_moving_statistics_change():
    images, labels = examples()
    model = convolutional()
    before = [variable.numpy() for variable in model.variables]
    objective = Objective(model, Examples(images, labels, 1 / 16))
    objective.hessian_times(np.ones(objective.size))
    for old, variable in zip(before, model.variables, strict=True):
        assert np.array_equal(old, variable.numpy())


def test_chunk_gradients_average_to_the_gradient():
    images, labels = examples(n=20)
    model = convolutional("relu", keras.layers.MaxPooling2D)
    whole = Objective(model, Examples(images, labels, 1 / 16))
    _, expected = whole.loss_and_gradient(whole.weights())
    for chunk in (1, 5):
        parts = Objective(model, Examples(images, labels, 1 / 16), chunk=chunk)
        found = [parts.chunk_gradient(index) for index in range(20 // chunk)]
        assert found[0].dtype == np.float32
        np.testing.assert_allclose(np.mean(found, 0), expected, rtol=1e-3, atol=1e-6)


class Normalised(keras.layers.Layer):
    """A layer whose gradient TensorFlow cannot differentiate again."""

    def call(self, inputs):
        return tf.nn.local_response_normalization(inputs)


def test_operation_without_a_second_derivative():
    images, labels = examples(n=4)
    model = built(
        *(keras.layers.Conv2D(2, 3), Normalised(), keras.layers.Flatten(), keras.layers.Dense(3))
    )
    objective = Objective(model, Examples(images, labels, 1 / 16))
    with pytest.raises(LookupError):
        objective.hessian_times(np.ones(objective.size))


written = functools.partial(measured, "hessian")


def test_record(results, tmp_path):
    record = written(results, tmp_path)
    assert record["status"] == "finished"
    assert tuple(record["values"]) == MEASURES["hessian"].columns_for(SETTINGS)
    values = record["values"]
    assert record["converged"] is True
    assert values["hessian_top_eigenvalue"] > 0
    assert 0 <= values["hessian_top_eigenvalue_error"] <= 1e-3 * values["hessian_top_eigenvalue"]
    assert values["hessian_trace_error"] > 0
    assert record["loss"] > 0
    assert record["subset"]["examples"] == record["chunk"] == COUNTS["train"]


def test_model_without_a_second_derivative_is_refused(results, tmp_path, monkeypatch):
    class Refusing:
        size = 3

        def hessian_times(self, vector):
            raise LookupError("gradient registry has no entry for: LRNGrad")

    monkeypatch.setattr(sharpness, "objective", lambda *_: (Refusing(), {}))
    with pytest.raises(UserError, match=r"without a second derivative \(.*LRNGrad\)"):
        written(results, tmp_path)
