"""A finished run as the measures use it: its record, weights, model and training loss."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from batchscope.core.errors import UserError
from batchscope.store import records
from batchscope.store.weights import Arrays
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
