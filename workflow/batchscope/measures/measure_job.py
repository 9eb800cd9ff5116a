"""The job of a measure: measure a finished run, or a pair of runs, and write the record.

`FinishedRun` is a run as the measures use it: its record, weights, model and training loss. What a
new measure needs of a run is a method of it.
"""

from __future__ import annotations

import importlib
import math
import shutil
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from batchscope.core import disk
from batchscope.core.errors import UserError
from batchscope.measures import Measured
from batchscope.store import records
from batchscope.store.weights import Arrays
from batchscope.study import names, tasks
from batchscope.study.registry import MEASURES
from batchscope.training.runs import TrainingRun

if TYPE_CHECKING:
    import keras

    from batchscope.training.losses import Objective

SUBSET_SEED = 0  # all runs have the same seed, so that they are compared on the same examples


@dataclass(frozen=True)
class FinishedRun(TrainingRun):
    """A run that has ended, with any status; its files are read on access.

    A `UserError` names a file that is missing, damaged or does not fit its record. Weights have the
    names of their files: `initial`, `final`, `best`, or `epochs/3` for the weights after epoch 3.
    """

    # Folder with the finished parts of a measure; a killed job continues from them.
    scratch: Path | None = None

    @cached_property
    def files(self) -> records.RunFiles:
        return records.RunFiles(self.folder)

    @property
    def record(self) -> dict[str, Any]:
        return self.files.record

    def weights(self, weights_name: str) -> tuple[Arrays, Arrays]:
        """Return the trainable weights and the state, as arrays by the paths of their variables."""
        return self.files.weights(weights_name)

    def model(self, weights_name: str) -> keras.Model:
        """Return the network with weights, in float32 and on one device, unlike `network`."""
        from batchscope.training import models

        token, seed = self.factors["model"], self.factors["seed"]
        model = models.build(token, self.data.model_input, seed, self.model_file)
        try:
            models.set_weights(model, *self.weights(weights_name))
        except UserError as error:
            raise UserError(f"{self.folder / weights_name}.npz: {error}") from None
        return model

    def training_loss(self, settings: dict[str, Any], chunk: int | None = None) -> Objective:
        """Return the mean loss over a subset of the training examples.

        Args:
            settings: Settings of a measure: `examples`, and optionally `weights` (by default
                `final`) and `batch_norm` (`moving`).
            chunk: Examples per forward pass. By default, the size of an example decides.
        """
        from batchscope.training import losses

        train = self.data.examples("train")
        indices = subset(len(train.labels), settings["examples"])
        max_chunk = losses.chunk_size(self.data.input_shape, train.images.dtype)
        chunk = chunk or even_chunk(len(indices), max_chunk)
        model, rows = self.model(settings.get("weights", "final")), train.rows(indices)
        batch_statistics = settings.get("batch_norm") == "batch"
        return losses.Objective(model, rows, chunk, batch_statistics=batch_statistics)


def subset(available: int, examples: int) -> np.ndarray:
    """Return the indices of a subset of the examples, int64; all if `examples` is 0 or too large.

    The indices begin a fixed permutation, so that a larger subset contains a smaller subset.
    """
    order = np.random.default_rng(SUBSET_SEED).permutation(available).astype(np.int64)
    return order[: examples or available]


def even_chunk(examples: int, max_chunk: int) -> int:
    """Return the chunk size, at most `max_chunk`, that splits the examples most evenly.

    Nearly all chunks have one shape, so TensorFlow compiles once. With batch statistics, no chunk
    may have only a few examples.
    """
    return math.ceil(examples / math.ceil(examples / max_chunk))


def write(measure: str, runs: Sequence[FinishedRun], settings: str, output: Path | str) -> None:
    """Measure one run or a pair of runs; write the record, and the npz if the measure has one.

    If a run did not finish, the record has the status of the first such run and no values. A killed
    job continues from the files in a folder next to the record. The folder is deleted after the
    record is written.
    """
    entry = MEASURES[measure]
    parsed = names.parse_settings(measure, settings)
    scratch = Path(output).with_suffix(".kept")
    run, *partners = (replace(run, scratch=scratch) for run in runs)
    statuses = [run.record["status"] for run in (run, *partners)]
    status = next((status for status in statuses if status != records.FINISHED), records.FINISHED)
    epochs_run = run.record["epochs_run"]
    if status != records.FINISHED:
        measured = Measured()
    elif parsed.get("epoch", 0) > epochs_run:
        measured = Measured(details={"message": f"The training stopped after epoch {epochs_run}."})
    else:
        if entry.data:
            entry.check(run.factors, parsed, run.data.record["counts"]["train"])
        module = importlib.import_module(f"batchscope.measures.{measure}")
        measured = module.measure_run(run, *partners, parsed)
    task = records.dataset_task(run.results, run.factors["dataset"]) or tasks.CLASSIFICATION
    columns = tasks.columns_of_tasks(entry.columns_for(parsed), [task])
    values = {**dict.fromkeys(columns), **measured.values}
    details = {**({"other": partners[0].name} if entry.pairs else {}), **measured.details}
    record = records.measure_record(measure, run.name, parsed, status, values, **details)
    if ".npz" in entry.also_writes:
        disk.write_arrays(Path(output).with_suffix(".npz"), measured.arrays)
    disk.write_json(output, record)
    shutil.rmtree(scratch, ignore_errors=True)
