"""Norms of mean gradients and their cosines, against vectors whose answers are known."""

from __future__ import annotations

import functools

import keras
import numpy as np
import pytest

from batchscope.catalogue import measure_settings
from batchscope.catalogue.measures import MEASURES
from batchscope.datasets import Examples
from batchscope.errors import UserError
from batchscope.measures import gradient_alignment, sharpness
from batchscope.measures.finished_run import FinishedRun
from batchscope.training.losses import Objective
from measured_run import COUNTS, RUN, measured, write_dataset, write_run, write_run_of_four_epochs

SETTINGS = measure_settings.parse_settings("gradient_alignment", "default")


def norms(vectors, draws=5):
    vectors = np.asarray(vectors, np.float64)
    return gradient_alignment.batch_norms(vectors @ vectors.T, draws)


def cosine(vectors):
    vectors = np.asarray(vectors, np.float64)
    return gradient_alignment.mean_cosine(vectors @ vectors.T)


def logistic_gradients(inputs, labels, weights):
    """Returns the gradients of single examples, (p - y) times the input and 1."""
    inputs = np.concatenate([inputs, np.ones((len(inputs), 1))], 1)
    return (1 / (1 + np.exp(-inputs @ weights)) - labels)[:, None] * inputs


def test_identical_gradients_keep_their_norm():
    found = norms(np.tile([3.0, 4.0], (32, 1)))
    assert found["batch_sizes"] == [1, 2, 4, 8, 16, 32]
    assert found["norm"] == pytest.approx([5.0] * 6, rel=1e-12)
    assert found["ratio"] == pytest.approx([1.0] * 6, rel=1e-12)
    assert cosine(np.tile([3.0, 4.0], (32, 1))) == pytest.approx(1.0, rel=1e-12)


def test_orthonormal_gradients_are_the_independent_ones():
    found = norms(np.eye(16))
    assert found["norm"] == pytest.approx([1.0, 2**-0.5, 0.5, 8**-0.5, 0.25], rel=1e-15)
    assert found["ratio"] == pytest.approx(found["independent"], rel=1e-15)
    assert found["independent"] == pytest.approx([1.0, 2**-0.5, 0.5, 8**-0.5, 0.25], rel=1e-15)
    assert cosine(np.eye(16)) == 0.0


def test_orthogonal_gradients_of_unequal_lengths_are_the_independent_ones():
    found = norms(np.diag([1.0, 2.0, 3.0, 10.0]))
    assert found["independent"] == pytest.approx(found["ratio"], rel=1e-15)
    assert found["independent"][-1] == pytest.approx(np.sqrt(114) / 16, rel=1e-15)  # not 1/2


def test_gradients_along_one_axis_with_random_signs_lie_on_the_independent_ones():
    """Their mean norm is that of a random walk, below the 1/sqrt(b) of their root mean square."""
    signs = np.random.default_rng(5).choice([-1.0, 1.0], 256)
    found = norms(np.outer(signs, [3.0, 4.0]), draws=20)
    few = slice(0, 4)  # larger batches are too few
    assert found["independent"][few] == pytest.approx(found["ratio"][few], rel=0.07)
    walk = [1.0, 0.5, 0.375, 70 / 256]  # E|sum of b signs| / b = C(b, b/2) / 2^b
    assert found["independent"][few] == pytest.approx(walk, rel=0.04)


def test_a_common_direction_is_above_the_independent_ones():
    vectors = np.random.default_rng(6).standard_normal((128, 50))
    for shift, above in ((0.0, False), (0.5, True)):
        found = norms(vectors + shift)
        ratio, independent = np.array(found["ratio"]), np.array(found["independent"])
        assert (ratio[1:] > 1.05 * independent[1:]).all() == above


def test_opposite_gradients_cancel_over_all():
    vector = np.random.default_rng(0).standard_normal(7)
    pairs = np.outer([1, -1] * 8, vector)
    found = norms(pairs)
    assert found["norm"][0] == pytest.approx(np.linalg.norm(vector), rel=1e-12)
    assert found["norm"][-1] == pytest.approx(0.0, abs=1e-7)
    # Of 15 others, 7 point the same way and 8 the other.
    assert cosine(pairs) == pytest.approx(-1 / 15, rel=1e-12)


@pytest.mark.parametrize("count", [2, 13, 16])
def test_norms_are_those_of_the_means(count):
    vectors = np.random.default_rng(1).standard_normal((count, 5)) + 0.5
    draws = 3
    found = norms(vectors, draws)
    random = np.random.default_rng(0)
    orders = [random.permutation(count) for _ in range(draws)]
    for size, norm in zip(found["batch_sizes"], found["norm"], strict=True):
        means = [
            vectors[order[start : start + size]].mean(0)
            for order in orders
            for start in range(0, count - size + 1, size)
        ]
        assert norm == pytest.approx(np.linalg.norm(means, axis=1).mean(), rel=1e-9)
    assert found["batch_sizes"][-1] == 2 ** (count.bit_length() - 1)


def test_norms_fall_with_the_batch_for_the_same_divisions():
    vectors = np.random.default_rng(2).standard_normal((64, 3))
    norm = norms(vectors, draws=1)["norm"]
    # The triangle inequality, each batch being two of the smaller ones.
    assert all(large <= small for small, large in zip(norm, norm[1:], strict=False))


def test_mean_cosine_of_all_pairs():
    vectors = np.random.default_rng(3).standard_normal((9, 4))
    unit = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    pairs = [unit[i] @ unit[j] for i in range(9) for j in range(i)]
    assert cosine(vectors) == pytest.approx(np.mean(pairs), rel=1e-12)


def test_gradients_of_length_zero():
    vectors = np.concatenate([np.zeros((2, 3)), np.tile([1.0, 0, 0], (2, 1))])
    assert cosine(vectors) == 1.0
    assert cosine(vectors[:3]) is None
    found = norms(np.zeros((4, 3)))
    assert found["norm"] == [0.0, 0.0, 0.0]
    assert np.isnan(found["ratio"]).all()


def test_gradients_that_are_not_finite():
    vectors = np.full((4, 3), np.nan)
    assert cosine(vectors) is None
    assert np.isnan(norms(vectors)["norm"]).all()


def test_gram_matrix_whatever_the_memory():
    vectors = np.random.default_rng(4).standard_normal((20, 50_000)).astype(np.float32)
    asked = []

    def gradient(index):
        asked.append(index)
        return vectors[index]

    exact = vectors.astype(np.float64) @ vectors.T.astype(np.float64)
    for memory_mb, passes in ((4, 1), (2, 2), (1, 4), (0.3, 14)):
        asked.clear()
        gram = gradient_alignment.gram_matrix(gradient, 20, 50_000, memory_mb)
        np.testing.assert_allclose(gram, exact, rtol=1e-12, atol=1e-8)
        assert gram.dtype == np.float64
        assert len(asked) == 20 * passes == 20 * gradient_alignment.passes(20, 50_000, memory_mb)


def test_too_little_memory_is_refused():
    with pytest.raises(UserError, match=r"memory_mb: received 1; at least 32 is expected"):
        gradient_alignment.gram_matrix(None, 256, 1_000_000, 1)
    assert gradient_alignment.passes(256, 1_000_000, 32) == 32


def test_logistic_regression_by_hand():
    keras.utils.set_random_seed(1)
    model = keras.Sequential([keras.Input((2, 2, 1)), keras.layers.Flatten()])
    model.add(keras.layers.Dense(1, activation="sigmoid"))
    random = np.random.default_rng(5)
    images = random.integers(0, 17, (16, 2, 2, 1), np.uint8)
    labels = random.integers(0, 2, 16)
    objective = Objective(model, Examples(images, labels, 1 / 16), chunk=1)
    gram = gradient_alignment.gram_matrix(objective.chunk_gradient, 16, 5, 1)
    gradients = logistic_gradients(images.reshape(16, 4) / 16, labels, objective.weights())
    np.testing.assert_allclose(gram, gradients @ gradients.T, rtol=1e-5, atol=1e-7)
    found = gradient_alignment.batch_norms(gram, 5)
    assert found["norm"] == pytest.approx(norms(gradients)["norm"], rel=1e-4)
    # All 16 in one batch: the gradient of the mean loss.
    _, mean = objective.loss_and_gradient(objective.weights())
    assert found["norm"][-1] == pytest.approx(np.linalg.norm(mean), rel=1e-5)


written = functools.partial(measured, "gradient_alignment")


@pytest.fixture(scope="module")
def results(tmp_path_factory):
    folder = tmp_path_factory.mktemp("results")
    write_run_of_four_epochs(folder, "middle", "final")
    return folder


@pytest.mark.slow
def test_record(results, tmp_path):
    record = written(results, tmp_path)
    assert record["status"] == "finished"
    assert tuple(record["values"]) == MEASURES["gradient_alignment"].columns_for(SETTINGS)
    places = record["places"]
    assert [place["place"] for place in places] == ["start", "middle", "end"]
    assert [place["epoch"] for place in places] == [0, 2, 4]
    for place in places:
        assert place["batch_sizes"] == [1, 2, 4, 8, 16, 32, 64]
        assert place["ratio"][0] == 1.0
        assert all(0 < ratio <= 1 for ratio in place["ratio"])
    start, middle, end = record["values"].values()
    assert all(-1 <= value <= 1 for value in (start, middle, end))
    # What was stored as the middle are the final weights.
    assert middle == end != start
    assert places[1] | {"place": "end", "epoch": 4} == places[2]
    assert record["passes"] == 1
    assert record["subset"]["examples"] == record["subset"]["available"] == COUNTS["train"]


@pytest.mark.slow
def test_single_norm_is_that_of_the_gradients(results, tmp_path):
    record = written(results, tmp_path, {"examples": 8, "draws": 2})
    loss, _ = sharpness.objective(FinishedRun(results, RUN), {"examples": 8})
    _, mean = loss.loss_and_gradient(loss.weights())
    assert record["places"][2]["norm"][-1] == pytest.approx(np.linalg.norm(mean), rel=1e-5)


def test_run_of_one_epoch_has_no_middle(tmp_path):
    write_dataset(tmp_path)
    write_run(tmp_path)
    record = written(tmp_path, tmp_path, {"examples": 4, "draws": 1})
    assert [place["place"] for place in record["places"]] == ["start", "end"]
    assert record["values"]["gradient_cosine_middle"] is None
    assert record["values"]["gradient_cosine_end"] is not None
