"""The gradient noise scale, against vectors and networks whose answers are known."""

import math

import keras
import numpy as np
import pytest
import tensorflow as tf

from batchscope.core import disk
from batchscope.measures import noise_scale
from batchscope.measures.measure_job import FinishedRun
from batchscope.store import paths
from batchscope.training import losses
from measured_run import COUNTS, DATASET, RUN, measured, write_run_of_four_epochs

NAMES = (
    "gradient_norm_squared",
    "gradient_variance",
    "gradient_noise_scale",
    "gradient_noise_scale_error",
)


def of_vectors(vectors):
    vectors = np.asarray(vectors)
    found, _ = noise_scale.inner_products(vectors.__getitem__, *vectors.shape, np.arange(1))
    return noise_scale.estimate(*found)


def by_pairs(gradients):
    """Returns o and tr Sigma by their definitions: means over all pairs, and the covariance."""
    gram = gradients @ gradients.T
    pairs = gram[~np.eye(len(gram), dtype=bool)]
    return pairs.mean(), np.trace(np.cov(gradients.T))


@pytest.mark.parametrize(
    ("vectors", "expected"),
    [
        ([[3.0, 0.0], [1.0, 0.0], [2.0, 1.0], [2.0, -1.0]], (11 / 3, 4 / 3, 4 / 11)),
        (np.tile([3.0, 4.0], (8, 1)), (25.0, 0.0, 0.0)),
        (np.full((4, 2), np.nan), (math.nan,) * 3),
    ],
)
def test_known_gradients(vectors, expected):
    assert of_vectors(vectors)[:3] == pytest.approx(expected, rel=1e-15, abs=1e-12, nan_ok=True)


def test_all_pairs_give_the_same_and_the_jackknife_leaves_out_one_after_the_other():
    vectors = np.random.default_rng(2).standard_normal((12, 5)) + 1
    found = of_vectors(vectors)
    assert found[:2] == pytest.approx(by_pairs(vectors), rel=1e-12)
    others = [by_pairs(np.delete(vectors, index, axis=0)) for index in range(12)]
    ratios = np.array([variance / norm_squared for norm_squared, variance in others])
    expected = math.sqrt(11 / 12 * ((ratios - ratios.mean()) ** 2).sum())
    assert found.error == pytest.approx(expected, rel=1e-10)


@pytest.fixture(scope="module")
def resolved(tmp_path_factory):
    folder = tmp_path_factory.mktemp("results")
    write_run_of_four_epochs(folder, "2", "initial")
    # Mostly of one class: of noise alone nothing would be resolved.
    labels = np.where(np.arange(COUNTS["train"]) % 5, 0, 1).astype(np.int32)
    data = paths.dataset_folder(folder, DATASET)
    np.save(data / "train_labels.npy", labels)
    record = disk.read_json(data / "record.json")
    record["sha256"]["train_labels.npy"] = disk.file_sha256(data / "train_labels.npy")
    disk.write_json(data / "record.json", record)
    return folder


def written(results, tmp_path, **settings):
    return measured("noise_scale", results, tmp_path, settings)


def single_gradients(results, which, indices):
    """Returns the gradients of single examples by a loop of Keras's own loss, float64."""
    run = FinishedRun(results, RUN)
    model = run.model(which)
    images, labels = run.data.images("train"), run.data.labels("train")

    @tf.function(autograph=False)
    def gradients(image, label):
        with tf.GradientTape() as tape:
            probabilities = model(image[None], training=False)
            loss = keras.losses.sparse_categorical_crossentropy(label[None], probabilities)
        return tape.gradient(loss, [each.value for each in model.trainable_variables])

    found = []
    for index in indices:
        image = tf.constant(images[index].astype(np.float32) * run.data.scale)
        each = gradients(image, tf.constant(labels[index]))
        found.append(np.concatenate([np.ravel(part) for part in each]))
    return np.array(found, np.float64)


@pytest.mark.slow
def test_a_loop_over_single_examples_gives_the_same(resolved, tmp_path):
    record = written(resolved, tmp_path)
    for which, suffix in (("initial", "_start"), ("final", "")):
        gradients = single_gradients(resolved, which, range(COUNTS["train"]))
        norm_squared, variance = by_pairs(gradients)
        values = [record["values"][name + suffix] for name in NAMES]
        assert values[:2] == pytest.approx([norm_squared, variance], rel=1e-4)
        assert values[2] == pytest.approx(variance / norm_squared, rel=1e-4)
        assert values[3] == pytest.approx(of_vectors(gradients).error, rel=1e-3)


@pytest.mark.slow
def test_after_an_epoch(resolved, tmp_path):
    default = written(resolved, tmp_path)["values"]
    early = written(resolved, tmp_path, epoch=2)["values"]  # stored there: the initial weights
    last = written(resolved, tmp_path, epoch=4)["values"]
    for name in NAMES:
        assert early[name] == default[f"{name}_start"] != default[name] == last[name]
        assert early[f"{name}_start"] is None
    beyond = written(resolved, tmp_path, epoch=5)
    assert set(beyond["values"].values()) == {None} and "epoch 4" in beyond["message"]


def test_noise_alone(results, tmp_path):
    values = written(results, tmp_path, examples=0)["values"]  # of random classes
    assert values["gradient_norm_squared"] < 0 < values["gradient_variance"]
    assert values["gradient_noise_scale"] is None and values["gradient_noise_scale_error"] is None


def test_normalisation_layers_alone(results):
    rows = FinishedRun(results, RUN).data.examples("train").rows(np.arange(12))
    layers = keras.layers
    inside = keras.Sequential([layers.LayerNormalization(), layers.Dense(3)])
    model = keras.Sequential(
        [keras.Input((8, 8, 1)), layers.BatchNormalization(), layers.Flatten(), inside]
    )
    loss = losses.Objective(model, rows, 1)
    # gamma and beta of one channel, of 64 values, then the kernel and bias of the last layer.
    part = noise_scale.normalisation_indices(loss)
    assert part.tolist() == [*range(2 + 2 * 64)]
    whole, alone = noise_scale.estimate_noise_scale(loss)
    gradients = np.stack([loss.chunk_gradient(at) for at in range(12)]).astype(float)
    for found, own in ((whole, gradients), (alone, gradients[:, part])):
        assert found[:2] == pytest.approx(by_pairs(own), rel=1e-6)
    plain = keras.Sequential([keras.Input((8, 8, 1)), layers.Flatten(), layers.Dense(3)])
    whole, alone = noise_scale.estimate_noise_scale(losses.Objective(plain, rows, 1))
    assert math.isfinite(whole.variance) and math.isnan(alone.scale)
