"""The line between two minimisers, against what is known at its ends and of linear networks."""

import numpy as np
import pytest
import tensorflow as tf

from batchscope import datasets
from batchscope.core import disk
from batchscope.core.errors import UserError
from batchscope.datasets.prepared import ModelInput
from batchscope.measures import line, measure_job
from batchscope.measures.measure_job import FinishedRun
from batchscope.store import paths, records
from batchscope.study import names
from batchscope.training import losses, models
from measured_run import DATASET, RUN, write_dataset, write_record
from own_model import of, own

NORMALISED = of(
    "keras.Input(input_shape), layers.Conv2D(4, 3, name='conv'), layers.BatchNormalization(), "
    "layers.Activation('relu'), layers.Flatten(), layers.Dropout(0.5), layers.Dense(8), "
    "layers.BatchNormalization(), layers.Dense(classes, activation='softmax')"
)
LINEAR = of("keras.Input(input_shape), layers.Flatten(), layers.Dense(classes, name='output')")


def run_name(**factors):
    return names.run_name({**names.parse_run(RUN), **factors})


def write_run(results, run, seed, model_file):
    """Writes a run whose weights are its initial ones, moved by the seed's noise."""
    folder = paths.run_folder(results, run)
    folder.mkdir(parents=True)
    write_record(results, run, sha256={"initial.npz": "one"})
    token = names.parse_run(run)["model"]
    trainable, state = models.weights(models.build(token, ModelInput((8, 8, 1), 3), 3, model_file))
    random = np.random.default_rng(seed)
    # A zero of either sign is a weight whose bits a sum would not keep.
    moved = {
        key: (array + 0.2 * random.standard_normal(array.shape)).astype(np.float32)
        for key, array in trainable.items()
    }
    next(iter(moved.values())).flat[0] = -0.0
    noisy = {key: array + np.float32(random.uniform(0, 1)) for key, array in state.items()}
    records.write_weights(folder / "final.npz", moved, noisy)
    records.write_weights(folder / "best.npz", trainable, state)


def pair(results, text):
    """Write two runs of a model file; return their names and the file."""
    write_dataset(results)
    model_file, model = own(results, text)
    small, large = run_name(model=model), run_name(model=model, batch_size=64)
    write_run(results, small, 6, model_file)
    write_run(results, large, 7, model_file)
    return small, large, model_file


def measured(results, small, large, model_file=None, **settings):
    name = names.settings_name("line", settings)
    output = paths.pair_path(results, small, large, "line", name)
    runs = [FinishedRun(results, run, model_file) for run in (small, large)]
    measure_job.write("line", runs, name, output)
    return disk.read_json(output)


def test_positions():
    alphas = line.positions(25)
    assert alphas.tolist() == [-1 + 0.125 * i for i in range(25)]
    inexact = line.positions(148)
    assert 0.0 in inexact and 1.0 in inexact
    assert 0.0 not in np.linspace(-1.0, 2.0, 148)
    assert 0.0 not in line.positions(6)


def test_between_by_hand():
    small = {"a/kernel": np.array([1.0, -0.0, 3.0], np.float32)}
    large = {"a/kernel": np.array([2.0, 5.0, np.float32(0.1)], np.float32)}
    assert line.interpolate(small, large, 0.0)["a/kernel"].tobytes() == small["a/kernel"].tobytes()
    assert line.interpolate(small, large, 1.0)["a/kernel"].tobytes() == large["a/kernel"].tobytes()
    middle = line.interpolate(small, large, 0.25)["a/kernel"]
    assert middle.dtype == np.float32
    assert middle.tolist() == [1.25, 1.25, np.float32(2.25 + 0.25 * float(np.float32(0.1)))]


def test_linear_network(tmp_path):
    small, large, model_file = pair(tmp_path, LINEAR)
    record = measured(tmp_path, small, large, model_file, points=2, weights="best")
    # Both runs' best weights are the initial ones here.
    assert record["train_loss"][0] == record["train_loss"][1]
    record = measured(tmp_path, small, large, model_file, points=7, examples=25)
    assert (record["run"], record["other"], record["values"]) == (small, large, {})
    kernels, biases = [], []
    for run in (small, large):
        weights, _ = records.RunFiles(paths.run_folder(tmp_path, run)).weights("final")
        kernels.append(weights["output/kernel"].astype(np.float64))
        biases.append(weights["output/bias"].astype(np.float64))
    dataset = datasets.load(tmp_path, DATASET)
    for split in paths.SPLITS:
        rows = measure_job.subset(len(dataset.labels(split)), 25)
        x = dataset.images(split)[rows].reshape(-1, 64) / 16.0
        ends = [x @ kernel + bias for kernel, bias in zip(kernels, biases, strict=True)]
        labels = dataset.labels(split)[rows]
        for index, alpha in enumerate(record["alphas"]):
            logits = (1 - alpha) * ends[0] + alpha * ends[1]
            chosen = logits[np.arange(len(labels)), labels]
            loss = (np.logaddexp.reduce(logits, axis=1) - chosen).mean()
            assert record[f"{split}_loss"][index] == pytest.approx(loss, rel=1e-5)
            accuracy = (logits.argmax(1) == labels).mean()
            assert record[f"{split}_accuracy"][index] == pytest.approx(accuracy)


@pytest.fixture(scope="module")
def normalised(tmp_path_factory):
    results = tmp_path_factory.mktemp("normalised")
    return results, *pair(results, NORMALISED)


@pytest.mark.slow
def test_ends_are_evaluations_after_the_same_estimate(normalised):
    results, small, large, model_file = normalised
    record = measured(results, small, large, model_file, points=4)
    dataset = datasets.load(results, DATASET)
    for position, run in ((1, small), (2, large)):
        model = FinishedRun(results, run, model_file).model("final")
        train = losses.Objective(model, dataset.examples("train"))
        stored = train.evaluate()[0]
        line.statistics_estimator(model, dataset.examples("train"), 70)()
        for split in paths.SPLITS:
            loss, metrics = train.with_examples(dataset.examples(split)).evaluate()
            assert record[f"{split}_loss"][position] == loss
            assert record[f"{split}_accuracy"][position] == metrics["accuracy"]
        assert record["train_loss"][position] != stored


def test_moving_statistics_are_those_of_the_chunks_by_their_size(normalised):
    results, small, _, model_file = normalised
    run = FinishedRun(results, small, model_file)
    model, examples = run.model("final"), run.data.examples("train")
    images = np.asarray(examples.images)
    # All in one chunk: what training mode gives.
    line.statistics_estimator(model, examples, 70)()
    scaled = tf.constant(images / 16, tf.float32)
    inference = model(scaled, training=False).numpy()
    np.testing.assert_allclose(inference, model(scaled, training=True).numpy(), atol=1e-5)
    first = next(layer for layer in model.layers if "batch_normalization" in layer.name)
    # An overflow at one point of a line must not stay for the next.
    first.moving_mean.assign(np.full(4, np.nan))
    line.statistics_estimator(model, examples, 40)()
    inputs = model.get_layer("conv")(images.astype(np.float32) / 16).numpy().astype(np.float64)
    np.testing.assert_allclose(first.moving_mean, inputs.mean((0, 1, 2)), rtol=1e-4, atol=1e-6)
    variance = (40 * inputs[:40].var((0, 1, 2)) + 30 * inputs[40:].var((0, 1, 2))) / 70
    np.testing.assert_allclose(first.moving_variance, variance, rtol=1e-4)


def test_runs_of_other_initial_weights_are_refused(tmp_path):
    write_dataset(tmp_path)
    other = run_name(batch_size=64)
    for run, initial in ((RUN, "one"), (other, "two")):
        write_record(tmp_path, run, sha256={"initial.npz": initial})
    with pytest.raises(UserError, match="bs=64.*, whose initial weights differ"):
        measured(tmp_path, RUN, other)
