"""Comparisons of batch sizes: their budgets, their verdicts with reasons, and limits for both.

Trainings are compared at equal epochs, updates or seconds, at a target, or at their ends. The
templates have the words of verdicts.
"""

import enum
from collections.abc import Collection
from typing import Any

from batchscope.study import tasks

EPOCHS, UPDATES, SECONDS = "epochs", "updates", "seconds"
TARGET, CONVERGENCE = "target", "convergence"
END = "end"  # Runs are compared at their ends, regardless of their lengths.
EXAMPLES = "examples"  # Runs with a single row each end at the same number of examples.
ENDS = (CONVERGENCE, END, EXAMPLES)  # kinds that compare the ends of runs
# Kind -> its column of trajectories.csv.
AXES = {EPOCHS: "epoch", UPDATES: "updates", SECONDS: "seconds"}
COST_KINDS = (TARGET, EXAMPLES, EPOCHS)  # kinds that compare costs
COSTS = ("updates", "examples", "seconds")  # columns of costs to a target, which are outcomes
# Targets that every training of the task evaluates, even at the ends of epochs only.
ALWAYS_EVALUATED = ("validation_loss", *(f"validation_{name}" for name in tasks.METRICS))
# Columns of trajectories.csv that may be a target.
TARGETS = (
    *("train_loss", *ALWAYS_EVALUATED),
    *("test_loss", *(f"test_{name}" for name in tasks.METRICS)),
)
# A batch size may take longer to a target than the fastest one by this share of its seconds.
MAX_SLOWDOWN = 0.1
# Examples count as equal up to this ratio, since the last batch of an epoch may be padded.
_SAME_EXAMPLES = 1.05

RISES, FALLS = "rises", "falls"
LEVEL = 0.05  # false discovery rate of a family; error rate of a comparison with the best
MIN_SEEDS = 6  # Verdicts from fewer paired replicates are provisional.
MIN_SEEDS_FOR_INTERVAL = 3  # Fewer replicates have a range instead of an interval.
MIN_FIT_SIZES = 3  # A fit to two batch sizes has no residual.


class Verdict(enum.StrEnum):
    """Verdict on a statement, or on a batch size compared with the best other one."""

    SUPPORTED = "supported"
    CONTRADICTED = "contradicted"
    WITHIN = "within"  # No other batch size is better by more than the margin.
    BEYOND = "beyond"  # Another batch size is better by more than the margin.
    NOT_RESOLVED = "not_resolved"  # The interval contains the bound.
    PROVISIONAL = "provisional"  # There are two to five replicates.
    ONE_SEED = "one_seed"  # There is one replicate, and no interval.
    NOT_TESTABLE = "not_testable"  # A value is missing; the reason says why.


# Verdict on "no other size is better by more than the margin" -> verdict on the batch size.
MARGIN_VERDICTS = {Verdict.SUPPORTED: Verdict.WITHIN, Verdict.CONTRADICTED: Verdict.BEYOND}


class Reason(enum.StrEnum):
    """Reason of a verdict that does not follow from the interval alone."""

    NONE = ""  # The interval explains the verdict.
    NOT_AT_EVERY_STEP = "not_at_every_step"  # The trend holds, but one step goes back.
    RATE_ON_EDGE = "rate_on_edge"  # A better learning rate may be outside the grid.
    RATE_LEFT = "rate_left"  # A rate left the race, so it has fewer seeds.
    AT_FIRST_EVALUATION = "at_first_evaluation"  # The cost is an upper bound.
    LOWER_BOUND = "lower_bound"  # Nothing stopped the runs, so their length is a lower bound.
    FAILED = "failed"  # A run did not finish.
    NOT_REACHED = "not_reached"  # A run finished without reaching the target.
    NO_VALUE = "no_value"  # There is no run, no evaluation within the budget, or no timing.
    ALONE = "alone"  # There is nothing to compare the batch size with.
    NO_BUDGET = "no_budget"  # Some training ended before the budget.
    NOT_POSITIVE = "not_positive"  # A value of 0 or below has no logarithm.
    NOT_IN_GRID = "not_in_grid"  # The grid of the experiment lacks the cell.
    SEVERAL = "several"  # The runs differ in a factor that the document does not name.
    NO_RESULTS = "no_results"  # The experiment has no results.
    NO_GPU = "no_gpu"  # The machine has no GPU.
    FEW_GPUS = "few_gpus"  # The machine has fewer GPUs than the runs need.
    NO_MACHINE = "no_machine"  # There are no results of a second machine.
    NO_CORES = "no_cores"  # The machine has fewer cores than the runs need.
    NOT_INSTALLED = "not_installed"  # A file that the command requires is missing.


def equal_budget(ends: Any) -> tuple[str, float] | None:
    """Return kind and value of the budget at which runs ended; None if their ends are unequal.

    Args:
        ends: A frame with one row per run.
    """
    for kind, max_ratio in ((EXAMPLES, _SAME_EXAMPLES), (UPDATES, 1), (EPOCHS, 1)):
        costs = ends.get(AXES.get(kind, kind), ())
        if len(costs) and costs.notna().all() and costs.max() <= max_ratio * costs.min():
            return kind, float(costs.min())
    return None


def end_kinds(kinds: Collection[str]) -> tuple[str, ...]:
    """Return the kinds that compare the ends of runs, among the kinds that a table has."""
    return ENDS if {*ENDS} & {*kinds} else (EPOCHS,)
