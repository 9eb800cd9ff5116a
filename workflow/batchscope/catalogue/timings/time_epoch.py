"""Seconds per epoch of a training's configuration: several blocks after a warm-up, median and
quartiles; a job for each seed, in turns over all configurations.
"""

from batchscope.catalogue.entries import Column, Figure, Panel, Positive, Scale, Timing
from batchscope.catalogue.parameters import Parameter

ENTRY = Timing(
    version="time_epoch-v2",
    settings=(
        Parameter("blocks", "bl", "int", 7, "Timed blocks.", minimum=3),
        Parameter.seconds("block_seconds", "bsec", 0.25, "Least seconds in a block.", above=0),
    ),
    columns={
        "seconds_per_epoch": Positive(
            "Time of one epoch, validation apart: median of a timing job that had the "
            "machine to itself.",
            unit="s",
            label="Time per epoch",
            direction="falls",
            source="Chang and Pathak 2020",
        ),
        "seconds_per_epoch_q1": Positive("Lower quartile of the timing job's blocks.", unit="s"),
        "seconds_per_epoch_q3": Positive("Upper quartile of the timing job's blocks.", unit="s"),
        "examples_per_second": Column(
            "Training examples per second in the timing job; of a command that runs alone, "
            "between the first and the last evaluation whose seconds its log has.",
            unit="examples/s",
        ),
    },
    trains=True,
    seconds=True,
    forked=True,
    at_epochs=True,
    figures=(
        Figure(
            "time",
            "Time",
            "Time",
            "Time per epoch in a timing job that had the machine to itself, epochs until the "
            "training stopped, and their product. Hollow, with an arrow: nothing stopped it, "
            "a lower bound.",
            panels=(
                Panel("seconds_per_epoch", "Time per epoch", "time per epoch (s)", Scale.ZERO),
                Panel(
                    "epochs_run",
                    "Epochs until it stopped",
                    "epochs",
                    Scale.ZERO,
                    unless="epochs",
                    bounds=True,
                ),
                Panel(
                    "train_seconds",
                    "Total training time",
                    "total time (s)",
                    Scale.ZERO,
                    unless="seconds_per_epoch",
                    bounds=True,
                ),
            ),
            columns=("epochs", "patience", "target_train_loss"),
        ),
    ),
    memory_mb=2000,
    minutes=30,
    order=1,
)
