"""Two lines for each check, verdict, grade, headline and number of a report.

A key is a code of `analysis` or `study`, or a word with underscores. The report shows the text
after a question mark, and `explain WORD` prints it.
"""

from __future__ import annotations

EXPLANATIONS = {
    # Verdicts.
    "supported": "The interval lies on the stated side. With six or more seeds, chance alone "
    "explains this in at most 5 % of such verdicts.",
    "contradicted": "The interval lies on the side opposite to the statement. The statement does "
    "not hold in these runs.",
    "within": "The whole interval is inside the margin: this batch size is as good as the best of "
    "the others, up to a difference that counts as negligible.",
    "beyond": "The whole interval is outside the margin: this batch size is worse than the best of "
    "the others by more than a negligible difference.",
    "not_resolved": "The interval holds both a negligible and a relevant difference. The runs so "
    "far cannot tell which; that is no evidence that the sizes are equal.",
    "one_seed": "A single seed gives a value but no interval. Another seed may give a different "
    "order.",
    "not_testable": "There is nothing to test: a run failed, never reached the target, or a value "
    "is missing. The table says which.",
    "increases": "The outcome grows with the batch size: the interval of its change per doubling "
    "lies above zero.",
    "decreases": "The outcome falls with the batch size: the interval of its change per doubling "
    "lies below zero.",
    "unclear": "The interval of the change per doubling holds zero, or there are too few seeds. "
    "The runs show neither an increase nor a decrease.",
    # Grades.
    "solid": "Six or more paired seeds, every limit next to the recommended sizes is decided, and "
    "no check failed. More runs are unlikely to change the recommendation.",
    "provisional": "The best so far, but not proven: fewer than six paired seeds, a limit that is "
    "not resolved, or a check that failed. The checks say how to settle it.",
    "open": "Too few seeds to judge: the values are shown with their range, without an interval. "
    "Add seeds before you act on it.",
    # Headlines.
    "recommended": "This batch size is shown to be within every margin, or is the best measured "
    "where none is. Use it with the learning rate beside it.",
    "no_outcome": "No run has a result to compare yet: none finished, or none was evaluated. The "
    "checks name the line that is missing.",
    "nothing_learned": "No batch size beats a constant prediction by its interval. Comparing sizes "
    "means nothing until a network learns: try other learning rates or another model.",
    "rate_not_found": "The best learning rate is the smallest or the largest that was tried, so a "
    "better one may lie outside. Extend the grid in that direction.",
    "not_distinguished": "These batch sizes do equally well as far as the runs can tell. Take the "
    "fastest one; more seeds may separate them.",
    # Checks.
    "baseline": "The score without looking at the input: the most frequent class, or the mean of "
    "the targets. A network that learned something beats it by its whole interval.",
    "test_set": "A small test set makes accuracy uncertain: its standard error is sqrt(p (1 - p) / "
    "examples). It should be smaller than the margin.",
    "rate_on_edge": "The best learning rate of a size is the smallest or largest that was tried, "
    "and no rate between them does as well. A better one may lie outside the grid, which makes "
    "that size look worse than it is.",
    "size_on_edge": "The recommended batch size is the smallest or the largest that was tried. "
    "A better one may lie beyond it.",
    "timings_disturbed": "Other programs used the cores while seconds were measured, or repeated "
    "timings scatter widely. Time again on an idle machine.",
    "times_compared": "Sizes are ranked by seconds only if each reaches the same target loss. "
    "Here none of the known seconds belongs to a common target.",
    "fastest": "The size with the fewest seconds to the target is worse in another outcome, or "
    "does not fit into memory. It is not recommended.",
    "still_falling": "Most trainings of a size ended while their validation loss was falling. "
    "Train longer: the comparison may change.",
    "lack_of_fit": "Tests whether updates to the target follow the critical-batch-size model. A "
    "p-value below 0.05 means that they do not, and the model's numbers are rough.",
    "seeds_planned": "The number of seeds should be fixed before any result is seen. Adding seeds "
    "until a result appears makes chance findings likely.",
    "interim": "The study adds seeds in steps and tests after each (interim analyses), which costs "
    "a share of the error rate each time. It stops when every limit is decided.",
    "seeds": "A seed is one repetition with its own initial weights and data order. Six paired "
    "seeds are the least for a verdict; more narrow the interval.",
    "sizes": "A recommendation compares at least three batch sizes. With fewer, a best size in "
    "between cannot be seen.",
    "time_epoch": "Seconds per epoch, measured in jobs of their own while nothing else ran. "
    "Without them sizes are compared by examples and updates, not by time.",
    "evaluate": "Evaluates every finished run on test data. Without it the comparison uses "
    "validation data, which also chose the learning rate and looks better than it is.",
    "target": "The validation loss that every training should reach. It must lie beyond the first "
    "evaluation, or the cost to reach it is only an upper bound.",
    "longer_training": "No batch size reached the target with every seed. Train longer, or choose "
    "a target that is easier to reach.",
    "rates": "Each batch size needs its own learning rate: with a single rate, the size that "
    "happens to suit it wins. Try several rates for each size.",
    # Numbers.
    "interval": "The values that the seeds are compatible with, at 95 % confidence: of a mean, or "
    "of a difference between batch sizes. More seeds make it narrower.",
    "p_value": "How often chance alone would give a result at least as strong. Below 0.05 counts "
    "as evidence; above it, nothing is shown either way.",
    "margin": "The largest difference that you would accept as negligible. The study states it, or "
    "the default: one point of accuracy, a tenth of the time.",
    "learning_rate": "The step size of the optimizer. For each batch size the study tries several "
    "and keeps the one with the lowest validation loss.",
    "epochs": "Passes over the training data. Train for this many, or stop where the validation "
    "loss is lowest.",
    "patience": "Epochs to wait without a lower validation loss before a training stops. Early "
    "stopping keeps the weights of the best epoch.",
    "expected": "The result of a training with these settings: the mean over seeds with its "
    "interval, at the epoch where the validation loss was lowest.",
    "seconds": "Training time on this machine: updates times the seconds of one update, measured "
    "while nothing else ran. Validation is left out.",
    "memory_peak_mb": "The most memory that a training held at this batch size. A machine with "
    "less ends with an out-of-memory error.",
    "memory": "The largest batch that fits into the memory of this machine. A larger batch ends "
    "with an out-of-memory error.",
    "knee": "The batch size at which the machine processes 90 % of its highest number of examples "
    "per second. Beyond it, larger batches hardly speed up an epoch.",
    "critical_batch_size": "The batch size at which reaching the target takes twice the fewest "
    "updates and twice the fewest examples. Far above it, larger batches waste examples.",
    "time_to_target": "Updates to the target times the seconds of one update, measured on an idle "
    "machine. The mean over seeds, with its interval.",
    "examples_to_target": "Training examples used until the validation loss first reached the "
    "target. It does not depend on the machine.",
    "time_per_epoch": "Seconds of one pass over the training data, measured in a job of its own. "
    "Larger batches usually need fewer.",
    "interim_analysis": "A test before all seeds are run. Each one spends a share of the error "
    "rate, so that stopping early does not raise the risk of a chance finding.",
    "paired": "Every batch size is run with the same seeds, and differences are taken seed by "
    "seed. This removes the luck that all sizes share.",
    "per_doubling": "The mean change of the outcome when the batch size doubles, over the sizes "
    "that were tried. One slope per seed, then their mean.",
    "same_epochs": "Compared after the same number of passes over the data. Large batches make "
    "fewer updates by then, which favours small ones.",
    "same_updates": "Compared after the same number of updates. Large batches have seen more data "
    "by then, which favours them.",
    "same_examples": "Compared after the same number of training examples, or by the number to the "
    "target. It does not depend on the machine.",
    "same_seconds": "Compared after the same training time on this machine, or by the time to the "
    "target. Usually the fairest comparison.",
    "at_convergence": "Each training at its own lowest validation loss, however long that took. "
    "This compares quality, not cost.",
    "guess": "An estimate before the study, from a few timed steps and the gradient noise. The "
    "report compares it with the measured result.",
}


def key(text: str) -> str:
    """Return the key of a typed word: `Not resolved` becomes `not_resolved`."""
    return text.strip().lower().replace(" ", "_").replace("-", "_")
