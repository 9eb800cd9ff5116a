"""One sentence for each check, verdict, grade, headline and number of a report.

A key is a code of `analysis` or `study`, or a word with underscores. The report shows the sentence
behind a question mark, and `explain WORD` prints it.
"""

EXPLANATIONS = {
    # Verdicts.
    "supported": "The interval is in the stated range; at most 5 % of such verdicts are wrong.",
    "contradicted": "The interval is outside the stated range: the statement fails here.",
    "within": "The whole interval is inside the margin: no other size is relevantly better.",
    "beyond": "The whole interval is outside the margin: another size is relevantly better.",
    "not_resolved": "The runs cannot decide this. It does not mean that the sizes are equal.",
    "one_seed": "A single seed gives a value but no interval; another may change the order.",
    "not_testable": "A run failed, never reached the target, or a value is missing.",
    "increases": "The outcome grows with the batch size: the interval lies above zero.",
    "decreases": "The outcome falls with the batch size: the interval lies below zero.",
    "unclear": "The interval of the change contains zero, or there are too few seeds.",
    # Grades.
    "solid": "Six paired seeds or more, every limit is decided, and no check failed.",
    "provisional": "Fewer than six seeds, or a check did not pass: the words beside it say which.",
    "open": "Too few seeds for an interval: values are shown with their range.",
    # Headlines.
    "recommended": "This batch size is within every margin, or the best measured one.",
    "no_outcome": "No outcome ranks the sizes; at equal updates, larger sizes use more examples.",
    "nothing_learned": "No batch size beats a constant prediction. Try other learning rates.",
    "rate_not_found": "The best learning rate is at the edge of its grid. Extend the grid.",
    "not_distinguished": "The runs cannot separate these sizes. Take the fastest one.",
    # Checks.
    "baseline": "The score of a constant prediction, which a useful network beats.",
    "test_set": "The standard error sqrt(p (1 - p) / examples) must be below the margin.",
    "rate_on_edge": "The best rate of a size that may win, or one as good, is an inner one.",
    "size_on_edge": "The recommended batch size is the smallest or the largest one tried.",
    "timings_disturbed": "Other programs ran during timings. Time again on an idle machine.",
    "times_compared": "Seconds rank the sizes only if each reaches the same target loss.",
    "fastest": "The fastest size is worse in another outcome or does not fit into memory.",
    "still_falling": "Most trainings ended while the validation loss fell. Train longer.",
    "lack_of_fit": "A p-value below 0.05: the updates to the target do not fit its model.",
    "seeds_planned": "Adding seeds after seeing the results makes chance findings likely.",
    "interim": "Seeds are added in stages until these sizes are decided or the seeds run out.",
    "seeds": "Repetitions with other initial weights and data order; a verdict needs six.",
    "sizes": "A recommendation compares at least three batch sizes.",
    "time_epoch": "Seconds per epoch, measured in separate jobs while nothing else ran.",
    "evaluate": "Evaluates finished runs on test data; validation data chose the rate.",
    "target": "Validation loss to reach. It must lie beyond the first evaluation.",
    "longer_training": "No size reached the target with every seed. Train longer.",
    "rates": "Each batch size needs its own learning rate. Try several for each size.",
    # Numbers.
    "interval": "Values that the seeds leave possible, at 95 % confidence; – means no limit.",
    "claim_interval": "Values that the runs leave possible, at 95 % or, with several claims, more.",
    "claims": "The claims of a document share an error rate of 5 % (Benjamini and Hochberg 1995).",
    "p_value": "How often chance alone gives a result this strong; below 0.05 is evidence.",
    "margin": "The largest negligible difference, stated in the study or by default.",
    "learning_rate": "The tried rate of lowest loss, among those not worse in loss or updates.",
    "epochs": "Epochs to the lowest validation loss, or all epochs if the loss still fell.",
    "patience": "Epochs without a lower validation loss after which a training stops.",
    "expected": "Mean over seeds with its interval, at the lowest validation loss or at the end.",
    "seconds": "Updates times seconds per update on the idle machine, or the time in the logs.",
    "memory_peak_mb": "The most memory that a training held at this batch size.",
    "memory": "The largest batch that fits into the memory of this machine.",
    "knee": "The size at which the machine reaches 90 % of its highest throughput.",
    "critical_batch_size": "It takes twice the fewest updates and examples; with 95 % interval.",
    "paired": "Every size is run with the same seeds, and compared seed by seed.",
    "per_doubling": "Mean change when the batch size doubles; – as an end means no limit.",
    "same_epochs": "Compared after as many epochs as all runs have, which favours small sizes.",
    "same_updates": "Compared after the same number of updates, which favours large sizes.",
    "same_examples": "Compared after the same number of training examples.",
    "same_seconds": "Compared after the same training time on this machine.",
    "at_best_loss": "Each training at its own lowest validation loss, at any cost.",
    "guess": "An estimate before the study, from a few timed steps and gradient noise.",
}


def key(text: str) -> str:
    """Return the key of a typed word: `Not resolved` becomes `not_resolved`."""
    return text.strip().lower().replace(" ", "_").replace("-", "_")
