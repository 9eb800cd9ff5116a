"""Products with the Hessian, its largest eigenvalue and its trace, against known ones."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from batchscope.core.errors import UserError
from batchscope.datasets import Examples
from batchscope.measures import hessian
from batchscope.measures.measure_job import FinishedRun
from batchscope.study import names
from batchscope.training.losses import Objective
from measured_run import measured

SETTINGS = names.parse_settings("hessian", "default")
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
        np.array([7.0, 7.0, 7.0]),
    ],
)
def test_top_eigenvalue_of_a_known_spectrum(eigenvalues):
    value, error = top(symmetric(eigenvalues))
    assert value == pytest.approx(eigenvalues.max(), rel=1e-4)
    assert error <= hessian.TOLERANCE * abs(value)


@pytest.mark.parametrize("matrix", [[[-2.0]], [[0.0]], np.zeros((9, 9))])
def test_a_model_of_one_weight_and_zero_hessians(matrix):
    assert top(np.array(matrix)) == (np.max(matrix), 0.0)


@pytest.mark.parametrize("iterations", [5, 30])
def test_products_are_bounded_and_the_error_is_the_norm_of_the_residual(iterations):
    eigenvalues, seen = np.linspace(0.0, 1.0, 2000), []  # nothing stands out: a hard search

    def times(v):
        seen.append(v.copy())
        return eigenvalues * v

    value, error = hessian.top_eigenvalue(times, 2000, iterations)
    assert len(seen) <= iterations and error > hessian.TOLERANCE * value
    assert np.abs(eigenvalues - value).min() <= error
    assert 0.5 < value <= 1.0
    best = seen[-1]
    assert np.linalg.norm(best) == pytest.approx(1.0, rel=1e-12)
    residual = np.linalg.norm(eigenvalues * best - value * best)
    assert error == pytest.approx(residual, rel=1e-12)


def test_products_that_are_not_finite():
    measured = hessian.measure(lambda v: np.full(5, np.nan), 5, SETTINGS)
    assert set(measured.values.values()) == {None}


def test_trace_and_its_standard_error():
    diagonal = np.arange(-3.0, 40.0)
    assert hessian.trace(lambda v: diagonal * v, 43, 2) == (diagonal.sum(), 0.0)
    matrix, probes = symmetric(np.linspace(-1.0, 3.0, 80)), []
    expected = np.sqrt(2 * (np.sum(matrix**2) - np.sum(np.diag(matrix) ** 2)))
    value, error = hessian.trace(lambda v: probes.append(v) or matrix @ v, 80, 400)
    assert error == pytest.approx(expected / 20, rel=0.15)  # the variance of Rademacher probes
    assert abs(value - 80.0) < 3 * error
    assert set(np.ravel(probes)) == {-1.0, 1.0}
    few = []
    hessian.trace(lambda v: few.append(v) or v, 80, 3)
    assert np.array_equal(few, probes[:3])  # more probes add to fewer


def examples(n=40):
    random = np.random.default_rng(0)
    images = random.integers(0, 17, (n, *SHAPE), np.uint8)
    return Examples(images, random.integers(0, 3, n).astype(np.int32), 1 / 16)


def built(*layers):
    keras.utils.set_random_seed(3)
    return keras.Sequential([keras.Input(SHAPE), *layers])


def test_softmax_regression_by_formula():
    given = examples()
    model = built(keras.layers.Flatten(), keras.layers.Dense(3, activation="softmax"))
    objective = Objective(model, given, chunk=13)
    inputs = np.concatenate([given.images.reshape(40, -1) / 16, np.ones((40, 1))], 1)
    # Flattened, the weights are the kernel's rows and then the bias: input by class.
    numbers = inputs @ objective.weights().reshape(17, -1)
    p = np.exp(numbers) / np.exp(numbers).sum(1, keepdims=True)
    curvature = np.einsum("ij,jk->ijk", p, np.eye(3)) - np.einsum("ij,ik->ijk", p, p)
    expected = np.einsum("na,nb,nij->aibj", inputs, inputs, curvature) / 40
    expected = expected.reshape(objective.size, objective.size)
    columns = [objective.hessian_times(row) for row in np.eye(objective.size)]
    np.testing.assert_allclose(np.stack(columns, 1), expected, rtol=1e-4, atol=1e-6)
    values = hessian.measure(objective.hessian_times, objective.size, SETTINGS).values
    largest = np.linalg.eigvalsh(expected)[-1]
    assert values["hessian_top_eigenvalue"] == pytest.approx(largest, rel=1e-4)


def test_symmetric_whatever_the_chunks_and_nothing_moves():
    layers = keras.layers
    first = layers.Conv2D(3, 3, activation="relu"), layers.BatchNormalization(), layers.Flatten()
    last = layers.Dense(3, activation="softmax", kernel_regularizer="l2")
    model = built(*first, layers.Dropout(0.5), layers.Dense(5, activation="tanh"), last)
    before = [variable.numpy() for variable in model.variables]
    whole, chunks = (Objective(model, examples(), chunk=chunk) for chunk in (40, 11))
    one, two = np.random.default_rng(1).standard_normal((2, whole.size))
    product = whole.hessian_times(one)
    assert two @ product == pytest.approx(one @ whole.hessian_times(two), rel=1e-4)
    scale = np.abs(product).max()
    np.testing.assert_allclose(chunks.hessian_times(one), product, rtol=0, atol=1e-5 * scale)
    assert np.array_equal(whole.hessian_times(one), product)
    for old, variable in zip(before, model.variables, strict=True):
        assert np.array_equal(old, variable.numpy())


class Normalised(keras.layers.Layer):
    """A layer whose gradient TensorFlow cannot differentiate again."""

    def call(self, inputs):
        return tf.nn.local_response_normalization(inputs)


def test_a_model_without_a_second_derivative_is_refused(results, tmp_path, monkeypatch):
    layers = keras.layers.Conv2D(2, 3), Normalised(), keras.layers.Flatten(), keras.layers.Dense(3)
    objective = Objective(built(*layers), examples(4))
    monkeypatch.setattr(FinishedRun, "training_loss", lambda *_: objective)
    with pytest.raises(UserError, match=r"\(.*LRNGrad\)"):
        measured("hessian", results, tmp_path)
