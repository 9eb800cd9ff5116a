"""The tables that a claim may be of: their columns, and what distinguishes their rows.

A claim names cells by factors and by these keys. A key that it does not name makes a part of the
claim for each of its values, all of which must hold.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from batchscope.catalogue import columns, run_factors, sweep_names
from batchscope.catalogue.timing_columns import COLUMNS as TIMING_COLUMNS

# Of a trajectory, whose rows lie at each run's own evaluations: a budget, of which the last row not
# beyond it is read.
BUDGETS = ("examples", "updates", "epoch", "seconds")
# Columns of tables of timings that say what a row is of.
_ROWS = ("batch_size", "status", "at_epoch")


@dataclass(frozen=True)
class Table:
    """A table that a claim may be of.

    Attributes:
        columns: What a claim may be of; of runs.csv what the experiment measures.
        keys: Columns that distinguish its rows beside the factors, the seed and the machine.
        measures: What fills it, one of them: a measure of trainings, or a timing; empty where any
            training does.
        of_times: Whether it is a table of timing jobs.
        figures: Figures that show it, the first to be preferred.
    """

    columns: tuple[str, ...] = ()
    keys: tuple[str, ...] = ()
    measures: tuple[str, ...] = ()
    of_times: bool = False
    figures: tuple[str, ...] = ()


def _of_times(
    name: str, measures: tuple[str, ...], figures: tuple[str, ...], keys: tuple[str, ...] = ()
) -> dict[str, Table]:
    every = TIMING_COLUMNS[f"{name}.csv"].items()
    own = (column for column, about in every if about.kind != "str" and column not in _ROWS)
    return {name: Table(tuple(own), keys, measures, True, figures)}


TABLES: dict[str, Table] = {
    "runs": Table(),
    "history": Table(
        (
            *("train_loss", "train_accuracy", "validation_loss", "validation_accuracy"),
            *("epoch_distance", "weight_distance"),
        ),
        ("epoch",),
        figures=("loss_curves",),
    ),
    "trajectories": Table(
        tuple(name for name in columns.TRAJECTORIES if name != "machine"),
        BUDGETS,
        figures=("progress",),
    ),
    "at_epochs": Table(
        tuple(name for name in columns.AT_EPOCHS if name not in ("machine", "at_epoch")),
        ("at_epoch",),
        figures=("accuracy_by_epochs",),
    ),
    "layers": Table(
        ("distance", "relative"),
        ("layer",),
        ("weight_distance",),
        figures=("weight_distance_by_layer",),
    ),
    "alignment": Table(
        ("norm", "ratio", "independent"),
        ("place", "examples"),
        ("gradient_alignment",),
        figures=("gradient_alignment",),
    ),
    "lines": Table(("loss", "accuracy"), ("split", "alpha"), ("line",), figures=("line",)),
    **_of_times("throughput", ("throughput",), ("throughput",)),
    **_of_times("sweeps", ("throughput", "max_batch_size"), ("step_time",)),
    **_of_times("training_times", ("throughput",), ("training_time",), ("at_epoch",)),
    **_of_times("utilisation", ("utilisation",), ("utilisation", "frameworks")),
    **_of_times("profiles", ("profile",), ("profile",)),
}
FACTORS = {**run_factors.FACTORS, **sweep_names.FACTORS}


def columns_of(table: str, measures: Mapping[str, dict[str, Any]]) -> list[str]:
    """Returns the columns of a table that a claim on an experiment may be of.

    Args:
        measures: What the experiment measures or times -> every setting.
    """
    if table != "runs":
        return list(TABLES[table].columns)
    found = columns.of_measures(dict(measures)) if measures else list(columns.OF_RECORD)
    own = [name for name in found if name not in FACTORS]
    return [name for name in own if (one := columns.describe(name)) and one.kind != "str"]
