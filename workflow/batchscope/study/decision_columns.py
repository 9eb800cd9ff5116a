"""The columns of what follows from the runs, by table: verdicts, targets, advice and claims."""

from batchscope.study.specifications import (
    Column,
    IntegerColumn,
    PositiveColumn,
    TextColumn,
    interval,
)

_TARGET = {
    "target": TextColumn("Loss or metric to reach, as the command line takes it."),
    "target_column": TextColumn("Column of trajectories.csv that it is of."),
    "target_value": Column("The number to reach."),
}

_HELD_EQUAL = {
    "budget": TextColumn(
        "What is held equal: epochs, updates, seconds, target (a loss or a metric to reach), "
        "convergence (each training at its lowest validation loss), end (each training's own), or "
        "examples (of external runs with a single row each)."
    ),
    "budget_value": Column(
        "How much of it; of a target the loss or metric; empty of convergence, of the end, and "
        "where the rows of somebody's own file are the target."
    ),
    "budget_column": TextColumn("What the target is of; else empty."),
    "outcome": TextColumn(
        "The outcome: on test data, or on validation data where the runs have no test data at the "
        "budget; of a target updates, examples and seconds to it; at the end a column of runs.csv."
    ),
}


def _verdict(states: str) -> dict[str, Column]:
    """Returns the columns of a verdict, given what it may be."""
    return {
        "n": IntegerColumn(
            "Paired seeds: those with a value at every batch size that is compared."
        ),
        "verdict": TextColumn(states),
        "reason": TextColumn("Why, where the interval alone does not say; empty for nothing."),
    }


_TO_RESOLVE = {
    "seeds_to_resolve": IntegerColumn(
        "Seeds in all that would settle it with power .8, were all as found; empty where it is "
        "settled or none would."
    ),
}


COMPARISONS: dict[str, Column] = {
    **_HELD_EQUAL,
    "margin": Column(
        "Largest loss of the outcome that counts as negligible: as the configuration states it, "
        "else 0.01 of an accuracy, micro-F1 or R², 0.05 nats of a loss or 0.01 of a regression's, "
        "0.1 (a tenth) of what is taken to a target."
    ),
    "batch_size": IntegerColumn("Examples per update."),
    "learning_rate": Column(
        "The rate of the runs; of several the one with the lowest mean validation loss at the "
        "budget. To the target, at convergence and at the end it is one rate (docs/study.md); "
        "empty where no rate has a run of every seed that finished."
    ),
    "on_edge": IntegerColumn(
        "1 where it is the first or the last of several rates, and none between does as well."
    ),
    "still_falling": IntegerColumn(
        "1 at convergence where the validation loss still fell when most trainings of the batch "
        "size ended: the outcome is that of their length, and longer ones may be better."
    ),
    "seeds": IntegerColumn("Seeds of the batch size with a run, whatever became of it."),
    "epochs_run": Column(
        "Most epochs that a finished run of the batch size made; empty where unknown.", "epochs"
    ),
    "reached": IntegerColumn(
        "Seeds that finished and reached the budget, at the rate that they are read at; empty "
        "if the batch size has no value there."
    ),
    "mean": Column(
        "Mean of the outcome over the seeds; geometric of a target; empty where a run failed."
    ),
    **interval("mean", "Lower end of its 95 % t-interval."),
    "against": IntegerColumn("The other batch size with the best mean; empty where there is none."),
    "estimate": Column(
        "Mean over the paired seeds of the outcome here less that at `against`; of a target the "
        "ratio to it."
    ),
    "low": Column(
        "Lower end of the interval against the best of the others, empty where it is open. At the "
        "end that is better, and at the one that is worse, it is as measures.md says."
    ),
    "high": Column("Upper end."),
    "bound": Column(
        "What the interval is read against: the margin as a difference (below 0 where higher is "
        "better), 1 + margin of a ratio."
    ),
    **_verdict(
        "within (the whole interval is better than the bound), beyond (the whole interval is "
        "worse), not_resolved, provisional (2 to 5 paired seeds), one_seed or not_testable."
    ),
    **_TO_RESOLVE,
}

TRENDS: dict[str, Column] = {
    **_HELD_EQUAL,
    "direction": TextColumn(
        "rises or falls with the batch size: at the end as somebody stated it; at a budget what "
        "makes larger batch sizes better."
    ),
    "seeds": IntegerColumn("Seeds with a run."),
    "smallest": IntegerColumn("Smallest batch size with a value."),
    "smallest_mean": Column(
        "Mean there over the paired seeds, over all seeds where none is paired; geometric of a "
        "target."
    ),
    **interval("smallest_mean", "Lower end of its 95 % t-interval."),
    "largest": IntegerColumn("Largest batch size with a value."),
    "largest_mean": Column("Mean there over the same seeds."),
    **interval("largest_mean", "Lower end of its 95 % t-interval."),
    "estimate": Column(
        "Mean over the paired seeds of the slope against the base-2 logarithm of the batch size; "
        "of a target the factor per doubling."
    ),
    "low": Column("Lower end of its t-interval at the level; empty where it is open."),
    "high": Column("Upper end."),
    "level": Column("One-sided level of each end, alpha* of the experiment's trends."),
    **_verdict(
        "supported (the interval lies on the side of the direction), contradicted (on the other), "
        "not_resolved, provisional (2 to 5 paired seeds), one_seed or not_testable."
    ),
}

CRITICAL: dict[str, Column] = {
    **_TARGET,
    "points": IntegerColumn(
        "Batch sizes that were fitted: those that reached the target with every seed. None below "
        "three."
    ),
    "updates_min": Column(
        "Fewest updates to the target, S_min of S = S_min (1 + B_crit / B); empty where B_crit "
        "is open upwards."
    ),
    "examples_min": Column(
        "Fewest examples to the target, S_min * B_crit; empty where B_crit is open downwards."
    ),
    "critical_batch_size": Column(
        "B_crit, at which a training takes twice the fewest updates and twice the fewest "
        "examples (McCandlish et al. 2018, arXiv 1812.06162); empty where the updates fall as 1 "
        "/ B up to the largest batch size, or do not fall at all."
    ),
    **interval(
        "critical_batch_size",
        "Lower end of its 95 % interval; empty where it is open (at most).",
        "Upper end; empty where it is open (at least).",
    ),
    "by_seed": IntegerColumn(
        "1 where the interval is that over one fit per seed, at one end or both; 0 where it is "
        "the profile interval over batch sizes."
    ),
    "residual": Column(
        "Root-mean-square residual of the logarithm of the updates: about relative."
    ),
    "lack_of_fit": Column(
        "p of the departures from the curve. With two seeds or more the pure-error F test: what "
        "size means depart by against the scatter of seeds; with one seed twice the p of a softer "
        "or sharper bend or of a quadratic term. Empty where nothing can tell. Below .05 the "
        "constants are an order of magnitude, and no fastest_batch_size follows."
    ),
    "stray": TextColumn(
        "Where it is below .05 the batch sizes that depart by more than two standard errors, or "
        "else the one that departs most, separated by blanks."
    ),
    "examples_fewest": IntegerColumn(
        "Batch size of the study with the least geometric mean of the examples to the target, of "
        "those that measured_fastest is of."
    ),
    "fixed_seconds": PositiveColumn(
        "Fixed cost a of a step, from the line a + b * B through the seconds per step of the "
        "timing jobs over the examples of these; empty unless both costs are positive, "
        "their ratio is known to a factor of e (95 %), and the line departs by at most 5 %.",
        "s",
    ),
    "seconds_per_image": PositiveColumn("Cost per example b.", "s"),
    "half_batch": Column("Batch size a / b at which half of a step is fixed cost."),
    **interval("half_batch"),
    "fastest_batch_size": Column(
        "Batch size that reaches the target soonest in closed form, sqrt(critical_batch_size * "
        "half_batch); empty where the updates depart from the curve."
    ),
    **interval(
        "fastest_batch_size", "Lower end of its 95 % interval; empty where one of both is open."
    ),
    "fastest_seconds": PositiveColumn("Seconds to the target there, in closed form.", "s"),
    "fastest_from": Column("Smallest batch size within 10 % of that time, in closed form."),
    "fastest_to": Column("Largest one."),
    "measured_fastest": IntegerColumn(
        "Batch size of the study with the least geometric mean of the seconds to the target, of "
        "those that reached it with every seed, by the seeds that all of these have; empty without "
        "seconds or such a seed."
    ),
}

LOCAL_CRITICAL: dict[str, Column] = {
    "batch_size": IntegerColumn("Batch size of the trainings that were left."),
    "share": Column("Share of the examples that they used, at which they were left."),
    "examples_used": Column("Examples that they had used by then: the mean over the seeds."),
    "critical_batch_size": Column(
        "Local critical batch size: the geometric mean over the seeds of "
        "local_critical_batch_size of branch_points.csv."
    ),
    **interval(
        "critical_batch_size",
        "Lower end of the 95 % t-interval of its logarithm, empty where it is open: a seed for "
        "which not even the smallest factor was small enough.",
        "Upper end, which is farther by the step to the next factor, since what lies between two "
        "is never seen; empty where it is open: a seed for which the largest was not too large.",
    ),
    "noise_scale": Column(
        "Gradient noise scale of the same weights: the ratio of means over the seeds."
    ),
    **interval(
        "noise_scale", "Lower end of Fieller's 95 % interval.", "Upper end; empty where it is open."
    ),
    "factor": IntegerColumn("Factor k on the batch size of the branches of this row, above 1."),
    "against": IntegerColumn("The smaller factor that decides."),
    "estimate": Column("Mean over the paired seeds of the loss less that at `against`."),
    "low": Column("Lower end of its interval at the level."),
    "high": Column("Upper end."),
    "bound": Column("The tolerance: what the interval is read against."),
    **_verdict(
        "within (no smaller factor is better by more than the tolerance), beyond (one is), "
        "not_resolved, provisional (2 to 5 paired seeds), one_seed or not_testable."
    ),
}

RAMPS: dict[str, Column] = {
    "batch_size": IntegerColumn("First batch size of trainings whose batch size rises."),
    "learning_rate": Column("Their rate, of several the one with the lowest mean validation loss."),
    "outcome": TextColumn(
        "The outcome after as many examples as constant batch sizes use, at each training's end: "
        "the stated margins', else test_loss or best_validation_loss; or what it costs: updates, "
        "seconds."
    ),
    "against": IntegerColumn(
        "The constant batch size that decides; of a cost that with the best mean of the outcome."
    ),
    "estimate": Column(
        "Mean over the paired seeds of the outcome less that at `against`; of a cost the ratio."
    ),
    "low": Column("Lower end of its interval at the level."),
    "high": Column("Upper end."),
    "bound": Column(
        "What the interval is read against: the margin as a difference (below 0 where higher is "
        "better), 1 of a cost."
    ),
    **_verdict(
        "within (no constant size is better by more than the margin), beyond (one is); of a cost "
        "supported (it is lower), contradicted (higher); not_resolved, provisional (2 to 5 paired "
        "seeds), one_seed or not_testable."
    ),
}

TO_TARGET: dict[str, Column] = {
    **_TARGET,
    "batch_size": IntegerColumn("Examples per update."),
    "seed": IntegerColumn("Seed."),
    "learning_rate": Column(
        "Learning rate of the training. Where several were tried, the one that the other seeds "
        "choose by their updates to the target."
    ),
    "chosen_learning_rate": Column(
        "The rate with the fewest updates over all seeds; empty where none was to choose, or "
        "none got every seed there."
    ),
    "on_edge": IntegerColumn(
        "1 where that is the lowest or the highest rate tried at the batch size; empty where "
        "none was to choose."
    ),
    "reached": IntegerColumn("1 where the training reached the target, else 0."),
    "updates": Column("Updates that it took; empty where it never got there."),
    "examples": Column("Examples that it took, each as often as it was used."),
    "seconds": Column(
        "Seconds that it took: examples / examples_per_second of the timing job, evaluations "
        "excluded; empty where nothing was timed. Where several rates were tried, at the one that "
        "the other seeds choose by their seconds, which now and then is not that of the updates.",
        "s",
    ),
    "seconds_learning_rate": Column(
        "The rate that the seconds are of; empty where none was to choose."
    ),
    "seconds_on_edge": IntegerColumn(
        "1 where the rate with the fewest seconds over all seeds is the lowest or the highest "
        "rate tried; empty as on_edge is."
    ),
}

ADVICE: dict[str, Column] = {
    "item": TextColumn(
        "recommendation (one row of every series), size (a batch size with the limit that decides "
        "about it), limit (a batch size before one limit, or a limit by itself), rate (a learning "
        "rate that was tried at the recommended size), expectation (results at the learning rate "
        "of a batch size), check, or suggestion (what to change in the study)."
    ),
    "headline": TextColumn(
        "For the recommendation, the first that holds: no_outcome, nothing_learned (no batch size "
        "beats the baseline by its interval), rate_not_found (the best learning rate lies on the "
        "edge of its grid at a size that may be the best), not_distinguished (several sizes are "
        "not excluded), or recommended (one size is left)."
    ),
    "name": TextColumn(
        "For the recommendation, the limit that ranks the sizes; for a size, a limit or a rate, "
        "memory, seconds, knee, critical_batch_size or the outcome; for an expectation, epochs or "
        "updates, outcomes, seconds, seconds_per_epoch, memory_peak_mb or patience; for a check or "
        "a suggestion, the check."
    ),
    "batch_size": IntegerColumn(
        "The recommended one, or the one that the row is of; may be empty."
    ),
    "smallest": IntegerColumn("Smallest of the sizes that the headline is about."),
    "largest": IntegerColumn("Largest one; for memory, the largest batch that fits."),
    "sizes": TextColumn("These sizes, separated by blanks."),
    "learning_rate": Column(
        "The best one of the batch size: by the seconds to the target, or else by the outcome; for "
        "a rate, that one."
    ),
    "estimate": Column(
        "The estimate of comparisons.csv, or what is checked; for a rate, the mean difference from "
        "the recommended one, for seconds the ratio of the updates to the target; for an "
        "expectation, the mean."
    ),
    "low": Column(
        "Lower end of its interval, empty where it is open; for epochs, updates and patience, and "
        "below three seeds, the lowest value."
    ),
    "high": Column("Upper end, or highest value."),
    "bound": Column("What the interval is read against, or what is checked."),
    **_verdict(
        "As in comparisons.csv; for the recommendation, within (every limit) or not_resolved; for "
        "a rate, within (it does as well), beyond, provisional (open) or not_testable (a run "
        "failed)."
    ),
    **_TO_RESOLVE,
    "grade": TextColumn(
        "How sure the recommendation is: solid (six paired seeds or more, every limit resolved "
        "beside the range, every check passed), provisional, or open (one or two seeds)."
    ),
    "passed": IntegerColumn(
        "1 for a check that passed, 0 for one that failed, empty if it is missing."
    ),
    "key": TextColumn(
        "For a suggestion, the factor or key to change; for an expectation, where trainings are "
        "read: convergence (at the lowest validation loss) or end."
    ),
    "value": TextColumn("Its new value, at this batch size or at all."),
    "minutes_to_resolve": Column(
        "Minutes of one core that it takes, as trainings, measures and timings of these runs "
        "took; empty where that is unknown.",
        "min",
    ),
}

CLAIMS: dict[str, Column] = {
    "id": TextColumn("Its name in the configuration."),
    "document": TextColumn("The document."),
    "place": TextColumn("Where it stands there."),
    "sentence": TextColumn("What it says, in our words."),
    "type": TextColumn(
        "trend, equivalence, value, comparison, interaction, argmax, order or exception."
    ),
    "experiment": TextColumn("The experiment that tests it."),
    "table": TextColumn("The table of the experiment that is read."),
    "column": TextColumn("The column that is stated about."),
    "scale": TextColumn(
        "What the estimate is: difference (of values, or a value itself) or ratio."
    ),
    "over": TextColumn("The factor along which a slope, a best value or an exception is sought."),
    "per": TextColumn(
        "What a slope is per: doubling or unit of that factor; empty of what is none."
    ),
    "unit": TextColumn("Unit of the column."),
    "low_bound": Column("Bound that the estimate is stated to lie above; empty for none."),
    "high_bound": Column("Bound that it is stated to lie below; empty for none."),
    "cells": TextColumn(
        "The cells that it is tested in, as JSON: factor or key -> value or values."
    ),
    "sides": TextColumn("The cells that are compared, in order, or said to be best or exceptions."),
    "part": TextColumn("Cells of the contrast that decides where there are several, as JSON."),
    "parts": IntegerColumn("How many contrasts it is of."),
    "estimate": Column(
        "Mean over the replicates of what decides: a slope, a difference, a value; for a ratio, "
        "the geometric mean."
    ),
    "low": Column("Lower end of its t-interval at the level."),
    "high": Column("Upper end."),
    "level": Column(
        "One-sided level of each end: alpha* of the document's claims, or what of it several parts "
        "or bounds leave; of 0.05 below six replicates."
    ),
    "n": IntegerColumn(
        "Paired seeds, or timing jobs, with a value in every cell; the fewest of all contrasts."
    ),
    "replicates": IntegerColumn("Seeds or timing jobs in all."),
    "p": Column("One-sided p of what is stated: the largest of its contrasts."),
    "p_against": Column("p of its contrary: the smallest of its contrasts times their number."),
    "verdict": TextColumn(
        "supported (the interval lies inside the bounds), contradicted (outside), not_resolved, "
        "provisional (2 to 5 replicates), one_seed or not_testable."
    ),
    "reason": TextColumn("Why, where the interval alone does not say; empty for nothing."),
    "reason_of": TextColumn("What is missing, as JSON: the cell, budget or factors; may be empty."),
    "seeds_to_resolve": IntegerColumn(
        "Seeds or timing jobs in all that would settle it with power .8, were all as found; empty "
        "where it is settled or none would."
    ),
    "figure": TextColumn("The figure of the experiment that shows it; may be empty."),
}

LOOKS: dict[str, Column] = {
    "experiment": TextColumn("The experiment whose seeds come in stages."),
    "planned": IntegerColumn("Seeds at the last look, as the study planned them at this one."),
    "first": IntegerColumn("The first seed, as planned then."),
    "statement": TextColumn(
        "What was looked at: the id of a claim, or what a comparison with the best is of, as JSON."
    ),
    **{name: CLAIMS[name] for name in ("estimate", "low", "high")},
    "n": IntegerColumn("Paired seeds that it was looked at with."),
    "verdict": TextColumn("As claims.csv or comparisons.csv had it."),
    "reason": TextColumn("As there."),
    "seeds_to_resolve": CLAIMS["seeds_to_resolve"],
    "seeds": IntegerColumn("Seeds that its runs get next; empty where it asks for none."),
    "runs": TextColumn("These runs, as JSON: the names of those with the first seed."),
}
