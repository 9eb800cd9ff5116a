"""Losses, accuracies and generalisation gaps of a run."""

import pytest

import measured_run
from batchscope.core.errors import UserError
from batchscope.measures import evaluate
from batchscope.measures.measure_job import FinishedRun
from batchscope.store import paths, records
from measured_run import RUN, write_dataset, write_record, write_run


def measured(results, folder, **settings):
    return measured_run.measured("evaluate", results, folder, settings)


@pytest.mark.slow
def test_same_numbers_as_keras(results, tmp_path):
    run = FinishedRun(results, RUN)
    values, model = measured(results, tmp_path)["values"], run.model("final")
    model.compile(loss="sparse_categorical_crossentropy", metrics=["accuracy"])
    for split in paths.SPLITS:
        images, labels = run.data.images(split) / 16.0, run.data.labels(split)
        loss, accuracy = model.evaluate(images, labels, verbose=0)
        assert values[f"{split}_loss"] == pytest.approx(loss, rel=1e-5)
        assert values[f"{split}_accuracy"] == pytest.approx(accuracy, abs=1e-6)
    assert values["generalisation_gap"] == values["test_loss"] - values["train_loss"]


@pytest.mark.slow
def test_weights_after_an_epoch_of_the_run_or_beyond_it(tmp_path):
    """A run of 9 epochs with a snapshot after the second, of its initial weights."""
    write_dataset(tmp_path)
    write_run(tmp_path)
    write_record(tmp_path, epochs_run=9)
    folder = paths.run_folder(tmp_path, RUN)
    initial = records.RunFiles(folder).weights("initial")
    for name in ("epochs/2", "best"):
        records.write_weights(folder / f"{name}.npz", *initial)
    final, early = measured(tmp_path, tmp_path), measured(tmp_path, tmp_path, epoch=2)
    assert (
        early["values"] == measured(tmp_path, tmp_path, weights="best")["values"] != final["values"]
    )
    assert (early["settings"]["epoch"], early["status"]) == (2, "finished")
    assert measured(tmp_path, tmp_path, epoch=9)["values"] == final["values"]  # the last: final.npz
    never = measured(tmp_path, tmp_path, epoch=16)
    assert never["status"] == "finished" and "epoch 9" in never["message"]
    assert never["values"] == dict.fromkeys(final["values"])
    with pytest.raises(UserError, match="3.npz: missing"):
        measured(tmp_path, tmp_path, epoch=3)


@pytest.mark.parametrize(
    ("train", "test", "gap", "ratio"),
    [
        (0.5, 2.0, 1.5, 4.0),
        *((vanishing, 0.5, 0.5 - vanishing, None) for vanishing in (0.0, 1e-7)),
        (float("nan"), 0.5, None, None),
    ],
)
def test_gaps_by_hand(train, test, gap, ratio):
    metrics = {"train_loss": train, "train_accuracy": 0.75, "test_loss": test, "test_accuracy": 0.5}
    assert evaluate.generalisation_gaps(metrics, "accuracy") == {
        "generalisation_gap": gap,
        "generalisation_gap_accuracy": 0.25,
        "generalisation_gap_ratio": ratio,
    }
