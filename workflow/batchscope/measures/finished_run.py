"""A finished run as one object: what a run has before it is trained, its record and weights."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from batchscope import disk
from batchscope.errors import UserError
from batchscope.store import records
from batchscope.training.runs import Run

if TYPE_CHECKING:
    import keras


@dataclass(frozen=True)
class FinishedRun(Run):
    """A run whose training is over, whatever its status; each part is read when it is asked for.

    A `UserError` says where a file is missing, is damaged or does not fit its record.

    Attributes:
        scratch: File in which a measure may keep what it has finished, to go on from there when
            it was killed; None to keep nothing.
    """

    scratch: Path | None = None

    @cached_property
    def record(self) -> dict[str, Any]:
        """What its training wrote of it: `status`, `epochs_run`, `weights` (SHA-256) and more."""
        return disk.read_json(records.run_record(self.folder), "status", "epochs_run", "weights")

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
        """Returns its network with weights (`which` as in `weights`), for measures.

        Always in float32 and on one device, unlike `network`, which is what it was trained as.
        """
        # Imported here: not every measure needs TensorFlow.
        from batchscope.training import models

        token, seed = self.factors["model"], self.factors["seed"]
        model = models.build(token, self.data.look, seed, self.model_file)
        try:
            models.set_weights(model, *self.weights(which))
        except UserError as error:
            raise UserError(f"{self._weights_file(which)}: {error}") from None
        return model

    def _weights_file(self, which: str) -> Path:
        return self.folder / f"{which}.npz"
