"""Snapshots: weights of a finished run after an epoch before its last, in its folder `epochs`.

A training keeps the snapshots that a measure reads (`fit.Training.keep_wanted`). Others come from
another training with the same horizon, which stops at their epoch.
"""

import os
import shutil
from dataclasses import replace
from pathlib import Path

from batchscope.core import disk
from batchscope.core.errors import UserError
from batchscope.store import jobs, paths, records
from batchscope.study import names
from batchscope.training.runs import TrainingRun


def write(run: TrainingRun, epoch: int | str) -> None:
    """Write a snapshot; the epoch may be `middle`.

    The file has no weights if the run did not finish, or ended before the epoch.

    Raises:
        UserError: If the training here gives another history.
        Interrupted: After a signal.
    """
    path = paths.snapshot_path(run.results, run.name, epoch)
    number = jobs.snapshot_epoch(run.results, run.name, epoch)
    if number is None:
        records.write_weights(path, {}, {})
    elif not path.exists():
        kept = paths.snapshot_path(run.results, run.name, number)
        if kept.exists():
            disk.copy(kept, path)
        else:
            _train_again(run, number, path)
    os.utime(path)  # newer than the run's record, its source


def _train_again(run: TrainingRun, epoch: int, path: Path) -> None:
    # Most snapshots exist and need no TensorFlow.
    from batchscope.host import tensorflow_start

    factors = run.factors
    tensorflow_start.start(factors["threads"], factors["device"], factors["replicas"])
    from batchscope.training import fit, models

    plain = names.run_name({**factors, "evaluate_every": 0})
    scratch = path.with_suffix(".training")  # with its checkpoint
    again = fit.Training(replace(run, name=plain), folder=scratch)
    again.stop_on_signals()
    with again.reporter.running():
        again.fit(epoch)
    check_same(run, epoch, again.progress.history)
    records.write_weights(path, *models.weights(again.model))
    shutil.rmtree(scratch, ignore_errors=True)


def check_same(run: TrainingRun, epoch: int, history: list[dict]) -> None:
    """Refuses weights that are not the run's: another machine or TensorFlow rounds otherwise."""
    rows = records.RunFiles(run.folder).rows("history.csv")
    columns = [column for column in records.history_columns(run.data.task) if column != "seconds"]
    numbers = [[str(row[column]) for column in columns] for row in history[:epoch]]
    expected = [[row.get(column) for column in columns] for row in rows[:epoch]]
    if numbers != expected:
        raise UserError(
            f"{run.folder / 'history.csv'}: received another history of {epoch} epochs when "
            "training again; the same one is expected. The run was trained on another machine or "
            "by other versions: delete its folder to train it again here."
        )
