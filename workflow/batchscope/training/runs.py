"""What is trained or timed as one object: its factors, data set and network.

TensorFlow is imported where a network is asked for, and not before.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from batchscope import datasets
from batchscope.store import paths
from batchscope.study import names

if TYPE_CHECKING:
    import keras


class Setup:
    """What is trained or timed; each part is read when it is asked for."""

    results: Path | str
    factors: dict[str, Any]  # by full name; data set and model are ids
    model_file: Path | str | None  # the user's, where the model is not built in

    @cached_property
    def data(self) -> datasets.Dataset:
        """Its data set; raises as `datasets.load` does."""
        dataset = datasets.load(self.results, self.factors["dataset"])
        return replace(dataset, factors=self.factors)

    def network(self) -> keras.Model:
        """Returns its network as it begins: its precision, and on all devices of its replicas."""
        from batchscope.training import models, replicas

        factors = self.factors
        seed = factors.get("seed", 0)  # on which no step's time depends
        given = factors["model"], self.data.look, seed, self.model_file
        return models.build(*given, replicas.scope(factors), factors["precision"])


@dataclass(frozen=True)
class TrainingRun(Setup):
    """A run, by its name in paths."""

    results: Path | str
    name: str
    model_file: Path | str | None = None

    @cached_property
    def factors(self) -> dict[str, Any]:
        """Every factor; raises `ValueError` if the name is no run's."""
        return names.parse_run(self.name)

    @cached_property
    def folder(self) -> Path:
        return paths.run_folder(self.results, self.name)
