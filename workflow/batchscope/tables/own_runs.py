"""Trainings that were made elsewhere: their evaluations, as read, and the tables that ours have.

A training's values are those of its last row, as our runs' are of their last weights.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas

from batchscope import problems, wording
from batchscope.analysis import run_series, targets, trainings
from batchscope.analysis.targets import Target
from batchscope.catalogue import columns, own_columns
from batchscope.catalogue.entries import Column
from batchscope.catalogue.horizons import REASON
from batchscope.catalogue.own_columns import ACCURACIES, LOSSES
from batchscope.errors import UserError
from batchscope.store import records
from batchscope.study import horizons, own_runs
from batchscope.study.own_runs import Table
from batchscope.study.plan import Experiment, Study

_KEY = ("batch_size", "seed")


@dataclass(frozen=True)
class OwnRuns:
    """Rows of evaluations, and the columns that may distinguish series."""

    frame: pandas.DataFrame
    factors: list[str]


def read(path: Path | str) -> OwnRuns:
    """Reads a table of one's own trainings; where rates fall, of single rows at their targets."""
    found = own_runs.read(path)
    if schedule := horizons.of_own_runs(found):
        raise UserError(
            f"{path}, column schedule: received {problems.show(schedule)}, {REASON}; a single row "
            "of each training is expected, at the target that it was trained to."
        )
    frame = pandas.DataFrame(found.rows, columns=found.columns)
    for rows in found.trainings.values():
        frame.loc[rows, "status"] = status(found, rows)
    return OwnRuns(frame, list(found.factors))


def runs(study: Study, experiment: Experiment) -> pandas.DataFrame:
    """Returns one row per training, as `run_table.collect` does of trainings here."""
    table = own_runs.read(experiment.own.path)
    rows = _evaluations(table).assign(study=study.name, experiment=experiment.name)
    outcomes = list(own_columns.OUTCOMES)
    rows = rows.reindex(columns=[*rows, *(name for name in outcomes if name not in rows)])
    by_run = rows.groupby("run", sort=False)
    found = by_run.last().reset_index()  # not every evaluation need be of everything
    for split in ("train", "validation"):
        finite = rows[f"{split}_loss"].where(np.isfinite(rows[f"{split}_loss"]))
        found[f"best_{split}_loss"] = finite.groupby(rows["run"], sort=False).min().to_numpy()
    used = found.pop("updates")  # in runs.csv it is a measure's
    if table.single:
        found["reached_target"] = used.notna().astype(int)
    else:
        found["steps_run"] = used.round()
    if table.rates:
        scaled = found.get("learning_rate_scaling", "none") != "none"
        found["effective_learning_rate"] = found["learning_rate"].mask(scaled)
    found["generalisation_gap"] = found["test_loss"] - found["train_loss"]
    found["generalisation_gap_accuracy"] = found["train_accuracy"] - found["test_accuracy"]
    named = columns.of_measures({"evaluate": {}})
    entries = {name: column for name in named if (column := columns.describe(name))}
    return _table(found, named, entries)


def trajectories(experiment: Experiment, first_columns: Sequence[str]) -> pandas.DataFrame:
    """Returns one row per evaluation, as `long_tables.trajectories` does of trainings here."""
    rows = _evaluations(own_runs.read(experiment.own.path))
    known = dict.fromkeys([*columns.TRAJECTORIES, *filter(rows.__contains__, own_columns.OUTCOMES)])
    return _table(rows, [*first_columns, *known], columns.TRAJECTORIES)


def _table(
    rows: pandas.DataFrame, named: Sequence[str], entries: Mapping[str, Column]
) -> pandas.DataFrame:
    """Returns some columns of rows, with the file's own factors before the status."""
    at = named.index("status")
    names = [*named[:at], *filter(own_columns.is_own, rows), *named[at:]]
    return run_series.typed(rows.reindex(columns=names), entries, errors="ignore")


def status(table: Table, rows: list[int]) -> str:
    """Returns what became of the training of some rows: as stated, else as its last losses say."""
    if stated := table.statuses[rows[-1]]:
        return stated
    if math.isnan(table.rows[rows[-1]]["updates"]):
        return records.OFF_TARGET
    losses = ([table.rows[index].get(name, math.nan) for name in LOSSES] for index in rows)
    known = [found for found in losses if not all(map(math.isnan, found))]
    diverged = known and not any(map(math.isfinite, known[-1]))
    return records.DIVERGED if diverged else records.FINISHED


def _evaluations(table: Table) -> pandas.DataFrame:
    """Returns every evaluation, by training and in order of updates, under our columns' names."""
    names = {name: own_columns.factor(name, texts) for name, texts in table.texts.items()}
    stem = table.path.replace("\\", "/").rpartition("/")[2].rpartition(".")[0]
    numbers = [name for name in table.columns if name not in table.texts]
    found = []
    for key, rows in table.trainings.items():
        identity: dict[str, Any] = dict(zip(_KEY, key, strict=False))
        for name, (shown, values) in names.items():
            identity[shown] = table.rows[rows[0]][name] if values is None else values[rows[0]]
        parts = [f"{name.removeprefix(own_columns.OWN)}={identity[name]}" for name in identity]
        run = "+".join([f"{stem}-{table.sha256[:8]}", *parts])
        first = {"run": run, "machine": own_columns.ELSEWHERE, **identity}
        first["status"] = status(table, rows)
        for index in rows:
            row = table.rows[index]
            found.append({**{name: row.get(name, math.nan) for name in numbers}, **first})
    return pandas.DataFrame(found)


def target(text: str, runs: OwnRuns) -> Target:
    """Returns the target that `validation_loss=0.2` states; a UserError where there is none."""
    column, _, number = text.partition("=")
    known = [name for name in (*LOSSES, *ACCURACIES) if name in runs.frame]
    if column not in known:
        near = problems.nearest(column, known)
        hint = f" Did you mean '{near}'?" if near else ""
        expected = wording.listed(known, "or") or "a file with a loss or an accuracy"
        raise UserError(
            f"--target: received {problems.show(text)}; one of {expected}, as in "
            f"validation_loss=0.2, is expected.{hint}"
        )
    most = math.inf if column in LOSSES else 1.0
    value = next(iter(_numbers(number)), math.nan)
    if not 0 < value < most:
        expected = "a number above 0" if column in LOSSES else "a share between 0 and 1"
        raise UserError(
            f"--target {column}: received {problems.show(number)}; {expected} is expected."
        )
    return Target(column, value)


def check_default_targets(runs: OwnRuns) -> None:
    """Raises a UserError where a series has no target and none is stated."""
    for each in trainings.of_evaluations(runs.frame, runs.factors):
        if not targets.default_targets(each):
            column = targets.target_column(each) or "loss or accuracy"
            label = ", ".join(f"{name} {value}" for name, value in each.factors.items())
            raise UserError(
                f"--target: received none{f', and for {label}' if label else ''} there is no "
                f"{column} that is better than at the first evaluation of every training and "
                "that every training reached; one is expected, as --target validation_loss=0.2."
            )


def step_seconds(text: str) -> tuple[float, float]:
    """Returns the seconds of a step, fixed and per example, that `0.002,0.0001` states."""
    found = _numbers(text)
    if len(found) != 2 or not all(0 < each < math.inf for each in found):
        raise UserError(
            f"--step-seconds: received {problems.show(text)}; two numbers above 0 are expected: "
            "the fixed cost of a step and the cost per example in seconds, as 0.002,0.0001."
        )
    return found[0], found[1]


def _numbers(text: str) -> list[float]:
    """Returns the numbers between commas; none where one of them is not."""
    try:
        return [float(part) for part in text.split(",")]
    except ValueError:
        return []
