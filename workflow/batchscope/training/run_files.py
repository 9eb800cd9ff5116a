"""The files of a run that is over: weights, history and record."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from batchscope import disk
from batchscope.catalogue import kept_epochs, optimizer_constants, weight_counts
from batchscope.catalogue.versions import VERSIONS
from batchscope.host import description
from batchscope.store import memory_kills, records
from batchscope.training import models, replicas
from batchscope.training.optimizers import effective_learning_rate

if TYPE_CHECKING:
    from batchscope.training.trainer import Training


def write(training: Training, status: str, reason: str, message: str) -> None:
    """Writes weights, history and record of a run that is over; the record last."""
    out_of_memory = status == records.OUT_OF_MEMORY
    trainable, state = ({}, {}) if out_of_memory else models.weights(training.model)
    norms = np.empty(0, np.float32) if out_of_memory else training.carried.update_norms()
    kept = {} if out_of_memory else training.carried.best
    final, best = (training.folder / name for name in ("final.npz", "best.npz"))
    records.write_weights(final, trainable, state)
    members = records.weight_members(trainable, state)
    if kept and not all(np.array_equal(kept[name], members[name]) for name in members):
        disk.write_arrays(best, kept)
    else:
        disk.link(final, best)
    initial = _write_initial(training)
    disk.write_arrays(training.folder / "updates.npz", {"update_norms": norms})
    keep_wanted(training, over=True)
    _name_middle(training)
    progress = training.progress
    disk.write_rows(training.folder / "history.csv", records.HISTORY_COLUMNS, progress.history)
    if training.factors["evaluate_every"]:
        path = training.folder / "trajectory.csv"
        disk.write_rows(path, records.TRAJECTORY_COLUMNS, progress.trajectory)
    validation_losses = [row["validation_loss"] for row in progress.history]
    has_target = bool(training.factors["target_train_loss"])
    disk.write_json(
        records.run_record(training.folder),
        {
            "run": training.run.name,
            "version": VERSIONS["train"],
            "factors": training.factors,
            "status": status,
            "stop_reason": reason,
            "message": message,
            "reached_target": reason == "train_loss" if has_target else None,
            "parameters": sum(value.size for value in training.initial[0].values()),
            "epochs_run": progress.epoch,
            "steps_run": progress.epoch * training.steps + progress.step,
            "best_epoch": progress.best_epoch or None,
            "best_monitor": progress.best_value,
            "best_validation_loss": min(validation_losses, default=None),
            "effective_learning_rate": effective_learning_rate(training.factors),
            "optimizer_constants": optimizer_constants.effective(training.factors),
            "contended_seconds": progress.contended_seconds,
            "resumed": progress.resumed,
            "threads": training.factors["threads"],
            "device": training.factors["device"],
            **replicas.describe(training.factors),
            "weights": {path.stem: disk.file_sha256(path) for path in (initial, final, best)},
            "versions": description.versions(),
            "machine": description.describe(),
            "finished_at": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        },
    )
    training.checkpoint.unlink(missing_ok=True)
    (training.folder / memory_kills.NOTE).unlink(missing_ok=True)


def keep_wanted(training: Training, over: bool) -> set[int]:
    """Deletes the weights of epochs that nothing reads; returns the epochs that are read."""
    wanted = kept_epochs.wanted(training.read, training.progress.epoch, over)
    for path in training.epochs.glob("*.npz"):
        if path.stem.isdigit() and int(path.stem) not in wanted:
            path.unlink()
    return wanted


def _name_middle(training: Training) -> None:
    """Gives the weights of the middle the name by which they are read, whose epoch is known."""
    kept = training.epochs / f"{kept_epochs.middle(training.progress.epoch)}.npz"
    if kept_epochs.MIDDLE in training.read and kept.exists():
        path = training.epochs / f"{kept_epochs.MIDDLE}.npz"
        also_read = int(kept.stem) in training.read
        (disk.copy if also_read else os.replace)(kept, path)


def _write_initial(training: Training) -> Path:
    """Writes the initial weights; all runs of a model and seed share one file.

    Beside them the layers of a user's model, which the catalogue does not know.
    """
    own = training.folder / "initial.npz"
    records.write_weights(own, *training.initial)
    results, data = training.run.results, training.run.data
    built = training.factors["model"], data.input_shape, data.classes
    name = f"{records.initial_name(*built)}+seed={training.factors['seed']}"
    shared = Path(results) / "initial" / f"{name}.npz"
    layers = records.layers_path(results, *built)
    if weight_counts.layers(*built) is None and not layers.exists():
        disk.write_json(layers, {"layers": models.layers(training.model)})
    if not shared.exists():
        disk.link(own, shared)
    elif disk.file_sha256(shared) == disk.file_sha256(own):
        disk.link(shared, own)
    return own
