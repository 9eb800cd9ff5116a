"""Columns of runs.csv and of tables of training curves. Entries of measures define their own."""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import replace
from itertools import chain
from typing import Any

from batchscope.core import display
from batchscope.study import external_columns, tasks
from batchscope.study.registry import ENTRIES, MEASURES
from batchscope.study.run_factors import FACTORS
from batchscope.study.specifications import (
    Column,
    IntegerColumn,
    PercentColumn,
    PositiveColumn,
    TextColumn,
)

_RISES = {"direction": "rises"}  # Chang and Pathak 2020 state that these outcomes rise.
_DIGEST = TextColumn("Digest of its definition or file, if any.")


def _factor_columns() -> dict[str, Column]:
    result = {}
    for name, factor in FACTORS.items():
        result[name] = Column(factor.doc, factor.unit, factor.kind)
        if name in ("dataset", "model"):
            result[f"{name}_digest"] = _DIGEST
    return result


def _metric_columns(split: str, doc: str) -> dict[str, Column]:
    """Return the columns of a split for the metrics of all tasks."""
    return {
        f"{split}_{name}": Column(
            doc.format(item.words), minimum=item.minimum, maximum=item.maximum
        )
        for name, item in tasks.METRICS.items()
    }


_MACHINE = TextColumn("Machine, by its name in the configuration.")
_EXAMPLES = IntegerColumn("Training examples used so far, with repetitions.", "examples")
# Keys of a run's record that are columns.
RECORD_COLUMNS = {
    "message": TextColumn("Message about the status."),
    "best_validation_loss": PositiveColumn(
        "Lowest validation loss of an epoch.", label="Best validation loss", **_RISES
    ),
    "best_epoch": IntegerColumn("Epoch of the best weights."),
    "epochs_run": IntegerColumn(
        "Epochs until the training stopped.",
        "epochs",
        label="Epochs until the training stopped",
        minimum=0,
        **_RISES,
    ),
    "steps_run": IntegerColumn("Updates until the training stopped.", "updates"),
    "stop_reason": TextColumn("Why it stopped: epochs, patience, train_loss or a status."),
    "reached_target": IntegerColumn("1 if the training reached target_train_loss, else 0."),
    "effective_learning_rate": Column("Learning rate after scaling."),
    "parameters": IntegerColumn("Trainable weights of the model."),
    "contended_seconds": PositiveColumn("Duration while other jobs ran; in no figure.", "s"),
}
# Columns that are measured from outside while a command runs.
COMMAND_COLUMNS = {
    "memory_peak_mb": PositiveColumn(
        "Peak resident memory of all processes of the command.", "MB", label="Peak memory"
    ),
    "process_percent": PercentColumn(
        "CPU utilisation of the command, 100 % for all its threads.", "%", label="CPU utilisation"
    ),
    "gpu_percent": PercentColumn("Time with a running kernel.", "%", label="GPU utilisation"),
    "gpu_memory_peak_mb": PositiveColumn("Peak memory in use on the GPU, by all processes.", "MB"),
    "gpu_energy_joules": PositiveColumn("Energy of the GPU over the run.", "J"),
}
# Columns of history.csv besides run, factors and status.
HISTORY: dict[str, Column] = {
    "epoch": IntegerColumn("Epoch, from 1.", "epochs"),
    "step": IntegerColumn("Updates until its end.", "updates"),
    "train_loss": PositiveColumn("Training loss: mean over its updates, dropout on.", tasks.NATS),
    **_metric_columns("train", "Training {}."),
    "validation_loss": PositiveColumn("Validation loss at its end.", tasks.NATS),
    **_metric_columns("validation", "Validation {}."),
    "contended_seconds": RECORD_COLUMNS["contended_seconds"],
    "epoch_distance": PositiveColumn("Distance of the weights at its end from those at its start."),
    "weight_distance": PositiveColumn("Distance of the weights at its end from the initial ones."),
    "examples": _EXAMPLES,
    "seconds": Column("Time until its end, as in trajectories.csv.", "s"),
}
# Columns of trajectories.csv besides run, factors and status.
TRAJECTORIES: dict[str, Column] = {
    "machine": _MACHINE,
    "examples": _EXAMPLES,
    "updates": IntegerColumn("Updates so far.", "updates"),
    "epoch": Column("Epochs so far, with fractions.", "epochs"),
    "seconds": Column("examples / examples_per_second of the timing job, if any.", "s"),
    "train_loss": PositiveColumn("Training loss of 512 examples, dropout off.", tasks.NATS),
    "validation_loss": PositiveColumn("Validation loss.", tasks.NATS),
    **_metric_columns("validation", "Validation {}."),
    "test_loss": PositiveColumn("Test loss; empty without evaluate_every.", tasks.NATS),
    **_metric_columns("test", "Test {}; empty without evaluate_every."),
}
# Columns of at_epochs.csv besides run, factors and status.
AT_EPOCHS: dict[str, Column] = {
    "machine": _MACHINE,
    "at_epoch": IntegerColumn("Number of epochs, from at_epochs.", "epochs"),
    **{
        name: column
        for entry in MEASURES.values()
        if entry.at_epochs
        for name, column in entry.columns.items()
        if column.at_epochs
    },
    "train_seconds": PositiveColumn("at_epoch * seconds_per_epoch, without validation.", "s"),
}
# Columns of runs.csv in order. `{...}` is a placeholder for the value of a measure's setting.
COLUMNS: dict[str, Column] = {
    "run": TextColumn("Name of the run, and of its folder in results/runs."),
    "study": TextColumn("Name of the study."),
    "experiment": TextColumn("Name of the experiment."),
    "machine": _MACHINE,
    **_factor_columns(),
    "status": TextColumn(
        "finished, diverged, out_of_memory, failed, off_target, missing, or a missing requirement."
    ),
    **dict(chain.from_iterable(entry.columns.items() for entry in ENTRIES.values())),
    **RECORD_COLUMNS,
    **COMMAND_COLUMNS,
    "best_train_loss": PositiveColumn(
        "Lowest training loss of an epoch, dropout on.", label="Best training loss"
    ),
    "train_seconds": PositiveColumn(
        "epochs_run * seconds_per_epoch, without validation; for a command, its duration.",
        "s",
        label="Total training time",
        **_RISES,
    ),
    "disturbed_share": Column("Share of disturbed blocks of the timing job.", minimum=0, maximum=1),
    "foreign_cores": PositiveColumn("Median cores used by other processes during a block."),
    "train_examples": IntegerColumn("Size of the training split.", "examples"),
    "validation_examples": IntegerColumn("Size of the validation split.", "examples"),
    "test_examples": IntegerColumn("Size of the test split.", "examples"),
}
# Name with placeholders -> pattern of the columns that it stands for.
_PATTERNS = {
    name: re.compile(re.sub(r"\\{(\w+)\\}", r"(?P<\1>[a-z0-9.-]+)", re.escape(name)))
    for name in COLUMNS
    if "{" in name
}
_USER_DEFINED = Column("Column of the logs that separates series.", kind="")


def describe(column: str, metrics: tasks.Metrics = ()) -> Column | None:
    """Return the description of a column, with its label filled in; None if it has none.

    Args:
        metrics: User-defined metrics of the experiment.
    """
    if external_columns.is_user_defined(column):
        return _USER_DEFINED
    if metric := tasks.user_metric(column, metrics):
        doc = f"{metric.doc.format(split=column.partition('_')[0])}, from the log."
        return Column(doc, label=display.capital(column.replace("_", " ")))
    if column in COLUMNS and column not in _PATTERNS:
        return COLUMNS[column]
    for name, pattern in _PATTERNS.items():
        if match := pattern.fullmatch(column):
            item = COLUMNS[name]
            values = {key: item.words.get(text, text) for key, text in match.groupdict().items()}
            return replace(item, label=item.label.format(**values))
    return None


def tested_direction(column: str) -> str:
    """Return the direction that every study tests of an outcome of runs.csv; empty without one."""
    described = describe(column)
    return described.direction if described else ""


def position(column: str) -> int:
    """Return the position of a column in the table; columns without description are last."""
    for index, name in enumerate(COLUMNS):
        if column == name or (name in _PATTERNS and _PATTERNS[name].fullmatch(column)):
            return index
    return len(COLUMNS)


def measure_columns(measures: dict[str, dict[str, Any]], task_names: Collection[str]) -> list[str]:
    """Return the columns of an experiment in order, including columns of unfinished measures.

    Args:
        measures: Measure -> every setting, by full name.
        task_names: Tasks of its data sets.
    """
    fixed = [name for name in COLUMNS if name not in _PATTERNS]
    measured = (ENTRIES[name].columns_for(settings) for name, settings in measures.items())
    names = dict.fromkeys([*fixed, *chain.from_iterable(measured)])
    return sorted(tasks.columns_of_tasks(names, task_names), key=position)
