"""Losses, accuracies and generalisation gaps of a run."""

from __future__ import annotations

import keras
import numpy as np
import pytest

import measured_run
from batchscope import datasets, measures
from batchscope.catalogue.measures import MEASURES
from batchscope.errors import UserError
from batchscope.measures import evaluate
from batchscope.store import records
from measured_run import COUNTS, DATASET, RUN, write_dataset, write_record, write_run


@pytest.fixture(scope="module")
def results(tmp_path_factory):
    folder = tmp_path_factory.mktemp("results")
    write_dataset(folder)
    model = write_run(folder)
    return folder, model


@pytest.mark.slow
def test_same_numbers_as_keras(results, tmp_path):
    folder, model = results
    record = measured_run.measured("evaluate", folder, tmp_path)
    values = record["values"]
    assert tuple(values) == MEASURES["evaluate"].columns_for(record["settings"])
    assert record["counts"] == COUNTS
    model.compile(loss="sparse_categorical_crossentropy", metrics=["accuracy"])
    dataset = datasets.load(folder, DATASET)
    for split in records.SPLITS:
        loss, accuracy = model.evaluate(
            dataset.images(split) / 16.0, dataset.labels(split), verbose=0
        )
        assert values[f"{split}_loss"] == pytest.approx(loss, rel=1e-5)
        assert values[f"{split}_accuracy"] == pytest.approx(accuracy, abs=1e-6)
    difference = values["test_loss"] - values["train_loss"]
    assert values["generalisation_gap"] == difference
    assert values["generalisation_gap_ratio"] == values["test_loss"] / values["train_loss"]
    accuracies = values["train_accuracy"] - values["test_accuracy"]
    assert values["generalisation_gap_accuracy"] == accuracies


def test_chunks_dropout_and_penalty():
    hidden = keras.layers.Dense(5, activation="relu", kernel_regularizer="l2")
    last = keras.layers.Dense(1, activation="sigmoid")
    model = keras.Sequential([keras.Input((4,)), hidden, keras.layers.Dropout(0.5), last])
    random = np.random.default_rng(0)
    images = random.standard_normal((1300, 4)).astype(np.float32)
    labels = random.integers(0, 2, 1300).astype(np.int32)
    loss, accuracy = evaluate.evaluator(model, 1.0, images.dtype)(images, labels)
    model.compile(loss="binary_crossentropy", metrics=["accuracy"])
    expected = model.evaluate(images, labels, batch_size=1300, verbose=0)
    assert loss == pytest.approx(expected[0], rel=1e-5)
    assert accuracy == pytest.approx(expected[1], abs=1e-6)


@pytest.fixture
def long_run(tmp_path):
    """A run of 9 epochs with weights after the second, which are those before it was moved."""
    write_dataset(tmp_path)
    write_run(tmp_path)
    folder = records.run_folder(tmp_path, RUN)
    write_record(tmp_path, epochs_run=9)
    records.write_weights(folder / "epochs" / "2.npz", *records.read_weights(folder / "best.npz"))
    records.write_weights(folder / "best.npz", *records.read_weights(folder / "initial.npz"))
    return tmp_path


def measured(results, **settings):
    return measured_run.measured("evaluate", results, results, settings)


@pytest.mark.slow
def test_weights_after_an_epoch(long_run):
    final, early = measured(long_run), measured(long_run, epoch=2)
    assert early["values"] == final["values"]  # the fixture's weights are the same
    assert (early["settings"]["epoch"], early["status"]) == (2, "finished")
    folder = records.run_folder(long_run, RUN)
    initial = records.read_weights(folder / "initial.npz")
    records.write_weights(folder / "epochs" / "2.npz", *initial)
    early = measured(long_run, weights="best", epoch=2)
    assert early["values"] == measured(long_run, weights="best")["values"] != final["values"]
    assert measured(long_run, epoch=9)["values"] == final["values"]  # the last one's are final.npz


def test_an_epoch_that_a_training_never_reached_is_no_failure(long_run):
    record = measured(long_run, epoch=16)
    assert record["status"] == "finished"
    assert tuple(record["values"]) == tuple(MEASURES["evaluate"].columns)
    assert set(record["values"].values()) == {None}
    assert record["message"] == "The training stopped after epoch 9."


def test_an_epoch_without_weights_is_refused(long_run):
    with pytest.raises(UserError, match="3.npz: missing; run snakemake to make it"):
        measured(long_run, epoch=3)


def gaps(train_loss, test_loss):
    metrics = {"train_loss": train_loss, "train_accuracy": 0.75}
    return evaluate.generalisation_gaps(metrics | {"test_loss": test_loss, "test_accuracy": 0.5})


@pytest.mark.parametrize(
    ("losses", "gap", "ratio"),
    [
        ((0.5, 2.0), 1.5, 4.0),
        *(((vanishing, 0.5), 0.5 - vanishing, None) for vanishing in (0.0, 1e-12, 1e-7)),
        ((float("nan"), 0.5), None, None),
    ],
)
def test_gaps_by_hand(losses, gap, ratio):
    assert gaps(*losses) == {
        "generalisation_gap": gap,
        "generalisation_gap_accuracy": 0.25,
        "generalisation_gap_ratio": ratio,
    }


def test_every_entry_has_its_module():
    for measure in MEASURES:
        module = measures.module(measure)
        assert hasattr(module, "measure_run")
    with pytest.raises(ValueError, match="Expected one of"):
        measures.module("flatness")
