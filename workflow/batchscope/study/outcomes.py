"""What is asked of runs: each outcome with the direction that somebody states for it beforehand.

An outcome is a column of runs.csv with a label; one with a direction is asked about in every study.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass, replace

from batchscope.study import columns

RISES, FALLS = "rises", "falls"
LEVEL = 0.05  # false discovery rate of a family; error rate of a comparison with the best
LEAST_SEEDS = 6  # paired replicates below which nothing is more than provisional
LEAST_WITH_INTERVAL = 3  # below which values have their range, and no interval


class Verdict(enum.StrEnum):
    """What replicates say of a statement, or of a batch size beside the best of the others."""

    SUPPORTED = "supported"
    CONTRADICTED = "contradicted"
    WITHIN = "within"  # the margin of the best of the others
    BEYOND = "beyond"
    NOT_RESOLVED = "not_resolved"
    PROVISIONAL = "provisional"  # two to five replicates
    ONE_SEED = "one_seed"
    NOT_TESTABLE = "not_testable"


# What a statement that none is better by more than a margin is called, by its verdict.
OF_MARGIN = {Verdict.SUPPORTED: Verdict.WITHIN, Verdict.CONTRADICTED: Verdict.BEYOND}


class Reason(enum.StrEnum):
    """Why a verdict is what it is, where the interval alone does not say."""

    NONE = ""
    NOT_AT_EVERY_STEP = "not_at_every_step"  # supported, but one step significantly turns back
    RATE_ON_EDGE = "rate_on_edge"  # a better learning rate may lie beyond those tried
    AT_FIRST_EVALUATION = "at_first_evaluation"  # what was taken is an upper bound
    LOWER_BOUND = "lower_bound"  # nothing stopped the runs
    FAILED = "failed"  # a run did not finish
    NOT_REACHED = "not_reached"  # a run finished without reaching the target
    NO_VALUE = "no_value"  # no run, none evaluated by then, or not timed
    ALONE = "alone"  # nothing to compare it with
    NO_BUDGET = "no_budget"  # some training ended before the budget
    NOT_POSITIVE = "not_positive"  # a value of 0 or below has no logarithm
    NOT_IN_GRID = "not_in_grid"
    SEVERAL = "several"  # settings; the document names none of them
    NO_RESULTS = "no_results"
    NO_GPU = "no_gpu"
    FEW_GPUS = "few_gpus"
    NO_MACHINE = "no_machine"  # the results of a second machine
    NO_CORES = "no_cores"
    NOT_INSTALLED = "not_installed"


@dataclass(frozen=True)
class Outcome:
    """A column of runs.csv, and what somebody states of it beforehand: its direction."""

    column: str
    label: str
    unit: str
    direction: str
    source: str


def _outcome(column: str) -> Outcome | None:
    found = columns.describe(column)
    if not found or not found.label:
        return None
    return Outcome(column, found.label, found.unit, found.direction, found.source)


def outcome(column: str) -> Outcome | None:
    """Returns what is asked about a column in every study, or None."""
    found = _outcome(column)
    return found if found and found.direction else None


def stated(column: str, direction: str, source: str) -> Outcome | None:
    """Returns what a study states about a column; None for a column that is no outcome.

    Args:
        source: Who states it, where it is not what is asked anyway.
    """
    found = _outcome(column)
    if found is None or found.direction == direction:
        return found
    return replace(found, direction=direction, source=source)
