"""The columns of what follows from the runs, by table: verdicts, targets, advice and claims."""

from __future__ import annotations

from batchscope.catalogue.entries import Column

MARGINS: dict[str, Column] = {
    "outcome": Column("The outcome: a column of runs.csv.", kind="str"),
    "margin": Column(
        "Largest loss of it that counts as negligible, as the configuration states it.",
    ),
    "batch_size": Column("Examples per update.", kind="int"),
    "seeds": Column("Seeds with a finished run at every batch size that is compared.", kind="int"),
    "mean": Column("Mean of the outcome over the finished runs."),
    "deciding_batch_size": Column(
        "The other batch size that decides the verdict: that with the largest p of being better "
        "by less than the margin. Those with a failed run are not compared.",
        kind="int",
    ),
    "difference": Column(
        "Mean over the seeds of the outcome here less that at the deciding batch size.",
    ),
    "difference_low": Column(
        "Lower end of its 90 % t-interval, each end of which is a one-sided 95 % bound.",
    ),
    "difference_high": Column("Upper end."),
    "p_within": Column(
        "Largest p over the other batch sizes of the one-sided test that the other is better by "
        "less than the margin.",
    ),
    "p_beyond": Column(
        "Smallest p over the other batch sizes of the one-sided test that the other is better by "
        "more than the margin, times their number; adjusted by Holm's method over the batch "
        "sizes of the series.",
    ),
    "verdict": Column(
        "within (p_within below 0.05), beyond (p_beyond below 0.05), not_resolved, few_seeds "
        "(fewer than 6 pairs) or failed (a run that did not finish).",
        kind="str",
    ),
    "smallest_batch_size": Column(
        "Smallest batch size within the margin: the same in all rows of a series; empty without "
        "any.",
        kind="int",
    ),
    "largest_batch_size": Column(
        "Largest batch size up to which, from the smallest within the margin on, every one is "
        "within it; one that is not resolved, or failed, ends it.",
        kind="int",
    ),
}

BUDGETS: dict[str, Column] = {
    "budget": Column(
        "What is held equal: epochs, updates, seconds, target (a loss or an accuracy to reach), "
        "or convergence (each training at its lowest validation loss).",
        kind="str",
    ),
    "budget_value": Column(
        "How much of it; of a target the loss or accuracy; empty of convergence, and where the "
        "rows of somebody's own file are the target.",
    ),
    "budget_column": Column("What the target is of; else empty.", kind="str"),
    "stated": Column(
        "1 where the configuration states the budget; 0 where it is the largest that every "
        "finished run of the experiment reached, or of a target the lowest validation loss that "
        "every batch size of the series reached with all its seeds.",
        kind="int",
    ),
    "outcome": Column(
        "test_accuracy and test_loss, or those on validation data where the runs have no test "
        "data at the budget; of a target updates, examples and seconds to it.",
        kind="str",
    ),
    "margin": Column(
        "Largest loss of the outcome that counts as negligible: as the configuration states it, "
        "else 0.01 of an accuracy, 0.05 nats of a loss; of a target always 0.1, a tenth.",
    ),
    "batch_size": Column("Examples per update.", kind="int"),
    "learning_rate": Column(
        "The rate of the runs; of several the one with the lowest mean validation loss at the "
        "budget, or the least mean of what is taken to the target (updates, examples, seconds: "
        "each by itself); empty where every one failed.",
    ),
    "on_edge": Column(
        "1 where it is the first or the last of several rates, beyond which a better one may lie.",
        kind="int",
    ),
    "still_falling": Column(
        "1 at convergence where the validation loss still fell when most trainings of the batch "
        "size ended: the outcome is that of their length, and longer ones may be better.",
        kind="int",
    ),
    "seeds": Column("Seeds of the batch size with a run, whatever became of it.", kind="int"),
    "reached": Column(
        "Those that finished and reached the budget, at the rate that they are read at.",
        kind="int",
    ),
    "reached_low": Column("Lower end of the 95 % interval of their share (Clopper and Pearson)."),
    "reached_high": Column("Upper end."),
    "mean": Column(
        "Mean of the outcome over the seeds; geometric of a target; empty where a run failed.",
    ),
    "median": Column("Median of what was taken to a target; infinite where most never reached it."),
    "restricted_mean": Column(
        "Arithmetic mean of it, each cut at the most that any training used.",
    ),
    "deciding_batch_size": Column(
        "The other batch size that decides the verdict: that with the largest p of being better "
        "by less than the margin. Those with a failed run are not compared.",
        kind="int",
    ),
    "difference": Column(
        "Mean over the seeds of the outcome here less that at the batch size with the best mean "
        "of the row; of a target relative to it. 0 at the best itself.",
    ),
    "difference_low": Column(
        "Lower end of its 90 % t-interval, which is wider where seeds are read at different "
        "learning rates; empty at the best itself.",
    ),
    "difference_high": Column("Upper end."),
    "p_within": Column(
        "Largest p over the other batch sizes of the one-sided paired t-test that the other is "
        "better by less than the margin.",
    ),
    "p_beyond": Column(
        "Smallest p over the other batch sizes of the one-sided paired t-test that the other is "
        "better by more than the margin, times their number; adjusted by Holm's method over the "
        "batch sizes of the row, and no less than the least p of the row.",
    ),
    "verdict": Column(
        "within (p_within below 0.05), beyond (p_beyond below 0.05), not_resolved, few_seeds "
        "(fewer than 6 pairs) or failed (a run that did not finish, or never got there).",
        kind="str",
    ),
    "trend": Column(
        "Of the row: larger where larger batch sizes are better (p_larger below 0.05), smaller, "
        "or none.",
        kind="str",
    ),
    "no_trend": Column(
        "Why there is none: not_resolved; mixed (p_any below 0.05: they differ, but not in one "
        "direction; or the slope per doubling is against the order, which Page's test sees); "
        "few_seeds; or edge, where the rate of the batch size at the losing end lies on the edge "
        "of those tried. Empty where there is one.",
        kind="str",
    ),
    "p_larger": Column(
        "p of Page's trend test that larger is better, with seeds as blocks; where rates are "
        "chosen, by shuffling batch sizes within each seed and choosing them again; adjusted by "
        "Holm's method with all p of rows of the table.",
    ),
    "p_smaller": Column("The same, that smaller is better."),
    "p_any": Column(
        "p of Friedman's test that batch sizes differ at all, seeds as blocks; adjusted so.",
    ),
}

CRITICAL: dict[str, Column] = {
    "target": Column("Loss or accuracy to reach, as the command line takes it.", kind="str"),
    "target_column": Column("Column of trajectories.csv that it is of.", kind="str"),
    "target_value": Column("The number to reach."),
    "points": Column(
        "Batch sizes that were fitted: those that reached the target with every seed. None below "
        "three.",
        kind="int",
    ),
    "updates_min": Column(
        "Fewest updates to the target, S_min of S = S_min (1 + B_crit / B); empty where B_crit "
        "is open upwards.",
    ),
    "examples_min": Column(
        "Fewest examples to the target, S_min * B_crit; empty where B_crit is open downwards.",
    ),
    "critical_batch_size": Column(
        "B_crit, at which a training takes twice the fewest updates and twice the fewest "
        "examples (McCandlish et al. 2018, arXiv 1812.06162); empty where the updates fall as 1 "
        "/ B up to the largest batch size, or do not fall at all.",
    ),
    "critical_batch_size_low": Column(
        "Lower end of its 95 % interval; empty where it is open (at most).",
    ),
    "critical_batch_size_high": Column("Upper end; empty where it is open (at least)."),
    "by_seed": Column(
        "1 where the interval is that over one fit per seed, at one end or both; 0 where it is "
        "the profile interval over batch sizes.",
        kind="int",
    ),
    "residual": Column(
        "Root-mean-square residual of the logarithm of the updates: about relative.",
    ),
    "lack_of_fit": Column(
        "What shows that the residuals bend: runs test, curved alternative; empty where nothing "
        "does.",
        kind="str",
    ),
    "fixed_seconds": Column(
        "Fixed cost a of a step, from the line a + b * B through the seconds per step of the "
        "timing jobs over the examples of these; empty unless both costs are positive, "
        "their ratio is known to a factor of e (95 %), and the line departs by at most 5 %.",
        "s",
    ),
    "seconds_per_image": Column("Cost per example b.", "s"),
    "half_batch": Column("Batch size a / b at which half of a step is fixed cost."),
    "half_batch_low": Column("Lower end of its 95 % interval."),
    "half_batch_high": Column("Upper end."),
    "fastest_batch_size": Column(
        "Batch size that reaches the target soonest in closed form, sqrt(critical_batch_size * "
        "half_batch).",
    ),
    "fastest_batch_size_low": Column(
        "Lower end of its 95 % interval; empty where one of both is open.",
    ),
    "fastest_batch_size_high": Column("Upper end."),
    "fastest_seconds": Column("Seconds to the target there, in closed form.", "s"),
    "fastest_from": Column("Smallest batch size within 10 % of that time, in closed form."),
    "fastest_to": Column("Largest one."),
    "measured_fastest": Column(
        "Batch size of the study with the least geometric mean of the seconds to the target; "
        "empty without seconds.",
        kind="int",
    ),
}

TO_TARGET: dict[str, Column] = {
    "target": Column("Loss or accuracy to reach, as the command line takes it.", kind="str"),
    "target_column": Column("Column of trajectories.csv that it is of.", kind="str"),
    "target_value": Column("The number to reach."),
    "batch_size": Column("Examples per update.", kind="int"),
    "seed": Column("Seed.", kind="int"),
    "learning_rate": Column(
        "Learning rate of the training. Of several that were tried, the one that the other seeds "
        "choose by their updates to the target.",
    ),
    "chosen_learning_rate": Column(
        "The rate with the fewest updates over all seeds; empty where none was to choose, or "
        "none got every seed there.",
    ),
    "on_edge": Column(
        "1 where that is the lowest or the highest rate tried at the batch size; empty where "
        "none was to choose.",
        kind="int",
    ),
    "diverged_learning_rates": Column(
        "Rates at which a training of the batch size diverged or ran out of memory, which are "
        "never chosen.",
        kind="str",
    ),
    "never_learning_rates": Column(
        "Rates at which one never reached the target, which are not chosen either.",
        kind="str",
    ),
    "reached": Column("1 where the training reached the target, else 0.", kind="int"),
    "at_first": Column(
        "1 where it was at the target by its first evaluation, so that what it took is an upper "
        "bound; else 0.",
        kind="int",
    ),
    "updates": Column("Updates that it took; empty where it never got there."),
    "examples": Column("Examples that it took, each as often as it was used."),
    "seconds": Column(
        "Seconds that it took: examples / images_per_second of the timing job, evaluations "
        "apart; empty where nothing was timed. Of several rates at the one that the other seeds "
        "choose by their seconds, which now and then is not that of the updates.",
        "s",
    ),
    "seconds_learning_rate": Column(
        "The rate that the seconds are of; empty where none was to choose.",
    ),
    "seconds_chosen_learning_rate": Column(
        "The rate with the fewest seconds over all seeds; empty as that with the fewest updates "
        "is.",
    ),
    "seconds_on_edge": Column(
        "1 where that one is the lowest or the highest rate tried.",
        kind="int",
    ),
}

ADVICE: dict[str, Column] = {
    "seeds": Column("Seeds of the trainings.", kind="int"),
    "seeds_planned": Column(
        "Seeds that the configuration planned; empty where it does not say.",
        kind="int",
    ),
    "target": Column(
        "Loss or accuracy that is to be reached, in words; empty where there is none.",
        kind="str",
    ),
    "outcome": Column(
        "Outcome that is to be kept; empty where none was measured; several, each with a margin, "
        "are separated by blanks.",
        kind="str",
    ),
    "margin": Column("Largest loss of it that counts as negligible; as many.", kind="str"),
    "slower": Column(
        "Share of the fastest batch size's seconds to the target by which one may take longer.",
    ),
    "smallest": Column(
        "Smallest batch size of the recommended range; empty where there is none.",
        kind="int",
    ),
    "largest": Column("Largest one.", kind="int"),
    "reason": Column(
        "Why there is no range: no_target, no_seconds, no_outcome, too_few_seeds, rate_on_edge, "
        "none_holds (every batch size is shown to miss a limit) or none_shown (some are not "
        "resolved); several are separated by blanks.",
        kind="str",
    ),
    "binds_first": Column(
        "Limit that ends the range above: memory, seconds or outcome; empty where it reaches to "
        "the largest batch size tried.",
        kind="str",
    ),
    "binds_next": Column("Limit that ends above next.", kind="str"),
    "max_batch_size": Column(
        "Largest batch that fits into memory; empty where it was not measured.",
        kind="int",
    ),
    "knee": Column("Batch size that reaches 90 % of the throughput's plateau."),
    "critical_batch_size": Column("Critical batch size at the target."),
    "critical_batch_size_low": Column("Lower end of its 95 % interval; empty where it is open."),
    "critical_batch_size_high": Column("Upper end."),
    "fastest_batch_size": Column("Fastest batch size in closed form."),
    "fastest_batch_size_low": Column("Lower end of its 95 % interval."),
    "fastest_batch_size_high": Column("Upper end."),
    "seeds_needed_low": Column(
        "Further seeds that would settle the first open question with power .8, or that a "
        "verdict needs at all. First is what ends the range, and else the cheapest.",
        kind="int",
    ),
    "seeds_needed_high": Column(
        "The same with the upper 80 % bound of the standard deviation.",
        kind="int",
    ),
    "minutes_needed_low": Column(
        "Minutes of one core that these seeds take, as trainings, measures and timings of these "
        "runs took; empty where that is unknown.",
        "min",
    ),
    "minutes_needed_high": Column("Upper end.", "min"),
    "scope": Column("What it holds for, in words.", kind="str"),
    "advice": Column("The advice, in words.", kind="str"),
    "limits": Column("What ends the range, and what the other limits allow, in words.", kind="str"),
    "not_known": Column("What is not resolved, and what it costs to know, in words.", kind="str"),
    "other_budgets": Column(
        "What looks better where other things are held equal, in words.",
        kind="str",
    ),
    "beside_the_plan": Column(
        "What it means that there are other seeds than were planned, in words.",
        kind="str",
    ),
    "overturned_by": Column("What would overturn it, in words.", kind="str"),
}

ADVICE_SIZES: dict[str, Column] = {
    "limit": Column("memory, seconds (to the target) or outcome.", kind="str"),
    "outcome": Column("Which outcome, of that limit; empty where none was measured.", kind="str"),
    "margin": Column("Largest loss of it that counts as negligible."),
    "batch_size": Column("Examples per update.", kind="int"),
    "verdict": Column(
        "within (one-sided paired t-tests at 5 %: every other size is better by less than the "
        "limit's margin), beyond (some other one is better by more), not_resolved, few_seeds, "
        "failed, or not_measured. Of memory: within or beyond what fits.",
        kind="str",
    ),
    "against": Column("The other batch size that decides the verdict.", kind="int"),
    "difference": Column("Mean paired difference to it; of seconds, relative."),
    "difference_low": Column(
        "Lower end of its 90 % t-interval, which is wider where seeds are read at different "
        "learning rates.",
    ),
    "difference_high": Column("Upper end."),
    "question": Column(
        "The open question, in words; empty where it is settled, or is asked of the other size "
        "already.",
        kind="str",
    ),
    "equal": Column(
        "1 where the seeds would show equal sizes to be equal; 0 where a difference as large as "
        "it is measured would be distinguished from the margin.",
        kind="int",
    ),
    "seeds_needed_low": Column(
        "Further seeds that would settle it with power .8, at the level of its test.",
        kind="int",
    ),
    "seeds_needed_high": Column(
        "The same with the upper 80 % bound of the standard deviation.",
        kind="int",
    ),
    "minutes_needed_low": Column("Minutes of one core that these seeds take.", "min"),
    "minutes_needed_high": Column("Upper end.", "min"),
}

CLAIMS: dict[str, Column] = {
    "id": Column("Its name in the configuration.", kind="str"),
    "document": Column("The document.", kind="str"),
    "place": Column("Where it stands there.", kind="str"),
    "sentence": Column("What it says, in our words.", kind="str"),
    "type": Column(
        "trend, equivalence, value, comparison, interaction, argmax, order or exception.",
        kind="str",
    ),
    "experiment": Column("The experiment that tests it.", kind="str"),
    "table": Column("The table of the experiment that is read.", kind="str"),
    "column": Column("The column that is stated about.", kind="str"),
    "stated": Column("What is tested, in words.", kind="str"),
    "cells": Column("The cells that it is tested in, in words; empty for all.", kind="str"),
    "part": Column(
        "The series or cell that decides, where a claim has several parts; all must hold.",
        kind="str",
    ),
    "parts": Column("How many parts it has.", kind="int"),
    "effect": Column(
        "What was found of the deciding part: a slope, a difference, a ratio or a mean.",
    ),
    "effect_low": Column("Lower end of its 90 % t-interval: a one-sided 95 % bound."),
    "effect_high": Column("Upper end."),
    "effect_is": Column("What the effect is.", kind="str"),
    "unit": Column("Its unit; empty for a ratio.", kind="str"),
    "n": Column(
        "Paired seeds, or timing jobs, with a value in every cell; the fewest of all parts.",
        kind="int",
    ),
    "survivors": Column(
        "Of how many these are those that finished, in words; empty for all.", kind="str"
    ),
    "p": Column("One-sided p of what is stated: the largest of its parts."),
    "p_holm": Column(
        "The same, adjusted by Holm's method over what the document states in this study.",
    ),
    "p_against_holm": Column(
        "Likewise of the contrary: the smallest of the parts times their number.",
    ),
    "verdict": Column("held, not held, not resolved or cannot be tested here.", kind="str"),
    "missing": Column("What would decide what is open.", kind="str"),
    "figure": Column("The figure of the experiment that shows it; may be empty.", kind="str"),
}
