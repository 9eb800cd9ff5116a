"""Train one run as a job: lock its folder, train, and write its files and its record."""

import gc
import mmap
import os
import time
from pathlib import Path

import numpy as np

from batchscope.core import disk
from batchscope.host import memory_limits
from batchscope.store import paths, records
from batchscope.study import run_factors, snapshot_epochs
from batchscope.study.registry import VERSIONS
from batchscope.training import models
from batchscope.training.fit import FitLimits, Training, TrainingEnd
from batchscope.training.optimizers import effective_learning_rate
from batchscope.training.runs import TrainingRun

# A training reserves this many bytes of addresses without using them. It releases them when memory
# is refused, so that it can still write its record.
_RESERVE_BYTES = 2**28


def train(run: TrainingRun, limits: FitLimits | None = None) -> str:
    """Train one run and write its folder; return its status.

    A non-finite loss and a refusal of memory are results in the record, not errors. Raise
    `Interrupted` after a signal. The next start continues from the checkpoint.
    """
    with disk.lock(run.folder / "training.lock", "train this run"):
        for path in (*run.folder.glob(".*.tmp"), *run.folder.glob("epochs/.*.tmp")):
            path.unlink(missing_ok=True)  # A killed training left an incomplete file.
        training = Training(run, limits or FitLimits())
        training.stop_on_signals()
        reserve = mmap.mmap(-1, _RESERVE_BYTES, mmap.MAP_PRIVATE)
        try:
            with training.reporter.listed_as_running():
                end = training.fit()
        except Exception as error:
            reserve.close()
            if (refusal := memory_limits.error_refusal(error)) is None:
                raise
            end = TrainingEnd(records.OUT_OF_MEMORY, "out_of_memory", refusal)
        if end.status == records.OUT_OF_MEMORY:
            gc.collect()  # The frames of the error form a cycle that holds the step's arrays.
        write_results(training, end)
    return end.status


def record_kill(run: TrainingRun, message: str) -> str:
    """Record a run that the kernel killed for memory; return its status."""
    with disk.lock(run.folder / "training.lock", "train this run"):
        training = Training(run)
        # This block ends by deleting the progress file, which the killed process left.
        with training.reporter.listed_as_running():
            training.load_progress()
            write_results(training, TrainingEnd(records.OUT_OF_MEMORY, "out_of_memory", message))
    return records.OUT_OF_MEMORY


def write_results(training: Training, end: TrainingEnd) -> None:
    """Write weights and history of a run, then its record."""
    folder, progress, task = training.folder, training.progress, training.run.data.task
    _write_weights(training, end.status)
    training.delete_unread_snapshots(has_ended=True)
    kept = training.snapshots_folder / f"{snapshot_epochs.middle_epoch(progress.epoch)}.npz"
    # The middle epoch is known only at the end, so its snapshot gets the name now.
    if snapshot_epochs.MIDDLE in training.epochs_read and kept.exists():
        middle = training.snapshots_folder / f"{snapshot_epochs.MIDDLE}.npz"
        (disk.copy if int(kept.stem) in training.epochs_read else os.replace)(kept, middle)
    disk.write_rows(folder / "history.csv", records.history_columns(task), progress.history)
    if training.factors["evaluate_every"]:
        path = folder / "trajectory.csv"
        disk.write_rows(path, records.trajectory_columns(task), progress.trajectory)
    factors, history = training.factors, progress.history
    files = [file for file in paths.run_files(factors) if file != paths.RECORD]
    record = {
        "run": training.run.name,
        "version": VERSIONS["train"],
        "factors": factors,
        "status": end.status,
        "stop_reason": end.reason,
        "message": end.message,
        "reached_target": end.reason == "train_loss" if factors["target_train_loss"] else None,
        "parameters": sum(value.size for value in training.initial_weights[0].values()),
        "epochs_run": progress.epoch,
        "steps_run": training.updates,
        "best_epoch": progress.best_epoch or None,
        "best_validation_loss": min((row["validation_loss"] for row in history), default=None),
        "effective_learning_rate": effective_learning_rate(factors),
        "optimizer_constants": run_factors.scaled_constants(factors),
        "contended_seconds": progress.contended_seconds,
        "evaluation_seconds": progress.evaluation_seconds,
        "resumed": progress.resumed,
        "threads": factors["threads"],
        "device": factors["device"],
        "sha256": records.file_sha256(folder, files),
        "versions": records.package_versions(),
        "machine": records.machine_description(),
        "finished_at": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
    }
    disk.write_json(paths.run_record(folder), record)
    training.checkpoint_path.unlink(missing_ok=True)
    (folder / memory_limits.KILL_NOTE).unlink(missing_ok=True)


def _write_weights(training: Training, status: str) -> None:
    """Write weights and norms of updates. A run out of memory has only its initial weights."""
    is_lost = status == records.OUT_OF_MEMORY
    trainable, state = ({}, {}) if is_lost else models.weights(training.model)
    best = {} if is_lost else training.progress.best
    norms = np.empty(0, np.float32) if is_lost else training.progress.update_norms()
    files = {name: training.folder / f"{name}.npz" for name in ("initial", "final", "best")}
    records.write_weights(files["final"], trainable, state)
    members = records.weight_members(trainable, state)
    if best and not all(np.array_equal(best[name], members[name]) for name in members):
        disk.write_arrays(files["best"], best)
    else:
        disk.link(files["final"], files["best"])
    records.write_weights(files["initial"], *training.initial_weights)
    _share_initial_weights(training, files["initial"])
    disk.write_arrays(training.folder / "updates.npz", {"update_norms": norms})


def _share_initial_weights(training: Training, initial: Path) -> None:
    """Replace the file of initial weights by a link that all runs of a model and seed share."""
    factors, data = training.factors, training.run.data
    name = paths.initial_name(factors["model"], data.input_shape, data.classes)
    shared = Path(training.run.results) / "initial" / f"{name}+seed={factors['seed']}.npz"
    if not shared.exists():
        disk.link(initial, shared)
    elif disk.file_sha256(shared) == disk.file_sha256(initial):
        disk.link(shared, initial)
