"""Trainings of one's own, whatever made them, as one table of evaluations; their targets."""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path

import pandas

from batchscope import problems, wording
from batchscope.analysis import updates_to_target
from batchscope.analysis.updates_to_target import ACCURACIES, LOSSES, Target
from batchscope.catalogue.horizons import REASON
from batchscope.errors import UserError
from batchscope.store import records
from batchscope.study import horizons, own_runs
from batchscope.study.own_runs import Table


@dataclass(frozen=True)
class OwnRuns:
    """Trainings of one's own: rows of evaluations, and the columns that may distinguish series."""

    frame: pandas.DataFrame
    factors: list[str]


def read(path: Path | str) -> OwnRuns:
    """Reads a table of one's own trainings; raises as `study.own_runs.read` does.

    Raises:
        UserError: If rates fall towards the horizon and trainings have rows before it, too.
    """
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


def status(table: Table, rows: list[int]) -> str:
    """Returns what became of the training of some rows, in the words of `records` or of the table.

    A training of which the table says nothing has diverged where the losses of its last row that
    has any are not finite; one whose single row is without updates never reached its target.
    """
    if stated := table.statuses[rows[-1]]:
        return stated
    if math.isnan(table.rows[rows[-1]]["updates"]):
        return records.OFF_TARGET
    losses = ([table.rows[index].get(name, math.nan) for name in LOSSES] for index in rows)
    known = [found for found in losses if not all(map(math.isnan, found))]
    if known and not any(map(math.isfinite, known[-1])):
        return records.DIVERGED
    return records.FINISHED


def target(text: str, runs: OwnRuns) -> Target:
    """Returns the target that `validation_loss=0.2` states.

    Raises:
        UserError: If the trainings have no such column, or the number cannot be reached.
    """
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
    try:
        value = float(number)
    except ValueError:
        value = math.nan
    most = math.inf if column in LOSSES else 1.0
    if not 0 < value < most:
        expected = "a number above 0" if column in LOSSES else "a share between 0 and 1"
        raise UserError(
            f"--target {column}: received {problems.show(number)}; {expected} is expected."
        )
    return Target(column, value)


def check_default_targets(runs: OwnRuns) -> None:
    """Raises a UserError where a series has no target and none is stated."""
    for factors, _, rows in updates_to_target.series(runs.frame, runs.factors):
        if not updates_to_target.default_targets(rows):
            column = updates_to_target.target_column(rows) or "loss or accuracy"
            label = ", ".join(f"{name} {value}" for name, value in factors.items())
            raise UserError(
                f"--target: received none{f', and for {label}' if label else ''} there is no "
                f"{column} that is better than at the first evaluation of every training and "
                "that every training reached; one is expected, as --target validation_loss=0.2."
            )


def step_seconds(text: str) -> tuple[float, float]:
    """Returns the fixed cost of a step and the cost per example that `0.002,0.0001` states, in s.

    Raises:
        UserError: If these are not two numbers above 0.
    """
    try:
        fixed, per_image = (float(part) for part in text.split(","))
    except ValueError:
        fixed = per_image = math.nan
    if not (0 < fixed < math.inf and 0 < per_image < math.inf):
        raise UserError(
            f"--step-seconds: received {problems.show(text)}; two numbers above 0 are expected: "
            "the fixed cost of a step and the cost per example in seconds, as 0.002,0.0001."
        )
    return fixed, per_image
