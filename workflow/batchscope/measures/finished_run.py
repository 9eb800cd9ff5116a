"""A finished run as one object: its factors, folder, record, data, weights and model.

It stands in this room, not in the store: it loads data sets and builds models, which stand above
the store.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from batchscope import datasets, disk
from batchscope.catalogue import run_names
from batchscope.errors import UserError
from batchscope.store import records

if TYPE_CHECKING:
    import keras


@dataclass(frozen=True)
class FinishedRun:
    """A run whose training is over, whatever its status; each part is read when it is asked for.

    A `UserError` says where a file is missing, is damaged or does not fit its record.

    Attributes:
        model_file: The user's model file, where the model is not built in.
        scratch: File in which a measure may keep what it has finished, to go on from there when
            it was killed; None to keep nothing.
    """

    results: Path | str
    name: str
    model_file: Path | str | None = None
    scratch: Path | None = None

    @cached_property
    def factors(self) -> dict[str, Any]:
        """Every factor, by full name; raises `ValueError` if the name is no run's."""
        return run_names.parse_run(self.name)

    @cached_property
    def folder(self) -> Path:
        """The folder of its files."""
        return records.run_folder(self.results, self.name)

    @cached_property
    def record(self) -> dict[str, Any]:
        """What its training wrote of it: `status`, `epochs_run`, `weights` (SHA-256) and more."""
        return disk.read_json(records.run_record(self.folder), "status", "epochs_run", "weights")

    @cached_property
    def data(self) -> datasets.Dataset:
        """Its data set; raises as `datasets.load` does."""
        return datasets.load(self.results, self.factors["dataset"])

    def weights(self, which: str) -> tuple[dict[str, np.ndarray], dict[str, np.ndarray]]:
        """Returns its trainable weights and its state, variable's path (`conv_1/kernel`) -> array.

        Args:
            which: `initial`, `final`, `best`, or `epochs/3` for the weights after epoch 3.
        """
        return records.read_weights(self._weights_file(which))

    def weights_sha256(self, which: str) -> str:
        """Returns the SHA-256 of the file of its weights, in hexadecimal."""
        return disk.file_sha256(self._weights_file(which))

    def model(self, which: str) -> keras.Model:
        """Returns its network with weights (`which` as in `weights`), in float32 in any case."""
        # Imported here: not every measure needs TensorFlow.
        from batchscope.training import models

        token, seed = self.factors["model"], int(self.factors["seed"])
        look = self.data.input_shape, self.data.classes
        model = models.build(token, *look, seed, self.model_file, kind=self.data.kind)
        try:
            models.set_weights(model, *self.weights(which))
        except UserError as error:
            raise UserError(f"{self._weights_file(which)}: {error}") from None
        return model

    def _weights_file(self, which: str) -> Path:
        return self.folder / f"{which}.npz"
