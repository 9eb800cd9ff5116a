"""Job of a training: one process at a time, its end, and its files."""

import gc
import mmap
import os
import time
from pathlib import Path

import numpy as np

from batchscope.core import disk
from batchscope.host import allocation_errors, description, locks, memory_limits
from batchscope.store import paths, records
from batchscope.study import optimizer_constants, snapshot_epochs
from batchscope.study.versions import VERSIONS
from batchscope.training import models
from batchscope.training.fit import End, FitLimits, Training
from batchscope.training.optimizers import effective_learning_rate
from batchscope.training.runs import TrainingRun

# Bytes of addresses, never touched, that a training releases when memory is refused, so that it can
# still write its record.
_RESERVE = 2**28


def train(run: TrainingRun, limits: FitLimits | None = None) -> str:
    """Train one run and write its folder; return its status.

    A non-finite loss and an allocator's refusal are results: the record has them, and nothing is
    raised. `Interrupted` by a signal, it continues when it is started again.
    """
    with locks.lock(run.folder / "training.lock", "train this run"):
        for left in (*run.folder.glob(".*.tmp"), *run.folder.glob("epochs/.*.tmp")):
            left.unlink(missing_ok=True)  # incomplete, from a killed training
        training = Training(run, limits or FitLimits())
        training.stop_on_signals()
        reserve = mmap.mmap(-1, _RESERVE, mmap.MAP_PRIVATE)
        try:
            with training.reporter.running():
                end = training.fit()
        except Exception as error:
            reserve.close()
            if (refusal := allocation_errors.refusal_of(error)) is None:
                raise
            end = End(records.OUT_OF_MEMORY, "out_of_memory", refusal)
        if end.status == records.OUT_OF_MEMORY:
            gc.collect()  # frames of the error refer to each other, and hold the step's arrays
        write(training, end)
    return end.status


def record_kill(run: TrainingRun, message: str) -> str:
    """Record a run that the kernel killed for memory; return its status."""
    with locks.lock(run.folder / "training.lock", "train this run"):
        training = Training(run)
        with training.reporter.running():  # has the progress of the killed process
            training.resume_progress()
            write(training, End(records.OUT_OF_MEMORY, "out_of_memory", message))
    return records.OUT_OF_MEMORY


def write(training: Training, end: End) -> None:
    """Write weights and history of a run, then its record."""
    folder, progress, task = training.folder, training.progress, training.run.data.task
    _write_weights(training, end.status)
    training.keep_wanted(over=True)
    kept = training.snapshots / f"{snapshot_epochs.middle(progress.epoch)}.npz"
    if snapshot_epochs.MIDDLE in training.read and kept.exists():  # its epoch is known now
        middle = training.snapshots / f"{snapshot_epochs.MIDDLE}.npz"
        (disk.copy if int(kept.stem) in training.read else os.replace)(kept, middle)
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
        "parameters": sum(value.size for value in training.initial[0].values()),
        "epochs_run": progress.epoch,
        "steps_run": training.updates,
        "best_epoch": progress.best_epoch or None,
        "best_validation_loss": min((row["validation_loss"] for row in history), default=None),
        "effective_learning_rate": effective_learning_rate(factors),
        "optimizer_constants": optimizer_constants.effective(factors),
        "contended_seconds": progress.contended_seconds,
        "evaluation_seconds": progress.evaluation_seconds,
        "resumed": progress.resumed,
        "threads": factors["threads"],
        "device": factors["device"],
        "sha256": records.file_sha256(folder, files),
        "versions": description.versions(),
        "machine": description.describe(),
        "finished_at": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
    }
    disk.write_json(paths.run_record(folder), record)
    training.checkpoint.unlink(missing_ok=True)
    (folder / memory_limits.NOTE).unlink(missing_ok=True)


def _write_weights(training: Training, status: str) -> None:
    """Write all weights but snapshots."""
    lost = status == records.OUT_OF_MEMORY  # nothing that it left is a result
    trainable, state = ({}, {}) if lost else models.weights(training.model)
    best = {} if lost else training.progress.best
    norms = np.empty(0, np.float32) if lost else training.progress.update_norms()
    files = {name: training.folder / f"{name}.npz" for name in ("initial", "final", "best")}
    records.write_weights(files["final"], trainable, state)
    members = records.weight_members(trainable, state)
    if best and not all(np.array_equal(best[name], members[name]) for name in members):
        disk.write_arrays(files["best"], best)
    else:
        disk.link(files["final"], files["best"])
    records.write_weights(files["initial"], *training.initial)
    _share(training, files["initial"])
    disk.write_arrays(training.folder / "updates.npz", {"update_norms": norms})


def _share(training: Training, initial: Path) -> None:
    """Let all runs of a model and a seed share one file of initial weights."""
    factors, data = training.factors, training.run.data
    name = paths.initial_name(factors["model"], data.input_shape, data.classes)
    shared = Path(training.run.results) / "initial" / f"{name}+seed={factors['seed']}.npz"
    if not shared.exists():
        disk.link(initial, shared)
    elif disk.file_sha256(shared) == disk.file_sha256(initial):
        disk.link(shared, initial)
