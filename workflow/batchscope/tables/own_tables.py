"""Trainings that were made elsewhere -> the tables that trainings here have: what is known of them.

A training's values are those of its last row, as our runs' are of their last weights; `own_runs`
says what became of it.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any

import pandas

from batchscope.analysis import run_series
from batchscope.catalogue import columns, own_columns
from batchscope.study.own_runs import Table, read
from batchscope.study.plan import Experiment, Study
from batchscope.tables import own_runs

_KEY = ("batch_size", "seed")


def runs(study: Study, experiment: Experiment) -> pandas.DataFrame:
    """Returns one row per training, as `run_table.collect` does of trainings here."""
    table = read(experiment.own.path)
    whose = {"study": study.name, "experiment": experiment.name}
    found = [{**first, **whose, **_values(table, rows)} for first, rows in _trainings(table)]
    own = filter(own_columns.is_own, found[0])
    named = columns.of_measures({"evaluate": {}})
    at = named.index("status")
    frame = pandas.DataFrame(found, columns=[*named[:at], *own, *named[at:]])
    entries = {name: column for name in named if (column := columns.describe(name))}
    return run_series.typed(frame, entries, errors="ignore")


def trajectories(experiment: Experiment, first_columns: Sequence[str]) -> pandas.DataFrame:
    """Returns one row per evaluation, as `long_tables.trajectories` does of trainings here.

    `first_columns`: run, factors and status, with which every long table begins.
    """
    table = read(experiment.own.path)
    # The columns of trajectories.csv that a row of the table may fill.
    known = [name for name in columns.TRAJECTORIES if name != "machine"]
    known += [name for name in own_columns.OUTCOMES if name in table.columns and name not in known]
    found = [
        {**first, **{name: table.rows[index].get(name, math.nan) for name in known}}
        for first, rows in _trainings(table)
        for index in rows
    ]
    own = filter(own_columns.is_own, found[0])
    *before, status = first_columns
    frame = pandas.DataFrame(found, columns=[*before, *own, status, "machine", *known])
    return run_series.typed(frame, columns.TRAJECTORIES, errors="ignore")


def _trainings(table: Table) -> Iterator[tuple[dict[str, Any], list[int]]]:
    """Yields the first columns of every training, and its rows in order of updates."""
    names = {name: own_columns.factor(name, texts) for name, texts in table.texts.items()}
    stem = table.path.replace("\\", "/").rpartition("/")[2].rpartition(".")[0]
    for key, rows in table.trainings.items():
        factors: dict[str, Any] = {}
        for name, (shown, values) in names.items():
            factors[shown] = table.rows[rows[0]][name] if values is None else values[rows[0]]
        identity = {**dict(zip(_KEY, key, strict=False)), **factors}
        parts = [f"{name.removeprefix(own_columns.OWN)}={identity[name]}" for name in identity]
        yield (
            {
                "run": "+".join([f"{stem}-{table.sha256[:8]}", *parts]),
                "machine": own_columns.ELSEWHERE,
                **identity,
                "status": own_runs.status(table, rows),
            },
            rows,
        )


def _values(table: Table, rows: list[int]) -> dict[str, Any]:
    """Returns what runs.csv has of a training beside its factors and status."""
    last = table.rows[rows[-1]]
    found = {name: _last(table, rows, name) for name in own_columns.OUTCOMES}
    for split in ("train", "validation"):
        losses = [table.rows[index].get(f"{split}_loss", math.nan) for index in rows]
        found[f"best_{split}_loss"] = min(filter(math.isfinite, losses), default=math.nan)
    if table.single:
        found["reached_target"] = int(not math.isnan(last["updates"]))
    else:
        found["steps_run"] = round(last["updates"])
    factors = {name: texts[rows[-1]] for name, texts in table.texts.items()}
    if table.rates and factors.get("learning_rate_scaling", "none") == "none":
        found["effective_learning_rate"] = last["learning_rate"]
    return {
        **found,
        "generalisation_gap": found["test_loss"] - found["train_loss"],
        "generalisation_gap_accuracy": found["train_accuracy"] - found["test_accuracy"],
    }


def _last(table: Table, rows: list[int], name: str) -> float:
    """Returns a column's last value: not every evaluation need be of everything."""
    found = [table.rows[index].get(name, math.nan) for index in rows]
    return next((value for value in reversed(found) if not math.isnan(value)), math.nan)
