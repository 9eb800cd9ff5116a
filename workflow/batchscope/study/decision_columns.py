"""Name -> column of each table of verdicts, fits, advice and claims, in the order of writing.

The module of the same name in `analysis` makes the rows of a table, `to_target_tables` those of
`CRITICAL` and `TO_TARGET`, `racing` those of `RACE`; `tables.study_tables` writes `INTERIMS`. A new
column is an item here and a key of the rows. Planning needs the columns without pandas.
"""

from batchscope.study.specifications import (
    Column,
    IntegerColumn,
    PositiveColumn,
    TextColumn,
    interval_columns,
)

# Groups of columns that several tables share.
_TARGET_COLUMNS = {
    "target": TextColumn("Loss or metric to reach, as on the command line."),
    "target_column": TextColumn("Its column of trajectories.csv."),
    "target_value": Column("Its value."),
}
_BUDGET_COLUMNS = {
    "budget": TextColumn("epochs, updates, seconds, target, convergence, end or examples."),
    "budget_value": Column("Its value; empty for convergence and end."),
    "budget_column": TextColumn("Column of the target; empty for other budgets."),
    "outcome": TextColumn("Outcome on test, else validation data; for a target, its cost."),
}
_ESTIMATE_COLUMNS = {
    "estimate": Column("Mean paired difference from `against`; for a cost, the ratio."),
    "low": Column("Lower end of its interval; empty if open."),
    "high": Column("Upper end."),
    "bound": Column("Margin to compare the interval with; for a ratio, a factor."),
}
_VERDICT_COLUMNS = {
    "n": IntegerColumn("Paired seeds of the estimate; if provisional, the fewest of any pair."),
    "verdict": TextColumn("Verdict, read off the interval."),
    "reason": TextColumn("Reason, if the interval does not explain it."),
}
_RESOLUTION_COLUMNS = {
    "seeds_to_resolve": IntegerColumn("Seeds for a decision with power .8; empty if none suffice."),
}

COMPARISONS: dict[str, Column] = {
    **_BUDGET_COLUMNS,
    "margin": Column("Largest negligible deterioration of the outcome (docs/study.md)."),
    "batch_size": IntegerColumn("Examples per update."),
    "learning_rate": Column("Best learning rate (docs/study.md)."),
    "on_edge": IntegerColumn("1 if the best of several rates is the smallest or largest."),
    "still_falling": IntegerColumn("1 if most trainings ended while the validation loss fell."),
    "seeds": IntegerColumn("Seeds of the batch size with a run, regardless of status."),
    "epochs_run": Column("Most epochs of a finished run.", "epochs"),
    "reached": IntegerColumn("Seeds that reached the budget at the learning rate."),
    "mean": Column("Mean of the outcome over the seeds; geometric for a cost."),
    **interval_columns("mean"),
    "against": IntegerColumn("The other batch size with the best mean."),
    **_ESTIMATE_COLUMNS,
    **_VERDICT_COLUMNS,
    **_RESOLUTION_COLUMNS,
}
TRENDS: dict[str, Column] = {
    **_BUDGET_COLUMNS,
    "direction": TextColumn("Tested statement: rises or falls with the batch size."),
    "seeds": IntegerColumn("Seeds with a run."),
    "smallest": IntegerColumn("Smallest batch size with a value."),
    "smallest_mean": Column("Mean over the paired seeds; geometric for a cost."),
    **interval_columns("smallest_mean"),
    "largest": IntegerColumn("Largest batch size with a value."),
    "largest_mean": Column("Mean over the same seeds."),
    **interval_columns("largest_mean"),
    "estimate": Column("Mean slope per doubling of the batch size; for a cost, the factor."),
    "low": Column("Lower end of its t-interval at alpha* of the trends; empty if open."),
    "high": Column("Upper end."),
    **_VERDICT_COLUMNS,
}
CRITICAL: dict[str, Column] = {
    **_TARGET_COLUMNS,
    "points": IntegerColumn("Batch sizes that reached the target with every seed; a fit needs 3."),
    "updates_min": Column("Fewest updates to the target, S_min in S = S_min (1 + B_crit / B)."),
    "examples_min": Column("Fewest examples to the target, S_min * B_crit."),
    "critical_batch_size": Column("B_crit (McCandlish et al. 2018); empty if open."),
    **interval_columns("critical_batch_size", "Lower end of its 95 % interval; empty if open."),
    "by_seed": IntegerColumn("1 if an end of the interval is from one fit per seed."),
    "residual": Column("Root-mean-square residual of the updates' logarithm."),
    "lack_of_fit": Column("p-value of deviations from the curve; below .05 it fits poorly."),
    "stray": TextColumn("Batch sizes that deviate significantly, separated by blanks."),
    "examples_fewest": IntegerColumn("Batch size with the fewest examples to the target."),
    "fixed_seconds": PositiveColumn("Fixed cost a of a step, a + b * B; empty if uncertain.", "s"),
    "seconds_per_image": PositiveColumn("Cost per example b.", "s"),
    "half_batch": Column("Batch size a / b: half of its step is fixed cost."),
    **interval_columns("half_batch"),
    "fastest_batch_size": Column("Fastest size: sqrt(critical_batch_size * half_batch)."),
    **interval_columns("fastest_batch_size"),
    "fastest_seconds": PositiveColumn("Seconds to the target at that batch size.", "s"),
    "fastest_from": Column("Smallest batch size within 10 % of that time."),
    "fastest_to": Column("Largest batch size within 10 % of that time."),
    "measured_fastest": IntegerColumn("Batch size with the fewest measured seconds."),
}
LOCAL_CRITICAL: dict[str, Column] = {
    "batch_size": IntegerColumn("Batch size of the trainings."),
    "share": Column("Branch point, as a share of the training's examples."),
    "examples_used": Column("Mean number of examples before this point."),
    "critical_batch_size": Column("Local critical batch size: geometric mean over the seeds."),
    **interval_columns("critical_batch_size", "Lower end of its 95 % t-interval; empty if open."),
    "noise_scale": Column("Gradient noise scale at this point: ratio of means."),
    **interval_columns("noise_scale", "Lower end of Fieller's 95 % interval."),
    "factor": IntegerColumn("Factor k on the batch size, above 1."),
    "against": IntegerColumn("The smaller factor to compare with."),
    **_ESTIMATE_COLUMNS,
    **_VERDICT_COLUMNS,
}
RAMPS: dict[str, Column] = {
    "batch_size": IntegerColumn("First batch size of the trainings with a rising batch size."),
    "learning_rate": Column("Their learning rate with the lowest validation loss."),
    "outcome": TextColumn("Outcome or cost at the end, after the same number of examples."),
    "against": IntegerColumn("The constant batch size to compare with."),
    **_ESTIMATE_COLUMNS,
    **_VERDICT_COLUMNS,
}
TO_TARGET: dict[str, Column] = {
    **_TARGET_COLUMNS,
    "batch_size": IntegerColumn("Examples per update."),
    "seed": IntegerColumn("Seed."),
    "learning_rate": Column("Rate with the fewest updates for the other seeds."),
    "chosen_learning_rate": Column("Rate with the fewest updates over all seeds."),
    "on_edge": IntegerColumn("1 if it is the smallest or largest of several rates."),
    "reached": IntegerColumn("1 if the training reached the target, else 0."),
    "updates": Column("Updates to the target; empty if not reached."),
    "examples": Column("Examples to the target, with repetitions."),
    "seconds": Column("Time to the target, at the fastest rate for the other seeds.", "s"),
    "seconds_learning_rate": Column("That rate; empty with a single rate."),
    "seconds_on_edge": IntegerColumn("1 if it is the smallest or largest of several rates."),
}
ADVICE: dict[str, Column] = {
    "item": TextColumn("recommendation, size, limit, rate, expectation, check or suggestion."),
    "headline": TextColumn("State of the recommendation, as in `explain`."),
    "name": TextColumn("Name of the limit, outcome, expectation or check."),
    "batch_size": IntegerColumn("Recommended batch size, or that of the row."),
    "sizes": TextColumn("Batch sizes of the headline or of a check, separated by blanks."),
    "learning_rate": Column("Best learning rate of the batch size; for a rate, that rate."),
    "effective_learning_rate": Column("This rate after scaling."),
    **_ESTIMATE_COLUMNS,
    **_VERDICT_COLUMNS,
    **_RESOLUTION_COLUMNS,
    "grade": TextColumn("Evidence for the recommendation: solid, provisional or open."),
    "passed": IntegerColumn("1 if a check passed, 0 if it failed, empty if it is missing."),
    "key": TextColumn("Factor or key to change; for an expectation, convergence or end."),
    "value": TextColumn("Its new value, at this or at every batch size."),
    "minutes_to_resolve": Column("Estimated time of one core for the change.", "min"),
}
CLAIMS: dict[str, Column] = {
    "id": TextColumn("Name of the claim."),
    "document": TextColumn("Document with the statement."),
    "place": TextColumn("Place in the document."),
    "sentence": TextColumn("The statement, in the words of the study."),
    "type": TextColumn("Type of the claim (docs/claims.md)."),
    "experiment": TextColumn("Experiment that tests it."),
    "table": TextColumn("Table of the experiment."),
    "column": TextColumn("Column of the statement."),
    "scale": TextColumn("Scale of the estimate: difference or ratio."),
    "over": TextColumn("Factor of a slope, a best value or an exception."),
    "per": TextColumn("Unit of a slope: per doubling or per unit of that factor."),
    "unit": TextColumn("Unit of the column."),
    "low_bound": Column("Stated lower bound of the estimate; empty without one."),
    "high_bound": Column("Stated upper bound; empty without one."),
    "cells": TextColumn("Cells of the test as JSON: factor or key -> value or values."),
    "sides": TextColumn("Compared cells in order, or cells of the best values or exceptions."),
    "part": TextColumn("Cells of the deciding one of several contrasts, as JSON."),
    "parts": IntegerColumn("Number of contrasts."),
    "estimate": Column("Mean of the deciding contrast; for a ratio, the geometric mean."),
    "low": Column("Lower end of its t-interval at the level."),
    "high": Column("Upper end."),
    "level": Column("One-sided level of each end."),
    "n": IntegerColumn("Paired seeds or timing jobs of the estimate."),
    "replicates": IntegerColumn("All seeds or timing jobs."),
    "p": Column("One-sided p-value of the statement: the largest of its contrasts."),
    "p_against": Column("One-sided p-value of the opposite, times the number of contrasts."),
    **{name: _VERDICT_COLUMNS[name] for name in ("verdict", "reason")},
    "reason_of": TextColumn("Missing cell, budget or factors as JSON; may be empty."),
    **_RESOLUTION_COLUMNS,
    "figure": TextColumn("Figure that shows it; may be empty."),
}
INTERIMS: dict[str, Column] = {
    "experiment": TextColumn("Experiment with seeds in stages."),
    "planned": IntegerColumn("Seeds that the study planned at the last analysis."),
    "first": IntegerColumn("First seed, as planned at this analysis."),
    "statement": TextColumn("Id of a claim, or the keys of a comparison as JSON."),
    **{name: CLAIMS[name] for name in ("estimate", "low", "high")},
    **_VERDICT_COLUMNS,
    **_RESOLUTION_COLUMNS,
    "seeds": IntegerColumn("Seeds of its runs in the next stage; empty if it needs no more."),
    "runs": TextColumn("Names of these runs with the first seed, as JSON."),
    "edge": Column("First or last learning rate of a grid, if it is the best one of batch sizes."),
    "rate": Column("Learning rate beyond it in the next stage."),
    "batch_sizes": TextColumn("These batch sizes as JSON."),
}
RACE: dict[str, Column] = {
    "batch_size": IntegerColumn("Examples per update."),
    "learning_rate": Column("Learning rate before scaling."),
    "run": TextColumn("Its run with the first seed."),
    "status": TextColumn("in_race, or left: the rate gets no more seeds."),
    "seeds": IntegerColumn("Number of seeds of its runs."),
    "left_after": IntegerColumn("Number of seeds at the interim analysis that removed it."),
    "against": Column("A better learning rate of the batch size."),
    **{name: _BUDGET_COLUMNS[name] for name in ("budget", "outcome")},
    "estimate": Column(
        "Mean ratio of the outcome at the two rates, paired by seed; a difference if a value is "
        "not positive. Empty if a run failed or missed the target."
    ),
    "low": Column("Lower end of its t-interval, at the level of the analysis for this pair."),
    "high": Column("Upper end."),
    "level": Column("One-sided level of each end."),
    "p": Column("One-sided p-value of the statement that the rate is worse."),
}
