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
from batchscope.store import paths, records
from measured_run import COUNTS, DATASET, RUN, write_dataset, write_record, write_run


def measured(results, **settings):
    return measured_run.measured("evaluate", results, results, settings)


@pytest.mark.slow
def test_same_numbers_as_keras(tmp_path):
    write_dataset(tmp_path)
    model = write_run(tmp_path)
    record = measured(tmp_path)
    values = record["values"]
    assert tuple(values) == MEASURES["evaluate"].columns_for(record["settings"])
    assert record["counts"] == COUNTS
    model.compile(loss="sparse_categorical_crossentropy", metrics=["accuracy"])
    dataset = datasets.load(tmp_path, DATASET)
    for split in paths.SPLITS:
        images, labels = dataset.images(split) / 16.0, dataset.labels(split)
        loss, accuracy = model.evaluate(images, labels, verbose=0)
        assert values[f"{split}_loss"] == pytest.approx(loss, rel=1e-5)
        assert values[f"{split}_accuracy"] == pytest.approx(accuracy, abs=1e-6)
    assert values["generalisation_gap"] == values["test_loss"] - values["train_loss"]


def test_chunks_dropout_and_penalty():
    hidden = keras.layers.Dense(5, activation="relu", kernel_regularizer="l2")
    last = keras.layers.Dense(1, activation="sigmoid")
    model = keras.Sequential([keras.Input((4,)), hidden, keras.layers.Dropout(0.5), last])
    random = np.random.default_rng(0)
    images = random.standard_normal((5000, 4)).astype(np.float32)  # chunks of 2,048
    labels = random.integers(0, 2, 5000).astype(np.int32)
    loss, accuracy = evaluate.evaluator(model, 1.0, images.dtype)(images, labels)
    model.compile(loss="binary_crossentropy", metrics=["accuracy"])
    expected = model.evaluate(images, labels, batch_size=5000, verbose=0)
    assert loss == pytest.approx(expected[0], rel=1e-5)
    assert accuracy == pytest.approx(expected[1], abs=1e-6)


@pytest.fixture
def long_run(tmp_path):
    """A run of 9 epochs with a snapshot after the second, of its initial weights."""
    write_dataset(tmp_path)
    write_run(tmp_path)
    write_record(tmp_path, epochs_run=9)
    folder = paths.run_folder(tmp_path, RUN)
    initial = records.read_weights(folder / "initial.npz")
    for name in ("epochs/2", "best"):
        records.write_weights(folder / f"{name}.npz", *initial)
    return tmp_path


@pytest.mark.slow
def test_weights_after_an_epoch(long_run):
    final, early = measured(long_run), measured(long_run, epoch=2)
    assert early["values"] == measured(long_run, weights="best")["values"] != final["values"]
    assert (early["settings"]["epoch"], early["status"]) == (2, "finished")
    assert measured(long_run, epoch=9)["values"] == final["values"]  # the last one's are final.npz


def test_an_epoch_that_was_never_reached_is_no_failure_and_one_without_weights_is(long_run):
    record = measured(long_run, epoch=16)
    assert record["status"] == "finished" and "epoch 9" in record["message"]
    assert record["values"] == dict.fromkeys(MEASURES["evaluate"].columns)
    with pytest.raises(UserError, match="3.npz: missing"):
        measured(long_run, epoch=3)


@pytest.mark.parametrize(
    ("train", "test", "gap", "ratio"),
    [
        (0.5, 2.0, 1.5, 4.0),
        *((vanishing, 0.5, 0.5 - vanishing, None) for vanishing in (0.0, 1e-12, 1e-7)),
        (float("nan"), 0.5, None, None),
    ],
)
def test_gaps_by_hand(train, test, gap, ratio):
    metrics = {"train_loss": train, "train_accuracy": 0.75, "test_loss": test, "test_accuracy": 0.5}
    assert evaluate.generalisation_gaps(metrics) == {
        "generalisation_gap": gap,
        "generalisation_gap_accuracy": 0.25,
        "generalisation_gap_ratio": ratio,
    }


def test_every_entry_has_its_module():
    for measure in MEASURES:
        assert hasattr(measures.module(measure), "measure_run")
    with pytest.raises(ValueError, match="Expected one of"):
        measures.module("flatness")
