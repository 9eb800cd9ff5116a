"""Outcomes of runs with their expected directions, verdicts and reasons.

An outcome is a column of runs.csv with a label. Every study tests the outcomes with a direction.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass, replace

from batchscope.study import columns, tasks

RISES, FALLS = "rises", "falls"
LEVEL = 0.05  # false discovery rate of a family; error rate of a comparison with the best
MIN_SEEDS = 6  # paired replicates; with fewer, every verdict is provisional
MIN_SEEDS_FOR_INTERVAL = 3  # replicates; fewer values have a range instead of an interval


class Verdict(enum.StrEnum):
    """Verdict on a statement, or on a batch size compared with the best other one."""

    SUPPORTED = "supported"
    CONTRADICTED = "contradicted"
    WITHIN = "within"  # the margin of the best of the others
    BEYOND = "beyond"
    NOT_RESOLVED = "not_resolved"
    PROVISIONAL = "provisional"  # two to five replicates
    ONE_SEED = "one_seed"
    NOT_TESTABLE = "not_testable"


# Verdict on 'no other is better by more than a margin' -> verdict on the batch size.
MARGIN_VERDICTS = {Verdict.SUPPORTED: Verdict.WITHIN, Verdict.CONTRADICTED: Verdict.BEYOND}


class Reason(enum.StrEnum):
    """Reason of a verdict that does not follow from the interval alone."""

    NONE = ""
    NOT_AT_EVERY_STEP = "not_at_every_step"  # supported, but one step goes significantly back
    RATE_ON_EDGE = "rate_on_edge"  # a better learning rate may be outside the grid
    RATE_LEFT = "rate_left"  # the race, although it was better at this budget
    AT_FIRST_EVALUATION = "at_first_evaluation"  # the cost is an upper bound
    LOWER_BOUND = "lower_bound"  # nothing stopped the runs
    FAILED = "failed"  # a run did not finish
    NOT_REACHED = "not_reached"  # a run finished without reaching the target
    NO_VALUE = "no_value"  # no run, no evaluation within the budget, or no timing
    ALONE = "alone"  # nothing to compare it with
    NO_BUDGET = "no_budget"  # some training ended before the budget
    NOT_POSITIVE = "not_positive"  # a value of 0 or below has no logarithm
    NOT_IN_GRID = "not_in_grid"
    SEVERAL = "several"  # several settings; the document names none
    NO_RESULTS = "no_results"
    NO_GPU = "no_gpu"
    FEW_GPUS = "few_gpus"
    NO_MACHINE = "no_machine"  # no results of a second machine
    NO_CORES = "no_cores"
    NOT_INSTALLED = "not_installed"


@dataclass(frozen=True)
class Outcome:
    """A column of runs.csv with a label, and its expected direction."""

    column: str
    label: str
    unit: str
    direction: str


def _outcome(column: str, metrics: tasks.Metrics = ()) -> Outcome | None:
    described = columns.describe(column, metrics)
    if not described or not described.label:
        return None
    return Outcome(column, described.label, described.unit, described.direction)


def outcome(column: str) -> Outcome | None:
    result = _outcome(column)
    return result if result and result.direction else None


def with_direction(column: str, direction: str, metrics: tasks.Metrics) -> Outcome | None:
    """Return an outcome with the direction that a study states; None if it is no outcome.

    Args:
        metrics: User-defined metrics of the experiment.
    """
    result = _outcome(column, metrics)
    return result and replace(result, direction=direction)
