"""Alignment of gradients: the entry."""

from batchscope.catalogue.entries import Column, Figure, Integer, Measure, Table, Text
from batchscope.catalogue.parameters import Parameter

_ALIGNMENT = {
    "place": Text("start, middle or end of the training."),
    "epoch": Integer("Epoch whose weights were measured.", "epochs"),
    "examples": Integer("Examples in a batch.", "examples"),
    "norm": Column("Mean norm of the mean gradient of such a batch."),
    "ratio": Column("norm over the mean norm of single examples' gradients."),
    "independent": Column("ratio on average, were the sign of each gradient random."),
}

ENTRY = Measure(
    name="gradient_alignment",
    version="gradient_alignment-v3",
    doc=(
        "Norm of the mean gradient of 1, 2, 4 ... examples over the mean norm of single "
        "ones, at the start, middle and end of the training."
    ),
    settings=(
        Parameter("examples", "ex", "int", 256, "Training examples.", "examples", minimum=2),
        Parameter("draws", "dr", "int", 20, "Random divisions into batches.", minimum=1),
        Parameter("memory_mb", "mem", "int", 2048, "Limit on the gradients.", "MB", minimum=1),
    ),
    columns={
        "gradient_cosine_start": Column(
            "Mean cosine between the gradients of two different training examples, at the "
            "start of the training."
        ),
        "gradient_cosine_middle": Column(
            "Mean cosine between the gradients of two different training examples, at the "
            "middle of the training."
        ),
        "gradient_cosine_end": Column(
            "Mean cosine between the gradients of two different training examples, at the "
            "end of the training."
        ),
    },
    weights=("initial", "middle", "final"),
    figures=(
        Figure(
            "gradient_alignment",
            "Alignment of gradients",
            "Gradients",
            caption=(
                "The mean norm of the mean gradient of b training examples over the mean norm of "
                "single ones, at fixed weights at the start, in the middle (at the stored epoch "
                "nearest it) and at the end of the training, for the smallest and the largest "
                "batch size. The thin line of the same colour is what the same gradients give, by "
                "the same means, if each has a random sign: they then have their lengths and axes "
                "but no direction in common (1/√b if they are orthogonal and of one length); equal "
                "gradients would stay at 1. Above its line, gradients agree; on it, they share no "
                "direction; below it, they cancel. The examples are divided into batches of b at "
                "random, several times: the largest b has few batches, or all examples as one. "
                "Bands are 95 % intervals over seeds (Student's t)."
            ),
        ),
    ),
    tables={"alignment": Table("long_tables.alignment", _ALIGNMENT, keys=("place", "examples"))},
    minutes=120,
    order=5,
)
