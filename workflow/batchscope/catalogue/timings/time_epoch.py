"""Time of an epoch: the entry."""

from batchscope.catalogue.entries import Column, Figure, Timing, Topic
from batchscope.catalogue.parameters import Parameter

ENTRY = Timing(
    name="time_epoch",
    version="time_epoch-v2",
    doc=(
        "Seconds per epoch of a training's configuration: several blocks after a warm-up, median "
        "and quartiles; a job for each seed, in turns over all configurations."
    ),
    settings=(
        Parameter("blocks", "bl", "int", 7, "Timed blocks.", minimum=3),
        Parameter.seconds("block_seconds", "bsec", 0.25, "Least seconds in a block.", above=0),
    ),
    columns={
        "seconds_per_epoch": Column(
            "Time of one epoch, validation apart: median of a timing job that had the "
            "machine to itself.",
            unit="s",
            label="Time per epoch",
            direction="falls",
            source="Chang and Pathak 2020",
        ),
        "seconds_per_epoch_q1": Column("Lower quartile of the timing job's blocks.", unit="s"),
        "seconds_per_epoch_q3": Column("Upper quartile of the timing job's blocks.", unit="s"),
        "images_per_second": Column(
            "Training examples per second in the timing job.", unit="examples/s"
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
            caption=(
                "Left: time per epoch in a timing job that had the machine to itself, one for each "
                "seed, in turns over all configurations. Middle: epochs until the training "
                "stopped. Right: total training time, which is epochs run times time per epoch, "
                "validation apart. A training that ran all the epochs it may without being stopped "
                "gives a lower bound: hollow, with an arrow upwards. Every seed is a point, and "
                "means have a 95 % interval (Student's t)."
            ),
            topics=(
                Topic(r"time per epoch|shorten the epochs", "time per epoch"),
                Topic(r", times\b|total time", "total training time"),
            ),
        ),
    ),
    memory_mb=2000,
    minutes=30,
    order=1,
)
