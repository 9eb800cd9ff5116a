"""The run or timing of a job: its factors, data set and network. `network` needs TensorFlow."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from batchscope import datasets
from batchscope.store import paths
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
