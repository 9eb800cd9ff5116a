"""The figures: those of a single measure or timing stand in its entry, all others here."""

from __future__ import annotations

from itertools import chain

from batchscope.catalogue.entries import Figure, Need, Panel, Scale
from batchscope.catalogue.measures import MEASURES
from batchscope.catalogue.timings import TIMINGS

_OF_LOGARITHMS = "On a logarithmic axis an interval is that of the mean's logarithm."
_OF_SEVERAL = (
    Figure(
        "loss_curves",
        "Loss curves",
        "Training",
        caption=(
            "Training and validation loss, each batch size at its best learning rate: means over "
            "seeds with a 95 % interval. A thin line is a run that did not finish."
        ),
        kind="against_progress",
        table="history",
        panels=(
            Panel("train_loss", "Training loss", "loss (nats)"),
            Panel("validation_loss", "Validation loss", "loss (nats)"),
        ),
        over=("epoch",),
        also_over=("updates", "examples", "seconds"),
        best_rate=True,
        own=None,
    ),
    Figure(
        "progress",
        "Loss by updates, examples and time",
        "Training",
        caption=(
            "Validation loss against what was used up, each batch size at its best learning rate: "
            "which one wins depends on what is held equal. Dotted: the target; where it is "
            "crossed first, that batch size gets there first."
        ),
        kind="against_progress",
        table="trajectories",
        panels=(Panel("validation_loss", "", "validation loss (nats)"),),
        over=("updates", "examples", "seconds"),
        best_rate=True,
        target=True,
        needs=(Need.EVALUATIONS, Need.PREFIXES),
        own=("validation_loss",),
    ),
    Figure(
        "best_losses",
        "Best losses",
        "Training",
        caption="The lowest training and validation loss that each run reached.",
        panels=(
            Panel("best_train_loss", "Best training loss", "loss (nats)"),
            Panel("best_validation_loss", "Best validation loss", "loss (nats)"),
        ),
        own=("best_train_loss|best_validation_loss",),
    ),
    Figure(
        "learning_rate",
        "Learning rate",
        "Training",
        caption=(
            "Lowest validation loss that each run reached: against the learning rate, after "
            "scaling, with one line per batch size, and against the batch size with one "
            "line per learning rate. Every seed is a point; means have a 95 % interval "
            "over seeds (Student's t). A ring marks the learning rate with the lowest mean of its "
            "batch size. " + _OF_LOGARITHMS
        ),
        varied=("learning_rate",),
        own=("best_validation_loss",),
    ),
    Figure(
        "best_learning_rate",
        "Best learning rate",
        "Quality",
        caption=(
            "Left: the learning rate, after scaling, with the lowest mean of the best "
            "validation loss at each batch size (large marks), and the one that each seed "
            "alone would choose (small points). Hollow marks with an arrow lie on the edge "
            "of the grid, beyond which a better rate may lie. The line is rate = c (batch "
            "size) to the power k, the mean of the fits of single seeds in log-log; the "
            "interval of k is Student's t over seeds, widened by what half a step of the "
            "grid can move it. Grey lines are the slopes of the linear and the square root "
            "rule. Middle and right: loss and accuracy on test data at those rates, which "
            "had no part in choosing them; every seed is a point and means have a 95 % "
            "interval (Student's t)."
        ),
        measures=("evaluate",),
        varied=("learning_rate",),
        own=("best_validation_loss", "test_loss", "test_accuracy"),
    ),
    Figure(
        "accuracy_by_epochs",
        "Accuracy by number of epochs",
        "Quality",
        caption=(
            "Accuracy on the test data after each number of epochs: the weights of one training "
            "are read several times, and nothing is trained twice."
        ),
        table="at_epochs",
        panels=(Panel("test_accuracy", "Test accuracy", "test accuracy (%)", Scale.PERCENT),),
        lines="at_epoch",
        measures=("evaluate",),
        needs=(Need.AT_EPOCHS,),
    ),
    Figure(
        "verdict_matrix",
        "Which batch size is better at which budget",
        "Quality",
        caption=(
            "What wins depends on what is held equal: every row is a budget, every column a "
            "batch size. Of several learning rates each cell has the one with the lowest mean "
            "validation loss at its budget, or the fewest updates to its target, and is read on "
            "test data. A cell shows its difference from the best mean of its row, paired by "
            "seed, with a 90 % interval (Student's t), and the best its mean; what was taken to a "
            "target is shown as a ratio. Blue, with a full circle: every other batch size is shown "
            "to be better by less than the margin. Orange, hatched, with a cross: another is shown "
            "to be better by more. White, with a hollow circle: not resolved. At the "
            "right: whether outcomes get better or worse along the batch sizes (Page's trend test "
            "in both directions, adjusted for all rows of the figure). There is no verdict where "
            "the rate at the losing end lies on the edge of those tried."
        ),
        needs=(Need.BATCH_SIZES,),
        own=("validation_loss",),
    ),
    Figure(
        "batch_size_limits",
        "How large a batch may be",
        "Quality",
        caption=(
            "How large a batch may be, on one axis. A full circle is a batch size within "
            "the margin: every other one is shown to be better by less, by one-sided paired "
            "t-tests at 5 % each. A filled cross is one beyond it: some other one is shown "
            "to be better by more, adjusted for all pairs of batch sizes. A hollow circle "
            "is not resolved by these seeds. A series' bar reaches from the smallest batch "
            "size within the margin up to the last before one that is not; the number is "
            "that batch size. Limits of the machine come from timing experiments: the "
            "largest batch that fits into memory, and the knee, the smallest batch from "
            "which on throughput stays at 90 % of its plateau, unless the timings are too "
            "noisy to tell."
        ),
        measures=("evaluate",),
        needs=(Need.MARGINS,),
    ),
    Figure(
        "advice",
        "Which batch sizes to use",
        "Quality",
        caption=(
            "Every limit of the batch size on one axis. Circles, crosses and dots are batch sizes "
            "beside the best of the others, in time to the target and in each outcome. Diamonds "
            "are limits by themselves: the largest batch that fits into memory, the smallest that "
            "reaches 90 % of the throughput's plateau, and the critical batch size with its 95 % "
            "interval. The recommended range are neighbouring sizes around the best measured one "
            "that are within every limit; where that one is not shown to be, it stands alone."
        ),
        needs=(Need.BATCH_SIZES, Need.PREFIXES),
    ),
    Figure(
        "critical_batch_size",
        "Critical batch size",
        "Quality",
        caption=(
            "Updates (left) and examples (right) that each batch size takes to a target, one row "
            "per target. The curve is (McCandlish et al. 2018, arXiv 1812.06162): updates at "
            "batch size B = fewest updates × (1 + critical batch size / B). At the critical batch "
            "size a training takes twice the fewest updates and twice the fewest examples; its 95 "
            "% interval stands at the foot, where an arrow is an open end, or one beyond the "
            "panel. Shades after Shallue et al. 2019 (arXiv 1811.03600): perfect scaling below a "
            "ninth of the critical batch size, where a doubled batch nearly halves the updates, "
            "and maximal data parallelism above nine times it, where it saves next to none; no "
            "shades where the updates depart from the curve. The gradient noise scale, where it "
            "is measured, is that of the batch size nearest to the critical one, with Fieller's "
            "interval: it predicts the order of magnitude. A batch size of which a seed never "
            "reached the target is marked and not fitted. Crossings are interpolated in the "
            "logarithm of the loss between two evaluations."
        ),
        needs=(Need.BATCH_SIZES, Need.PREFIXES),
    ),
    Figure(
        "fastest_batch_size",
        "Fastest batch size",
        "Time",
        caption=(
            "Seconds that each batch size takes to a target. Squares are geometric means over "
            "seeds with a 95 % interval (Student's t of the logarithm). The line is the closed "
            "form: the fitted updates times the time of a step, a fixed cost and a cost per "
            "example, which the timing jobs give. It is least at the square root of the critical "
            "batch size times the batch size at which half of a step is fixed cost. Both stand at "
            "the foot with 95 % intervals, where an arrow is an open end, or one beyond the panel. "
            "Within the shade the closed form takes at most 10 % longer than at its best."
        ),
        needs=(Need.BATCH_SIZES, Need.SECONDS, Need.PREFIXES),
        own=("seconds",),
    ),
    Figure(
        "training_time",
        "Training time by number of epochs",
        "Time",
        caption=(
            "Number of epochs times the time of one, validation apart: medians of timing jobs. "
            "What lies below the dotted line trains longer than the fewest epochs at the smallest "
            "batch size, and in less time."
        ),
        kind="training_time",
        table="training_times",
        panels=(Panel("train_seconds", "Training time", "training time (s)", Scale.ZERO),),
        lines="at_epoch",
        measures=("time_epoch|throughput",),
        needs=(Need.AT_EPOCHS,),
    ),
    Figure(
        "frameworks",
        "Usage by framework",
        "Machine",
        caption=(
            "How busy the machine was, what memory was held and how many examples were "
            "trained on per second, against batch size, with one line per framework and "
            "whatever else is varied. On a GPU utilisation is NVML's: the percentage of "
            "time in which a kernel ran, and memory what all processes held on that GPU. On "
            "a CPU utilisation is the process's CPU time over that of the cores that it was given, "
            "and the process's peak resident memory: that is not what a document measured "
            "on a GPU, and the two cannot be set against each other. Points are medians, of "
            "samples within one training for utilisation and of blocks that were timed in "
            "turns for examples per second; bars are quartiles of these, or of the jobs where "
            "these were repeated. Memory is one peak, which a framework's allocator need not give "
            "back for a smaller batch. A framework that is not installed has no line. Where "
            "a document's numbers are known, a second, shaded row of panels has them as "
            "published, on scales of their own: same lines, another machine."
        ),
        measures=("utilisation", "throughput"),
        varied=("framework",),
    ),
)
# In the order of a report.
_CATEGORIES = (
    *("Training", "Quality", "Time", "Machine"),
    *("Weights", "Gradients", "Sharpness", "Landscape"),
)


def _in_order() -> list[Figure]:
    entries = chain(MEASURES.values(), TIMINGS.values())
    own = [*chain.from_iterable(entry.figures for entry in entries), *_OF_SEVERAL]
    found = list(chain.from_iterable((figure, *figure.variants()) for figure in own))
    return sorted(found, key=lambda figure: _CATEGORIES.index(figure.category))


FIGURES: dict[str, Figure] = {figure.name: figure for figure in _in_order()}
