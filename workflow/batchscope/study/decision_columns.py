"""Columns of tables of verdicts, targets, advice and claims."""

from batchscope.study.specifications import (
    Column,
    IntegerColumn,
    PositiveColumn,
    TextColumn,
    interval,
)

_TARGET = {
    "target": TextColumn("Loss or metric to reach, in the form of the command line."),
    "target_column": TextColumn("Its column of trajectories.csv."),
    "target_value": Column("Its value."),
}

_BUDGET = {
    "budget": TextColumn(
        "Budget of the comparison: epochs, updates, seconds, target (a loss or a metric to reach), "
        "convergence (each training at its lowest validation loss), end (the end of each "
        "training), or examples (external runs with a single row each)."
    ),
    "budget_value": Column(
        "Value of the budget; for a target, the loss or metric. Empty for convergence, for end, "
        "and if the rows of external runs are the target."
    ),
    "budget_column": TextColumn("Column of the target; empty for other budgets."),
    "outcome": TextColumn(
        "The outcome, on test data or, without test data at the budget, on validation data. For a "
        "target: updates, examples or seconds to reach it. For end: a column of runs.csv."
    ),
}


def _verdict(states: str) -> dict[str, Column]:
    """Return the columns of a verdict with these values."""
    return {
        "n": IntegerColumn(
            "Paired seeds of the estimate: seeds with a value at every compared batch size."
        ),
        "verdict": TextColumn(states),
        "reason": TextColumn(
            "Reason, if the interval alone does not explain the verdict; may be empty."
        ),
    }


_TO_RESOLVE = {
    "seeds_to_resolve": IntegerColumn(
        "Total number of seeds for a decision with power .8, if the true values equal the "
        "estimates; empty if it is decided or no number suffices."
    ),
}


COMPARISONS: dict[str, Column] = {
    **_BUDGET,
    "margin": Column(
        "Largest negligible deterioration of the outcome. The study states it; default: 0.01 of an "
        "accuracy, micro-F1 or R², 0.05 nats of a loss or 0.01 of the loss of a regression, 0.1 (a "
        "tenth) of a cost to a target."
    ),
    "batch_size": IntegerColumn("Examples per update."),
    "learning_rate": Column(
        "Learning rate of the runs; if there are several, the one with the lowest mean validation "
        "loss at the budget. For a target, convergence and end it is a single rate "
        "(docs/study.md); empty if no rate has a finished run of every seed."
    ),
    "on_edge": IntegerColumn(
        "1 if it is the smallest or the largest of several rates and no rate between them is as "
        "good."
    ),
    "still_falling": IntegerColumn(
        "1 at convergence if most trainings of the batch size ended while the validation loss was "
        "falling: longer trainings may be better."
    ),
    "seeds": IntegerColumn("Seeds of the batch size with a run, regardless of status."),
    "epochs_run": Column(
        "Largest number of epochs of a finished run of the batch size; empty if unknown.", "epochs"
    ),
    "reached": IntegerColumn(
        "Seeds that finished and reached the budget at the learning rate of the row; empty if the "
        "batch size has no value."
    ),
    "mean": Column(
        "Mean of the outcome over the seeds (geometric for a target); empty if a run failed."
    ),
    **interval("mean", "Lower end of its 95 % t-interval."),
    "against": IntegerColumn("The other batch size with the best mean; empty without one."),
    "estimate": Column(
        "Mean over the paired seeds of the outcome minus the outcome at `against`; for a target, "
        "the ratio to it."
    ),
    "low": Column(
        "Lower end of the interval of the estimate; empty if it is open. docs/measures.md explains "
        "both ends."
    ),
    "high": Column("Upper end."),
    "bound": Column(
        "Value that the interval is compared with: the margin as a difference (negative if higher "
        "is better), or 1 + margin as a ratio."
    ),
    **_verdict(
        "within (the whole interval is better than the bound), beyond (the whole interval is "
        "worse), not_resolved, provisional (2 to 5 paired seeds), one_seed or not_testable."
    ),
    **_TO_RESOLVE,
}

TRENDS: dict[str, Column] = {
    **_BUDGET,
    "direction": TextColumn(
        "rises or falls with the batch size: for end the stated direction, for a budget the "
        "direction that favours larger batch sizes."
    ),
    "seeds": IntegerColumn("Seeds with a run."),
    "smallest": IntegerColumn("Smallest batch size with a value."),
    "smallest_mean": Column(
        "Mean over the paired seeds, or over all seeds if none is paired; geometric for a target."
    ),
    **interval("smallest_mean", "Lower end of its 95 % t-interval."),
    "largest": IntegerColumn("Largest batch size with a value."),
    "largest_mean": Column("Mean over the same seeds."),
    **interval("largest_mean", "Lower end of its 95 % t-interval."),
    "estimate": Column(
        "Mean over the paired seeds of the slope against the base-2 logarithm of the batch size; "
        "for a target, the factor per doubling."
    ),
    "low": Column(
        "Lower end of its t-interval at alpha* of the experiment's trends; empty if it is open."
    ),
    "high": Column("Upper end."),
    **_verdict(
        "supported (the interval is on the side of the direction), contradicted (on the other "
        "side), not_resolved, provisional (2 to 5 paired seeds), one_seed or not_testable."
    ),
}

CRITICAL: dict[str, Column] = {
    **_TARGET,
    "points": IntegerColumn(
        "Number of fitted batch sizes: those that reached the target with every seed. Fewer than "
        "three are not fitted."
    ),
    "updates_min": Column(
        "Fewest updates to the target, S_min in S = S_min (1 + B_crit / B); empty if B_crit is "
        "open upwards."
    ),
    "examples_min": Column(
        "Fewest examples to the target, S_min * B_crit; empty if B_crit is open downwards."
    ),
    "critical_batch_size": Column(
        "B_crit: at this batch size a training takes twice the fewest updates and twice the fewest "
        "examples (McCandlish et al. 2018, arXiv 1812.06162). Empty if the updates fall as 1 / B "
        "up to the largest batch size, or do not fall."
    ),
    **interval(
        "critical_batch_size",
        "Lower end of its 95 % interval; empty if it is open (at most).",
        "Upper end; empty if it is open (at least).",
    ),
    "by_seed": IntegerColumn(
        "1 if an end of the interval is from one fit per seed; 0 if both are from the profile "
        "interval over batch sizes."
    ),
    "residual": Column(
        "Root-mean-square residual of the logarithm of the updates, about the relative error."
    ),
    "lack_of_fit": Column(
        "p-value of deviations from the curve. With two or more seeds: pure-error F-test of the "
        "deviations of size means against the scatter of seeds. With one seed: twice the p-value "
        "of a softer or sharper bend or of a quadratic term. Empty if there is no test. Below .05 "
        "the constants are rough, and fastest_batch_size is empty."
    ),
    "stray": TextColumn(
        "If lack_of_fit is below .05, the batch sizes that deviate by more than two standard "
        "errors, or else the one with the largest deviation, separated by blanks."
    ),
    "examples_fewest": IntegerColumn(
        "Batch size with the smallest geometric mean of the examples to the target, among the "
        "candidates for measured_fastest."
    ),
    "fixed_seconds": PositiveColumn(
        "Fixed cost a of a step, from the line a + b * B through the seconds per step of the "
        "timing jobs by their numbers of examples. Empty unless both costs are positive, their "
        "ratio is known to a factor of e (95 %), and the line deviates by at most 5 %.",
        "s",
    ),
    "seconds_per_image": PositiveColumn("Cost per example b.", "s"),
    "half_batch": Column("Batch size a / b. Half of the time of its step is fixed cost."),
    **interval("half_batch"),
    "fastest_batch_size": Column(
        "Batch size that reaches the target first, in closed form: sqrt(critical_batch_size * "
        "half_batch); empty if the updates deviate from the curve."
    ),
    **interval(
        "fastest_batch_size", "Lower end of its 95 % interval; empty if one of the factors is open."
    ),
    "fastest_seconds": PositiveColumn(
        "Seconds to the target at that batch size, in closed form.", "s"
    ),
    "fastest_from": Column("Smallest batch size within 10 % of that time, in closed form."),
    "fastest_to": Column("Largest batch size within 10 % of that time."),
    "measured_fastest": IntegerColumn(
        "Batch size with the smallest geometric mean of the seconds to the target, among those "
        "that reached it with every seed, over their common seeds; empty without seconds or a "
        "common seed."
    ),
}

LOCAL_CRITICAL: dict[str, Column] = {
    "batch_size": IntegerColumn("Batch size of the trainings before the branches."),
    "share": Column("Share of the examples before the branches."),
    "examples_used": Column("Number of examples before the branches: mean over the seeds."),
    "critical_batch_size": Column(
        "Local critical batch size: geometric mean over the seeds of local_critical_batch_size of "
        "branch_points.csv."
    ),
    **interval(
        "critical_batch_size",
        "Lower end of the 95 % t-interval of its logarithm; empty if it is open, since the "
        "smallest factor was too large for a seed.",
        "Upper end, extended by the step to the next factor, since values between two factors are "
        "never observed; empty if it is open, since the largest factor was not too large for a "
        "seed.",
    ),
    "noise_scale": Column(
        "Gradient noise scale of the same weights: ratio of means over the seeds."
    ),
    **interval(
        "noise_scale", "Lower end of Fieller's 95 % interval.", "Upper end; empty if it is open."
    ),
    "factor": IntegerColumn("Factor k of the batch size of the branches of this row, above 1."),
    "against": IntegerColumn("The smaller factor that it is compared with."),
    "estimate": Column("Mean over the paired seeds of the loss minus the loss at `against`."),
    "low": Column("Lower end of its interval at the level."),
    "high": Column("Upper end."),
    "bound": Column("The tolerance, to which the interval is compared."),
    **_verdict(
        "within (no smaller factor is better by more than the tolerance), beyond (one is), "
        "not_resolved, provisional (2 to 5 paired seeds), one_seed or not_testable."
    ),
}

RAMPS: dict[str, Column] = {
    "batch_size": IntegerColumn("First batch size of trainings with a rising batch size."),
    "learning_rate": Column(
        "Their learning rate; if there are several, the one with the lowest mean validation loss."
    ),
    "outcome": TextColumn(
        "The outcome at the end of each training, after the same number of examples as with "
        "constant batch sizes: outcomes with stated margins, else test_loss or "
        "best_validation_loss; or its cost: updates or seconds."
    ),
    "against": IntegerColumn(
        "The constant batch size that it is compared with; for a cost, the one with the best mean "
        "outcome."
    ),
    "estimate": Column(
        "Mean over the paired seeds of the outcome minus the outcome at `against`; for a cost, the "
        "ratio."
    ),
    "low": Column("Lower end of its interval at the level."),
    "high": Column("Upper end."),
    "bound": Column(
        "Value that the interval is compared with: the margin as a difference (negative if higher "
        "is better), or 1 for a cost."
    ),
    **_verdict(
        "within (no constant size is better by more than the margin) or beyond (one is); for a "
        "cost supported (it is lower) or contradicted (it is higher); not_resolved, provisional (2 "
        "to 5 paired seeds), one_seed or not_testable."
    ),
}

TO_TARGET: dict[str, Column] = {
    **_TARGET,
    "batch_size": IntegerColumn("Examples per update."),
    "seed": IntegerColumn("Seed."),
    "learning_rate": Column(
        "Learning rate of the training. If several were tried: the one with the fewest updates to "
        "the target for the other seeds."
    ),
    "chosen_learning_rate": Column(
        "The learning rate with the fewest updates over all seeds; empty if there was one rate "
        "only, or if no rate reached the target with every seed."
    ),
    "on_edge": IntegerColumn(
        "1 if it is the lowest or the highest rate tried at the batch size; empty with a single "
        "rate."
    ),
    "reached": IntegerColumn("1 if the training reached the target, else 0."),
    "updates": Column("Updates to the target; empty if it was not reached."),
    "examples": Column("Examples to the target, with repetitions."),
    "seconds": Column(
        "Seconds to the target: examples / examples_per_second of the timing job, without "
        "evaluations; empty without timings. If several rates were tried: at the one with the "
        "fewest seconds for the other seeds, which may differ from the rate of the updates.",
        "s",
    ),
    "seconds_learning_rate": Column("Learning rate of the seconds; empty with a single rate."),
    "seconds_on_edge": IntegerColumn(
        "1 if the rate with the fewest seconds over all seeds is the lowest or the highest rate "
        "tried; empty with a single rate."
    ),
}

ADVICE: dict[str, Column] = {
    "item": TextColumn(
        "recommendation (one row per series), size (a batch size with its deciding limit), limit "
        "(a batch size and one limit, or a limit by itself), rate (a learning rate tried at the "
        "recommended size), expectation (results at the learning rate of a batch size), check, or "
        "suggestion (a change of the study)."
    ),
    "headline": TextColumn(
        "For the recommendation, the first condition that holds: no_outcome, nothing_learned (no "
        "batch size beats the baseline by its interval), rate_not_found (the best learning rate is "
        "at the edge of its grid at a size that may be the best), not_distinguished (several sizes "
        "are not excluded), or recommended (one size remains)."
    ),
    "name": TextColumn(
        "For the recommendation, the limit that ranks the sizes; for a size, a limit or a rate, "
        "memory, seconds, knee, critical_batch_size or the outcome; for an expectation, epochs or "
        "updates, outcomes, seconds, seconds_per_epoch, memory_peak_mb or patience; for a check or "
        "a suggestion, the check."
    ),
    "batch_size": IntegerColumn(
        "The recommended batch size, or the batch size of the row; may be empty."
    ),
    "smallest": IntegerColumn("Smallest of the sizes in the headline."),
    "largest": IntegerColumn("Largest of these sizes; for memory, the largest batch that fits."),
    "sizes": TextColumn("These sizes, separated by blanks."),
    "learning_rate": Column(
        "The best learning rate of the batch size: by the seconds to the target, or else by the "
        "outcome. For a rate, that rate."
    ),
    "estimate": Column(
        "The estimate of comparisons.csv, or the checked value. For a rate: the mean difference "
        "from the recommended rate, for seconds the ratio of the updates to the target. For an "
        "expectation: the mean."
    ),
    "low": Column(
        "Lower end of its interval; empty if it is open. For epochs, updates and patience, and "
        "with fewer than three seeds: the lowest value."
    ),
    "high": Column("Upper end, or highest value."),
    "bound": Column("Value that the interval is compared with, or limit of a check."),
    **_verdict(
        "As in comparisons.csv. For the recommendation: within (every limit) or not_resolved. For "
        "a rate: within (it is as good), beyond, provisional (open) or not_testable (a run failed)."
    ),
    **_TO_RESOLVE,
    "grade": TextColumn(
        "Evidence for the recommendation: solid (six paired seeds or more, every limit next to the "
        "range decided, every check passed), provisional, or open (one or two seeds)."
    ),
    "passed": IntegerColumn(
        "1 for a check that passed, 0 for one that failed, empty if it is missing."
    ),
    "key": TextColumn(
        "For a suggestion, the factor or key to change. For an expectation, the point of the "
        "trainings: convergence (the lowest validation loss) or end."
    ),
    "value": TextColumn("Its new value, at this batch size or at all batch sizes."),
    "minutes_to_resolve": Column(
        "Minutes of one core for the change, estimated from these trainings, measures and timings; "
        "empty if unknown.",
        "min",
    ),
}

CLAIMS: dict[str, Column] = {
    "id": TextColumn("Name of the claim in the study."),
    "document": TextColumn("The document."),
    "place": TextColumn("Place in the document."),
    "sentence": TextColumn("The statement in our words."),
    "type": TextColumn(
        "trend, equivalence, value, comparison, interaction, argmax, order or exception."
    ),
    "experiment": TextColumn("The experiment that tests it."),
    "table": TextColumn("The table of the experiment."),
    "column": TextColumn("The column of the statement."),
    "scale": TextColumn(
        "Kind of the estimate: difference (of values, or a value itself) or ratio."
    ),
    "over": TextColumn("The factor of a slope, a best value or an exception."),
    "per": TextColumn(
        "Unit of a slope: per doubling or per unit of that factor; empty without a slope."
    ),
    "unit": TextColumn("Unit of the column."),
    "low_bound": Column("Stated lower bound of the estimate; empty without one."),
    "high_bound": Column("Stated upper bound; empty without one."),
    "cells": TextColumn("Cells of the test as JSON: factor or key -> value or values."),
    "sides": TextColumn("Compared cells in order, or cells of the best values or exceptions."),
    "part": TextColumn("Cells of the deciding contrast, if there are several, as JSON."),
    "parts": IntegerColumn("Number of contrasts."),
    "estimate": Column(
        "Mean over the replicates of the deciding slope, difference or value; for a ratio, the "
        "geometric mean."
    ),
    "low": Column("Lower end of its t-interval at the level."),
    "high": Column("Upper end."),
    "level": Column(
        "One-sided level of each end: alpha* of the document's claims, divided among several parts "
        "or bounds, times the share of the interim analysis; alpha* is 0.05 with fewer than six "
        "replicates."
    ),
    "n": IntegerColumn(
        "Paired seeds, or timing jobs, of the estimate; the smaller number if another contrast has "
        "fewer."
    ),
    "replicates": IntegerColumn(
        "Total number of seeds or timing jobs, at the interim analysis of the estimate."
    ),
    "p": Column("One-sided p-value of the statement: the largest of its contrasts."),
    "p_against": Column(
        "One-sided p-value of the opposite: the smallest of its contrasts times their number."
    ),
    "verdict": TextColumn(
        "supported (the interval is inside the bounds), contradicted (outside), not_resolved, "
        "provisional (2 to 5 replicates), one_seed or not_testable."
    ),
    "reason": TextColumn(
        "Reason, if the interval alone does not explain the verdict; may be empty."
    ),
    "reason_of": TextColumn("Missing cell, budget or factors as JSON; may be empty."),
    "seeds_to_resolve": IntegerColumn(
        "Total number of seeds or timing jobs for a decision with power .8, if the true values "
        "equal the estimates; empty if it is decided or no number suffices."
    ),
    "figure": TextColumn("The figure of the experiment that shows it; may be empty."),
}

INTERIMS: dict[str, Column] = {
    "experiment": TextColumn("The experiment with seeds in stages."),
    "planned": IntegerColumn(
        "Number of seeds at the last interim analysis, as the study planned it."
    ),
    "first": IntegerColumn("The first seed, as planned at this analysis."),
    "statement": TextColumn(
        "The analysed statement: the id of a claim, or the keys of a comparison with the best, as "
        "JSON."
    ),
    **{name: CLAIMS[name] for name in ("estimate", "low", "high")},
    "n": IntegerColumn("Paired seeds of the analysis."),
    "verdict": TextColumn("Verdict as in claims.csv or comparisons.csv."),
    "reason": TextColumn("Reason as in claims.csv or comparisons.csv."),
    "seeds_to_resolve": CLAIMS["seeds_to_resolve"],
    "seeds": IntegerColumn(
        "Number of seeds of its runs in the next stage; empty if it needs no more."
    ),
    "runs": TextColumn("These runs as JSON: names of the runs with the first seed."),
    "edge": Column("The first or last learning rate of a grid, at which batch sizes are best."),
    "rate": Column("The learning rate beyond it in the next stage."),
    "batch_sizes": TextColumn("These batch sizes as JSON."),
}

RACE: dict[str, Column] = {
    "batch_size": IntegerColumn("The batch size."),
    "learning_rate": Column("The learning rate, before scaling."),
    "run": TextColumn("Its run with the first seed."),
    "status": TextColumn("in_race, or left: the rate gets no more seeds."),
    "seeds": IntegerColumn("Number of seeds of its runs."),
    "left_after": IntegerColumn("Number of seeds at the interim analysis that it left at."),
    "against": Column("A better learning rate of the batch size."),
    **{name: _BUDGET[name] for name in ("budget", "outcome")},
    "estimate": Column(
        "Mean ratio of the outcome at the two rates, paired by seed; a mean difference if a value "
        "is not positive. Empty if a run failed or missed the target."
    ),
    "low": Column("Lower end of its t-interval, at the level of the analysis for this pair."),
    "high": Column("Upper end."),
    "level": Column("One-sided level of each end."),
    "p": Column("One-sided p-value of the statement that the rate is worse."),
}
