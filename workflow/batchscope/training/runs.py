"""Factors, data set and network of a run or a timing. TensorFlow is imported by `network` alone."""

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
    """Factors, data set and network; each part is read on its first use."""

    results: Path | str
    factors: dict[str, Any]  # by full name; data set and model are ids
    model_file: Path | str | None  # the user's, where the model is not built in

    @cached_property
    def data(self) -> datasets.Dataset:
        """Data set; raises as `datasets.load` does."""
        return datasets.load(self.results, self.factors["dataset"])

    def network(self) -> keras.Model:
        """Return the initial network in its precision, on all devices of its replicas."""
        from batchscope.training import models, replicas

        factors = self.factors
        seed = factors.get("seed", 0)  # a timing has none
        arguments = factors["model"], self.data.model_input, seed, self.model_file
        return models.build(*arguments, replicas.scope(factors), factors["precision"])


@dataclass(frozen=True)
class TrainingRun(Setup):
    """A run, from its name."""

    results: Path | str
    name: str
    model_file: Path | str | None = None

    @cached_property
    def factors(self) -> dict[str, Any]:
        """All factors; raises `ValueError` for another name."""
        return names.parse_run(self.name)

    @cached_property
    def folder(self) -> Path:
        return paths.run_folder(self.results, self.name)
