"""The run or timing of a job: its factors, data set and network; and the snapshots of a run.

A snapshot has the weights of a run after an epoch before its last. A training keeps the snapshots
that measures read in the run's folder `epochs`. If a snapshot does not exist, `write_snapshot`
trains the run again up to its epoch, with the same horizon. TensorFlow is imported only if a
network is built.
"""

from __future__ import annotations

import os
import shutil
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from batchscope import datasets
from batchscope.core import disk
from batchscope.core.errors import UserError
from batchscope.store import jobs, paths, progress, records
from batchscope.study import names

if TYPE_CHECKING:
    import keras


class Setup:
    """Factors, data set and network. The data set is read on its first use."""

    results: Path | str
    factors: dict[str, Any]  # by their full names; data set and model are ids
    model_file: Path | str | None  # file of a user's model; None for a built-in model

    @cached_property
    def data(self) -> datasets.Dataset:
        return datasets.load(self.results, self.factors["dataset"])

    def network(self) -> keras.Model:
        """Return the network with its initial weights, on all devices of its replicas."""
        from batchscope.training import models, replicas

        factors = self.factors
        seed = factors.get("seed", 0)  # A timing has no seed.
        arguments = factors["model"], self.data.model_input, seed, self.model_file
        return models.build(*arguments, replicas.scope(factors), factors["precision"])


@dataclass(frozen=True)
class TrainingRun(Setup):
    """A training run, given by its name."""

    results: Path | str
    name: str
    model_file: Path | str | None = None

    @cached_property
    def factors(self) -> dict[str, Any]:
        """All factors of the run. A name that is no run raises a `ValueError`."""
        return names.parse_run(self.name)

    @cached_property
    def folder(self) -> Path:
        return paths.run_folder(self.results, self.name)


def write_snapshot(run: TrainingRun, epoch: int | str) -> None:
    """Write a snapshot. The epoch is a number or `middle`.

    The file has no weights if the run did not finish or ended before the epoch.

    Raises:
        UserError: If training again gives another history.
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
    os.utime(path)  # Snakemake expects it to be newer than the run's record.


def _train_again(run: TrainingRun, epoch: int, path: Path) -> None:
    # Most snapshots exist and need no TensorFlow.
    from batchscope.host import tensorflow_start

    factors = run.factors
    tensorflow_start.start(factors["threads"], factors["device"], factors["replicas"])
    from batchscope.training import fit, models

    # Evaluations take time and change no weight.
    plain = names.run_name({**factors, "evaluate_every": 0})
    scratch = path.with_suffix(".training")  # folder of the checkpoint
    again = fit.Training(replace(run, name=plain), folder=scratch)
    again.reporter = progress.Reporter(run.results, run.name, epoch, "snapshot")
    again.stop_on_signals()
    with again.reporter.listed_as_running():
        again.fit(epoch)
    check_same_history(run, epoch, again.progress.history)
    records.write_weights(path, *models.weights(again.model))
    shutil.rmtree(scratch, ignore_errors=True)


def check_same_history(run: TrainingRun, epoch: int, history: list[dict]) -> None:
    """Raise a `UserError` if training again gave another history, as other machines round."""
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
