"""Tables of an experiment and their columns: the registry, and questions about columns.

Entries of measures and timings define their own columns and tables, and `decision_columns` those of
verdicts. Any other column is added to `RECORD_COLUMNS` if it is a key of a run's record, else to
`RUNS`, `HISTORY`, `TRAJECTORIES` or `AT_EPOCHS`; any other table to `TABLES`.
"""

import math
from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace
from itertools import chain
from typing import Any

from batchscope.core import display
from batchscope.study import decision_columns, log_format, tasks
from batchscope.study.registry import ENTRIES, MEASURES, TIMINGS
from batchscope.study.run_factors import EVERY_FACTOR, FACTORS, SWEEP_FACTORS
from batchscope.study.specifications import (
    Column,
    IntegerColumn,
    PercentColumn,
    PositiveColumn,
    Table,
    TextColumn,
    column_pattern,
)

_RISES = {"direction": "rises"}  # Chang and Pathak 2020 state that these outcomes rise.
_DIGEST = TextColumn("Digest of its definition or file, if any.")
_MACHINE = TextColumn("Machine, by its name in the configuration.")
_EXAMPLES = IntegerColumn("Training examples used so far, with repetitions.", "examples")


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
    "gpu_memory_peak_mb": PositiveColumn("Peak memory in use on a GPU, by all processes.", "MB"),
    "gpu_energy_joules": PositiveColumn("Energy of all GPUs over the run.", "J"),
}
# Columns of runs.csv in order. `{...}` is a placeholder for the value of a measure's setting.
RUNS: dict[str, Column] = {
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
# Columns of history.csv besides run, factors and status, and so for the next two tables.
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
TIMING_TABLES = dict(chain.from_iterable(entry.tables.items() for entry in TIMINGS.values()))
# Tables of timings begin with the machine, the sweep and its factors.
TIMING_FIRST_COLUMNS = (
    *("machine", "sweep", "dataset", "dataset_digest", "model", "model_digest"),
    *(name for name in SWEEP_FACTORS if name not in ("dataset", "model", "batch_size")),
)
# A claim on trajectories fixes one of these budgets. The last evaluation within it is read.
BUDGETS = ("examples", "updates", "epoch", "seconds")
# Tables of verdicts and fits.
DECISIONS: dict[str, Table] = {
    "comparisons": Table(decision_columns.COMPARISONS),
    "trends": Table(decision_columns.TRENDS),
    "critical_batch_size": Table(decision_columns.CRITICAL),
    "to_target": Table(decision_columns.TO_TARGET),
    "local_critical_batch_size": Table(decision_columns.LOCAL_CRITICAL),
    "ramps": Table(decision_columns.RAMPS),
    "race": Table(decision_columns.RACE),
    "advice": Table(decision_columns.ADVICE),
}
# All tables, in the order of writing.
TABLES: dict[str, Table] = {
    "runs": Table(keys=()),
    "history": Table(HISTORY, keys=("epoch",), figures=("loss_curves",)),
    "trajectories": Table(TRAJECTORIES, keys=BUDGETS, figures=("progress",)),
    **dict(chain.from_iterable(entry.tables.items() for entry in MEASURES.values())),
    "at_epochs": Table(AT_EPOCHS, keys=("at_epoch",), figures=("accuracy_by_epochs",)),
    **TIMING_TABLES,
    "limits": Table(),
    **DECISIONS,
    "published": Table(),
}
FILES = tuple(f"{name}.csv" for name in TABLES)
# Tables that claims may name. A claim selects cells by factors and by keys of the table. Each value
# of a key that it does not select has a contrast of its own, and all contrasts must hold.
CLAIMABLE_TABLES = {name: table for name, table in TABLES.items() if table.keys is not None}
_PATTERNS = {name: column_pattern(name) for name in RUNS if "{" in name}
_USER_DEFINED = Column("Column of the logs that separates series.", kind="")


def describe(column: str, metrics: tasks.Metrics = (), table: str = "runs") -> Column | None:
    """Return the description of a column, with its label filled in; None if it has none.

    Args:
        metrics: User-defined metrics of the experiment.
        table: Table of the column. A description with a label in runs.csv is preferred.
    """
    in_table = TABLES[table].columns.get(column) if table in TABLES else None
    candidates = [item for item in (_describe_in_runs(column, metrics), in_table) if item]
    return min(candidates, key=lambda item: not item.label, default=None)


def _describe_in_runs(column: str, metrics: tasks.Metrics) -> Column | None:
    if log_format.is_user_defined(column):
        return _USER_DEFINED
    if metric := tasks.user_metric(column, metrics):
        doc = f"{metric.doc.format(split=column.partition('_')[0])}, from the log."
        return Column(doc, label=display.capital(column.replace("_", " ")))
    if column in RUNS and column not in _PATTERNS:
        return RUNS[column]
    for name, pattern in _PATTERNS.items():
        if match := pattern.fullmatch(column):
            item = RUNS[name]
            values = {key: item.words.get(text, text) for key, text in match.groupdict().items()}
            return replace(item, label=item.label.format(**values))
    return None


def tested_direction(column: str) -> str:
    """Return the direction that every study tests of an outcome of runs.csv; empty without one."""
    described = describe(column)
    return described.direction if described else ""


def position(column: str) -> int:
    """Return the position of a column in runs.csv; columns without description are last."""
    for index, name in enumerate(RUNS):
        if column == name or (name in _PATTERNS and _PATTERNS[name].fullmatch(column)):
            return index
    return len(RUNS)


def measure_columns(
    measures: Mapping[str, dict[str, Any]], task_names: Collection[str]
) -> list[str]:
    """Return the columns of runs.csv in order, including columns of unfinished measures.

    Args:
        measures: Measure of the experiment -> every setting, by full name.
        task_names: Tasks of its data sets.
    """
    fixed = [name for name in RUNS if name not in _PATTERNS]
    measured = (ENTRIES[name].columns_for(settings) for name, settings in measures.items())
    names = dict.fromkeys([*fixed, *chain.from_iterable(measured)])
    return sorted(tasks.columns_of_tasks(names, task_names), key=position)


def claimable_columns(
    table: str, measures: Mapping[str, dict[str, Any]], task_names: Collection[str]
) -> list[str]:
    """Return the columns of a table that a claim on an experiment may name.

    Args:
        measures: Measure or timing of the experiment -> every setting.
        task_names: Tasks of its data sets.
    """
    by_name, keys = CLAIMABLE_TABLES[table].columns, CLAIMABLE_TABLES[table].keys
    if table == "runs":
        filled = measure_columns(measures, task_names) if measures else RECORD_COLUMNS
        by_name = {name: item for name in filled if (item := describe(name))}
    # A claim on trajectories may be about the value of one budget at another budget.
    selectors = EVERY_FACTOR if keys == BUDGETS else {*EVERY_FACTOR, *keys}
    names = [name for name, item in by_name.items() if item.kind != "str" and name not in selectors]
    return tasks.columns_of_tasks(names, task_names)


def value_range(name: str) -> tuple[float, float]:
    in_tables = (table.columns[name] for table in TABLES.values() if name in table.columns)
    item = describe(name) or next(in_tables, None)
    return (item.minimum, item.maximum) if item else (-math.inf, math.inf)


def clipped_to_range(name: str, values: Iterable[float]) -> list[float]:
    """Return values clipped to the range of a column; NaN stays NaN."""
    low, high = value_range(name)
    return [value if math.isnan(value) else min(max(value, low), high) for value in values]
