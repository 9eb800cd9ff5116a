"""Norms of mean gradients and their cosines, against vectors whose answers are known."""

import numpy as np
import pytest

from batchscope.measures import gradient_alignment
from batchscope.measures.measure_job import FinishedRun
from measured_run import RUN, measured, write_run_of_four_epochs


def norms(vectors, draws=5):
    vectors = np.asarray(vectors, np.float64)
    return gradient_alignment.batch_norms(vectors @ vectors.T, draws)


def cosine(vectors):
    vectors = np.asarray(vectors, np.float64)
    return gradient_alignment.mean_cosine(vectors @ vectors.T)


PAIRS = np.outer([1, -1] * 8, np.random.default_rng(0).standard_normal(7))


@pytest.mark.parametrize(
    ("vectors", "ratio", "independent", "mean_cosine"),
    [
        (np.tile([3.0, 4.0], (8, 1)), [1.0] * 4, None, 1.0),
        (np.eye(8), [1.0, 2**-0.5, 0.5, 8**-0.5], [1.0, 2**-0.5, 0.5, 8**-0.5], 0.0),
        # Of unequal lengths: not 1/2 in the end.
        (np.diag([1.0, 2.0, 3.0, 10.0]), None, [1.0, None, np.sqrt(114) / 16], 0.0),
        # They cancel over all; of 15 others, 7 point the same way and 8 the other.
        (PAIRS, [1.0, None, None, None, 0.0], None, -1 / 15),
    ],
    ids=["identical", "orthonormal", "orthogonal", "opposite"],
)
def test_known_gradients(vectors, ratio, independent, mean_cosine):
    found = norms(vectors)
    assert found["batch_sizes"] == [2**power for power in range(len(found["norm"]))]
    assert found["norm"][0] == pytest.approx(np.linalg.norm(vectors, axis=1).mean(), rel=1e-12)
    for name, expected in (("ratio", ratio), ("independent", independent)):
        for value, number in zip(found[name], expected or [], strict=bool(expected)):
            assert number is None or value == pytest.approx(number, rel=1e-12, abs=1e-7)
    assert cosine(vectors) == pytest.approx(mean_cosine, rel=1e-12)


@pytest.mark.parametrize("count", [2, 13])
def test_norms_and_cosines_are_those_of_the_vectors(count):
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
    unit = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    pairs = [unit[i] @ unit[j] for i in range(count) for j in range(i)]
    assert cosine(vectors) == pytest.approx(np.mean(pairs), rel=1e-12)


def test_gradients_without_a_direction():
    vectors = np.concatenate([np.zeros((2, 3)), np.tile([1.0, 0, 0], (2, 1))])
    assert cosine(vectors) == 1.0
    assert cosine(vectors[:3]) is None
    assert np.isnan(norms(np.zeros((4, 3)))["ratio"]).all()
    vectors = np.full((4, 3), np.nan)
    assert cosine(vectors) is None
    assert np.isnan(norms(vectors)["norm"]).all()


def test_random_signs_of_equal_gradients():
    means_of_signs = [1, 1 / 2, 3 / 8, 35 / 128]  # expected |mean| of 1, 2, 4 and 8 signs
    assert norms(np.ones((8, 3)), 300)["independent"] == pytest.approx(means_of_signs, abs=0.03)


@pytest.mark.parametrize(("memory_mb", "passes"), [(4, 1), (2, 2), (1, 4), (0.3, 14)])
def test_gram_matrix_in_passes(memory_mb, passes, monkeypatch):
    monkeypatch.setattr(gradient_alignment, "MEMORY_BYTES", memory_mb * 10**6)
    vectors = np.random.default_rng(4).standard_normal((20, 50_000)).astype(np.float32)
    indices = []

    def gradient(index):
        indices.append(index)
        return vectors[index]

    gram = gradient_alignment.gram_matrix(gradient, 20, 50_000)
    exact = vectors.astype(np.float64) @ vectors.T.astype(np.float64)
    np.testing.assert_allclose(gram, exact, rtol=1e-12, atol=1e-8)
    assert len(indices) == 20 * passes


@pytest.mark.slow
def test_record(tmp_path):
    write_run_of_four_epochs(tmp_path, "middle", "final")
    record = measured("gradient_alignment", tmp_path, tmp_path)
    places = record["places"]
    assert [(place["place"], place["epoch"]) for place in places] == [
        *(("start", 0), ("middle", 2), ("end", 4))
    ]
    # What was stored as the middle are the final weights.
    start, middle, end = record["values"].values()
    assert middle == end != start
    assert places[1] | {"place": "end", "epoch": 4} == places[2]
    # All examples in one batch: the gradient of the mean loss.
    few = measured("gradient_alignment", tmp_path, tmp_path, {"examples": 8, "draws": 2})
    loss = FinishedRun(tmp_path, RUN).training_loss({"examples": 8})
    _, mean = loss.loss_and_gradient(loss.weights())
    assert few["places"][2]["norm"][-1] == pytest.approx(np.linalg.norm(mean), rel=1e-5)


def test_run_of_one_epoch_has_no_middle(results, tmp_path):
    record = measured("gradient_alignment", results, tmp_path, {"examples": 4, "draws": 1})
    assert [place["place"] for place in record["places"]] == ["start", "end"]
    assert record["values"]["gradient_cosine_middle"] is None
    assert record["values"]["gradient_cosine_end"] is not None
