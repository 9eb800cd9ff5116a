"""The columns of runs.csv: what a run is, what its record says, and what its measures fill."""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import replace
from itertools import chain
from typing import Any

from batchscope import wording
from batchscope.study import own_columns, tasks
from batchscope.study.registry import MEASURES
from batchscope.study.run_factors import FACTORS
from batchscope.study.specifications import (
    Column,
    IntegerColumn,
    PercentColumn,
    PositiveColumn,
    TextColumn,
)
from batchscope.study.versions import ENTRIES

_RISES = {"direction": "rises", "source": "Chang and Pathak 2020"}


def _factor_columns() -> dict[str, Column]:
    found = {}
    for name, factor in FACTORS.items():
        found[name] = Column(f"Factor: {wording.lower(factor.doc)}", factor.unit, factor.kind)
        if name in ("dataset", "model"):
            what = "data set's definition" if name == "dataset" else "user's model file"
            digest = f"Digest of the {what} (8 hexadecimal digits); empty where there is none."
            found[f"{name}_digest"] = TextColumn(digest)
    return found


def _metrics(split: str, doc: str) -> dict[str, Column]:
    """Returns the columns of all tasks' metrics on a split, of which a table has its task's."""
    return {
        f"{split}_{name}": Column(doc.format(each.words), least=each.least, most=each.most)
        for name, each in tasks.METRICS.items()
    }


_MACHINE = TextColumn("Name of the machine, as in the configuration.")
# Keys of a run's record that are columns.
OF_RECORD = {
    "message": TextColumn("What the run says about its status."),
    "best_validation_loss": PositiveColumn(
        "Lowest validation loss at the end of an epoch.", label="Best validation loss", **_RISES
    ),
    "best_epoch": IntegerColumn("Epoch whose weights are kept as the best."),
    "epochs_run": IntegerColumn(
        "Epochs until the training stopped.",
        "epochs",
        label="Epochs until the training stopped",
        least=0,
        **_RISES,
    ),
    "steps_run": IntegerColumn("Updates until the training stopped.", "updates"),
    "stop_reason": TextColumn(
        "epochs, patience, train_loss, diverged or out_of_memory; of an external run with a single "
        "row target, or budget where that is equal for its series."
    ),
    "reached_target": IntegerColumn(
        "1 where the training loss reached target_train_loss, over the last epoch and with the "
        "weights at its end, 0 where not; empty without one."
    ),
    "effective_learning_rate": Column("Learning rate after scaling."),
    "parameters": IntegerColumn("Trainable weights of the model."),
    "contended_seconds": PositiveColumn(
        "What the training measured of itself while others ran; in no figure.", "s"
    ),
}
# Keys of the record of a run that a command makes, measured from outside, that are columns too.
OF_COMMANDS = {
    "memory_peak_mb": PositiveColumn(
        "Peak resident memory of all processes of the run's command.", "MB", label="Peak memory"
    ),
    "process_percent": PercentColumn(
        "CPU utilisation of the command, % of its threads: mean over the seconds that its log "
        "counts, or over the whole run if the log has none; empty if it is too short for a sample.",
        "%",
        label="CPU utilisation",
    ),
    "gpu_percent": PercentColumn(
        "GPU utilisation over the same time, % of the time in which a kernel ran: mean.",
        "%",
        label="GPU utilisation",
    ),
    "gpu_memory_peak_mb": PositiveColumn("Peak memory in use on the GPU, by all processes.", "MB"),
    "gpu_energy_joules": PositiveColumn("Energy of the GPU over the run.", "J"),
}
# Columns of history.csv beside run, factors and status.
HISTORY: dict[str, Column] = {
    "epoch": IntegerColumn("Epoch, from 1.", "epochs"),
    "step": IntegerColumn("Updates made by its end.", "updates"),
    "train_loss": PositiveColumn(
        "Training loss: the mean over its updates, dropout on.", tasks.NATS
    ),
    **_metrics("train", "Training {} over its updates, dropout on."),
    "validation_loss": PositiveColumn("Validation loss at its end.", tasks.NATS),
    **_metrics("validation", "Validation {} at its end."),
    "contended_seconds": PositiveColumn("What it took while others ran; in no figure.", "s"),
    "epoch_distance": PositiveColumn("Distance between the weights at its end and at its start."),
    "weight_distance": PositiveColumn("Distance of the weights at its end from the initial ones."),
    "examples": IntegerColumn(
        "Training examples used by its end, each as often as it was used.", "examples"
    ),
    "seconds": Column("As in trajectories.csv, by its end.", "s"),
}
# Columns of trajectories.csv beside run, factors and status.
TRAJECTORIES: dict[str, Column] = {
    "machine": _MACHINE,
    "examples": IntegerColumn(
        "Training examples used so far, each as often as it was used.", "examples"
    ),
    "updates": IntegerColumn("Updates made so far.", "updates"),
    "epoch": Column("Epochs so far, a fraction inside one.", "epochs"),
    "seconds": Column(
        "examples / examples_per_second of the timing job of the run's configuration, evaluations "
        "excluded: time_epoch, or throughput of an experiment under `beside`; empty without "
        "either.",
        "s",
    ),
    "train_loss": PositiveColumn(
        "Training loss, dropout off, on a fixed subset of at most 512 examples; empty of a run "
        "without evaluate_every.",
        tasks.NATS,
    ),
    "validation_loss": PositiveColumn("Validation loss.", tasks.NATS),
    **_metrics("validation", "Validation {}."),
    "test_loss": PositiveColumn("Test loss; empty of a run without evaluate_every.", tasks.NATS),
    **_metrics("test", "Test {}; empty of a run without evaluate_every."),
}
# Columns of at_epochs.csv beside run, factors and status.
AT_EPOCHS: dict[str, Column] = {
    "machine": _MACHINE,
    "at_epoch": IntegerColumn("Number of epochs, as the experiment asks for.", "epochs"),
    **{
        name: column
        for entry in MEASURES.values()
        if entry.at_epochs
        for name, column in entry.columns.items()
        if column.at_epochs
    },
    "train_seconds": PositiveColumn("at_epoch * seconds_per_epoch: validation apart.", "s"),
}
# Every column, in the table's order; `{...}` stands for each value of a measure's setting.
COLUMNS: dict[str, Column] = {
    "run": TextColumn("Name of the run: its folder under results/runs."),
    "study": TextColumn("Name of the study."),
    "experiment": TextColumn("Name of the experiment."),
    "machine": _MACHINE,
    **_factor_columns(),
    "status": TextColumn(
        "finished, diverged, out_of_memory, off_target where the training loss missed "
        "target_train_loss, missing; or not_installed where a command requires a path that is "
        "missing, no_gpu where no GPU is within reach, or no_cores where it asks for more threads "
        "than there are cores."
    ),
    **dict(chain.from_iterable(entry.columns.items() for entry in ENTRIES.values())),
    **OF_RECORD,
    **OF_COMMANDS,
    "other_versions": TextColumn(
        "Versions of the steps that made some of these numbers, where they are not today's."
    ),
    "best_train_loss": PositiveColumn(
        "Lowest training loss of an epoch: the mean over its updates, dropout on.",
        label="Best training loss",
    ),
    "train_seconds": PositiveColumn(
        "epochs_run * seconds_per_epoch: validation apart; of a command the time of the whole run.",
        "s",
        label="Total training time",
        **_RISES,
    ),
    "disturbed_share": Column(
        "Share of the blocks of the timing job during which other processes took more than 0.2 "
        "cores.",
        least=0,
        most=1,
    ),
    "foreign_cores": PositiveColumn(
        "Cores that other processes took during a block of the timing job: median."
    ),
    "train_examples": IntegerColumn("Examples in the training split.", "examples"),
    "validation_examples": IntegerColumn("Examples in the validation split.", "examples"),
    "test_examples": IntegerColumn("Examples in the test split.", "examples"),
    # Empty where examples are no sequences.
    "tokens_per_update": IntegerColumn("Tokens of a batch: its sequences times their length."),
    "tokens_per_second": Column(
        "Training tokens per second in the timing job: examples_per_second times the length.",
        unit="tokens/s",
    ),
}
_PATTERNS = {
    name: re.compile(re.sub(r"\\{(\w+)\\}", r"(?P<\1>[a-z0-9.-]+)", re.escape(name)))
    for name in COLUMNS
    if "{" in name
}
_FURTHER = Column(
    "A column of the table of trainings that were made elsewhere, under its name there: it "
    "distinguishes series.",
    kind="",
)


def describe(column: str) -> Column | None:
    """Returns what a column holds, its label filled in; None for one that is not documented."""
    if own_columns.is_own(column):
        return _FURTHER
    if found := tasks.own(column):
        return Column(f"{found.doc.format(split=column.partition('_')[0])}, as the log has it.")
    if column in COLUMNS and column not in _PATTERNS:
        return COLUMNS[column]
    for name, pattern in _PATTERNS.items():
        if match := pattern.fullmatch(column):
            found = COLUMNS[name]
            words = {key: found.words.get(text, text) for key, text in match.groupdict().items()}
            return replace(found, label=found.label.format(**words))
    return None


def position(column: str) -> int:
    """Returns a column's place in the table; what is not documented comes last."""
    for index, name in enumerate(COLUMNS):
        if column == name or (name in _PATTERNS and _PATTERNS[name].fullmatch(column)):
            return index
    return len(COLUMNS)


def of_measures(measures: dict[str, dict[str, Any]], learned: Collection[str]) -> list[str]:
    """Returns the columns of an experiment, whatever is measured in it so far, in order.

    Args:
        measures: Measure -> every setting, by full name.
        learned: Tasks of its data sets.
    """
    fixed = [name for name in COLUMNS if name not in _PATTERNS]
    own = (ENTRIES[name].columns_for(settings) for name, settings in measures.items())
    names = tasks.kept(dict.fromkeys([*fixed, *chain.from_iterable(own)]), learned)
    return sorted(names, key=position)
