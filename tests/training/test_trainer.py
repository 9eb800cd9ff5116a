"""Training: what stops it and what is kept; its rates, its updates, and running out of memory."""

import os
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import tensorflow as tf

from batchscope.core.errors import UserError
from batchscope.store import records, weights
from batchscope.training import step_loop, trainer
from batchscope.training.checkpoint import Progress
from digit_runs import arrays, keep, record, run_name, train


def history(folder: Path) -> list[list[str]]:
    """Rows of a history without the seconds, which no two runs share."""
    rows = [row.split(",") for row in (folder / "history.csv").read_text().splitlines()]
    seconds = rows[0].index("seconds")
    return [row[:seconds] + row[seconds + 1 :] for row in rows]


def column(folder: Path, name: str) -> list[float]:
    header, *rows = history(folder)
    return [float(row[header.index(name)]) for row in rows]


@pytest.mark.slow
def test_distances_of_the_epochs(dropout_run):
    folder = dropout_run[0] / "runs" / dropout_run[1]
    files, names = records.RunFiles(folder), ("initial", "epochs/1", "epochs/2", "final")
    start, first, second, last = (files.weights(name)[0] for name in names)
    moved = [weights.distance(start, first), weights.distance(first, second)]
    assert column(folder, "epoch_distance")[:2] == moved
    assert column(folder, "weight_distance")[-1] == weights.distance(start, last)


@pytest.mark.slow
def test_the_target_loss_stops_a_training(digit_results):
    adam = {"epochs": 3, "optimizer": "adam", "learning_rate": 0.001}
    run = run_name(**adam)
    keep(digit_results, run, 2)
    assert train(digit_results, run)["reached_target"] is None
    target = column(digit_results / "runs" / run, "train_loss")[1]
    stopped = run_name(**adam, target_train_loss=target, patience=1)
    done = train(digit_results, stopped)
    assert (done["status"], done["stop_reason"]) == ("finished", "train_loss")
    assert (done["epochs_run"], done["reached_target"]) == (2, True)
    left = arrays(digit_results / "runs" / run / "epochs" / "2.npz")
    right = arrays(digit_results / "runs" / stopped / "final.npz")
    assert all(np.array_equal(left[key], right[key]) for key in left)


@pytest.mark.parametrize(
    ("mean", "at_the_end", "reached"),
    [
        (0.5, 0.4, True),
        (0.5, 0.9, False),  # an update threw the last weights off
        (0.6, 0.4, False),
        (0.5, float("nan"), False),
    ],
)
def test_a_target_loss_is_reached_by_the_epoch_and_by_its_last_weights(mean, at_the_end, reached):
    trained = trainer.Training.__new__(trainer.Training)
    trained.factors = {"target_train_loss": 0.5}
    trained.progress = Progress(epoch=7, history=[{"train_loss": mean}])
    trained._training_loss = SimpleNamespace(evaluate=lambda: (at_the_end, {}))
    assert trained._loss_at_target() == (at_the_end if reached else None)


def test_divergence_is_a_result(digit_results):
    run = run_name(learning_rate=1e6, epochs=5, update_norms=True)
    done = train(digit_results, run)
    assert (done["status"], done["stop_reason"]) == ("diverged", "diverged")
    assert done["epochs_run"] < 5
    norms = arrays(digit_results / "runs" / run / "updates.npz")["update_norms"]
    assert len(norms) == done["steps_run"]


def test_patience_stops_and_the_best_weights_are_kept(digit_results):
    # Adam at this rate soon jumps about, and never diverges: its steps are bounded.
    run = run_name(optimizer="adam", learning_rate=0.02, patience=2, epochs=60, batch_size=16)
    done = train(digit_results, run)
    losses = column(digit_results / "runs" / run, "validation_loss")
    assert history(digit_results / "runs" / run)[0][0] == "epoch"
    best = int(np.argmin(losses)) + 1
    assert done["best_epoch"] == best
    assert done["best_validation_loss"] == losses[best - 1]
    assert (done["status"], done["stop_reason"]) == ("finished", "patience")
    assert done["epochs_run"] == best + 2 < 60


def test_equal_weights_are_stored_once_and_the_last_smaller_batch_is_trained_on(digit_results):
    run, other = run_name(epochs=1, batch_size=1000), run_name(epochs=1, batch_size=300)
    assert train(digit_results, run)["steps_run"] == 2  # 1,087 examples: 1,000 and 87
    folder, beside = (digit_results / "runs" / name for name in (run, other))
    assert not list(folder.glob("epochs/*"))  # nothing reads earlier weights
    assert os.path.samefile(folder / "final.npz", folder / "best.npz")
    train(digit_results, other)
    assert os.path.samefile(folder / "initial.npz", beside / "initial.npz")
    left, right = arrays(folder / "initial.npz"), arrays(folder / "final.npz")
    assert list(left) == list(right) and any((left[key] != right[key]).any() for key in left)
    assert {key: norms.shape for key, norms in arrays(folder / "updates.npz").items()} == {
        "update_norms": (0,)  # not asked for
    }


def test_a_batch_above_the_training_set_is_refused(digit_results):
    run = run_name(batch_size=1088, epochs=1)
    with pytest.raises(UserError, match="^batch_size: Expected at most 1087, "):
        trainer.train(trainer.TrainingRun(digit_results, run))
    assert not any((digit_results / "runs" / run).glob("*"))  # its lock needed the folder


ONEDNN_REFUSAL = "Operation received an exception:Status: 1, message: could not create a primitive"


@pytest.mark.parametrize(
    ("kind", "refusal", "described"),
    [
        (None, "OOM when allocating tensor", True),  # the allocator's own
        # No memory is left for TensorFlow's description of the refusal.
        (tf.errors.ResourceExhaustedError, "OOM when allocating tensor", False),
        (tf.errors.InternalError, "Could not create cudnn handle: CUDNN_STATUS_ALLOC_FAILED", True),
        (tf.errors.AbortedError, ONEDNN_REFUSAL, True),
    ],
)
def test_running_out_of_memory_is_recorded(kind, refusal, described, monkeypatch, digit_results):
    def refuse(self, *arguments):
        if kind is None:
            tf.zeros(10**15)  # more bytes than there are addresses
        try:
            raise kind(None, None, f"Graph execution error:\n\n{refusal}\nmore")
        finally:
            if not described:
                raise ValueError("Failed to serialize proto")

    run = run_name(epochs=2, batch_size=50, update_norms=True)
    monkeypatch.setattr(step_loop.StepLoop, "run", refuse)
    monkeypatch.setattr(trainer.Training, "stop_on_signals", lambda self: None)
    assert trainer.train(trainer.TrainingRun(digit_results, run)) == "out_of_memory"
    done = record(digit_results, run)
    assert refusal in done["message"] if kind is None else done["message"] == refusal
    assert arrays(digit_results / "runs" / run / "final.npz") == {}
    assert arrays(digit_results / "runs" / run / "updates.npz")["update_norms"].shape == (0,)
