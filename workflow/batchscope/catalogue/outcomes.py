"""What is asked of runs: each outcome with the direction that somebody states for it beforehand."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass, replace

RISES, FALLS = "rises", "falls"
DIRECTIONS = (RISES, FALLS)
LEVEL = 0.05  # of every test
LEAST_SEEDS = 6  # paired seeds below which no verdict is given


@dataclass(frozen=True)
class Outcome:
    """A column of runs.csv and what it is stated to do.

    Attributes:
        column: Its column.
        label: What people call it.
        unit: Unit, or an empty string.
        direction: What it does with growing batch size, stated beforehand; empty for an outcome
            that is tested only where a study states it.
        source: Who states it.
        timed: Whether it rests on one timing job per configuration: no seeds, no verdict.
    """

    column: str
    label: str
    unit: str
    direction: str
    source: str
    timed: bool = False


_KESKAR = "Keskar et al. 2017, arXiv 1609.04836"
_CHANG = "Chang and Pathak 2020"
OUTCOMES: dict[str, Outcome] = {
    outcome.column: outcome
    for outcome in (
        Outcome("test_accuracy", "Test accuracy", "", FALLS, _KESKAR),
        Outcome("generalisation_gap", "Generalisation gap", "", RISES, _KESKAR),
        Outcome("best_validation_loss", "Best validation loss", "", RISES, _CHANG),
        Outcome(
            "weight_distance",
            "Distance from the initial weights",
            "",
            FALLS,
            f"{_KESKAR}; Hoffer et al. 2017, arXiv 1705.08741",
        ),
        Outcome("epochs_run", "Epochs until the training stopped", "epochs", RISES, _CHANG),
        Outcome("seconds_per_epoch", "Time per epoch", "s", FALLS, _CHANG, timed=True),
        Outcome("train_seconds", "Total training time", "s", RISES, _CHANG, timed=True),
    )
}
# Tested only where a study states what they do.
FURTHER: dict[str, Outcome] = {
    column: Outcome(column, label, "", "", "")
    for column, label in {
        "best_train_loss": "Best training loss",
        "train_loss": "Training loss",
        "validation_loss": "Validation loss",
        "test_loss": "Test loss",
        "train_accuracy": "Training accuracy",
        "validation_accuracy": "Validation accuracy",
        "weight_distance_relative": "Relative distance from the initial weights",
        "updates": "Number of updates",
        "update_norm_mean": "Mean norm of an update",
        "update_norm_median": "Median norm of an update",
        "path_length": "Length of the path",
        "straightness": "Straightness of the path",
        "hessian_top_eigenvalue": "Largest eigenvalue of the Hessian",
        "hessian_trace": "Trace of the Hessian",
        "landscape_rise": "Rise of the loss along random directions",
    }.items()
}
_SHARPNESS = Outcome("", "Sharpness", "% of 1 + loss", RISES, _KESKAR)
_SHARPNESS_COLUMN = re.compile(r"sharpness_(full|subspace)_([0-9.e-]+)")
_SAM_COLUMN = re.compile(r"sam_sharpness_([0-9.e-]+)")
# For messages: the patterns by an example each.
EXAMPLES = (*OUTCOMES, *FURTHER, "sharpness_full_0.001", "sam_sharpness_0.05")


def outcome(column: str) -> Outcome | None:
    """Returns what is asked about a column of every study, or None."""
    match = _SHARPNESS_COLUMN.fullmatch(column)
    if match:
        space = {"full": "full space", "subspace": "random subspace"}[match[1]]
        label = f"Sharpness, {space}, epsilon {match[2]}"
        return replace(_SHARPNESS, column=column, label=label)
    return OUTCOMES.get(column)


def stated(column: str, direction: str, source: str) -> Outcome | None:
    """Returns what a study states about a column; None for a column that is no outcome.

    Args:
        column: Column of runs.csv.
        direction: What it does with growing batch size.
        source: Who states it, where it is not what is asked anyway.
    """
    asked = outcome(column)
    if asked and asked.direction == direction:
        return asked
    match = _SAM_COLUMN.fullmatch(column)
    if match:
        asked = Outcome(column, f"SAM's sharpness, rho {match[1]}", "", "", "")
    asked = asked or FURTHER.get(column)
    return asked and replace(asked, direction=direction, source=source)


def seeds_needed(batch_sizes: int, tests: int = 1) -> int:
    """Returns the paired seeds below which no trend over these batch sizes can get a verdict.

    Page's test of n seeds and k sizes gives no p below (1 / k!)^n, which Holm's adjustment
    multiplies by the number of tests. The t-test for two sizes has no smallest p.

    Args:
        batch_sizes: How many are compared, at least 2.
        tests: Tests that share the level.
    """
    if batch_sizes < 3:
        return LEAST_SEEDS
    smallest = math.log(max(tests, 1) / LEVEL) / math.lgamma(batch_sizes + 1)
    return max(LEAST_SEEDS, math.floor(smallest) + 1)
