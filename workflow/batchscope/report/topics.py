"""What questions ask for: the figures, and of their findings the sentences, that answer it."""

from __future__ import annotations

import re
from typing import NamedTuple


class Topic(NamedTuple):
    """Something that a question may ask for; words are regular expressions.

    Attributes:
        figures: Names of the figures that show it, the best first.
        pattern: Regular expression of the sentence of their findings; empty for the first one.
        elsewhere: Whether another experiment's figure shows it where there is none of its own.
    """

    asked: str
    figures: tuple[str, ...]
    pattern: str = ""
    elsewhere: bool = False


_USAGE = ("frameworks", "utilisation")
TOPICS = (
    Topic(r"(update|step) take|longer does an? (update|step)", ("step_time",), "as long as with"),
    Topic(r"\bbeside\b", ("step_time",), "as long as with"),
    Topic(r"\bwait\b|delay", ("step_time",), "delay added"),
    Topic(r"fixed cost|\bper step\b|does a step cost", ("step_time",), "fixed cost per step"),
    Topic(r"per (image|example)\b", ("step_time",), "cost per example"),
    Topic(r"same (images|examples)", ("throughput",), "times as long"),
    Topic(r"throughput|images per second", ("throughput",), "plateau|highest|rises|levels"),
    Topic(r"\d+th image", ("throughput",), r"t\(\d+\)"),
    Topic(r"multiples of", ("throughput",), "[Ss]tairs"),
    Topic(r"training time", ("training_time",)),
    Topic(r"how large\b.*\bbatch", ("max_batch_size",), "that fits"),
    Topic(r"utili[sz]ation|\bidle\b|\bbusy\b", _USAGE, "[Uu]tilisation"),
    Topic(r"\bmemory rise", _USAGE, "[Mm]emory"),
    Topic(r"share of a step", ("profile",)),
    Topic(r"accuracy stays? within", ("batch_size_limits",)),
    Topic(r"accuracy", ("accuracy", "accuracy_by_epochs")),
    Topic(r"\bcompare\b", ("accuracy",)),
    Topic(r"\bcompare\b", ("best_losses",), "validation loss"),
    Topic(r"slower per epoch", ("loss_curves",)),
    Topic(r"(worse|lower|the|best) losses", ("best_losses",)),
    Topic(r"time per epoch|shorten the epochs", ("time",), "time per epoch"),
    Topic(r", times\b|total time", ("time",), "total training time"),
    Topic(r"sharp|flat", ("sharpness",)),
    Topic(r"closer|farther|initial weights|distances\b", ("weight_distance",)),
    Topic(r"smaller updates|updates or through", ("update_norms",)),
    Topic(r"noise scale", ("noise_scale",)),
    Topic(
        r"critical batch|save few updates", ("critical_batch_size",), "critical batch size is", True
    ),
    Topic(r"generali[sz]ation", ("generalisation_gap",)),
    Topic(r"learning rate is best|best learning rate", ("best_learning_rate", "learning_rate")),
)


def asked(question: str) -> list[Topic]:
    """Returns the topics that a question asks for, in the order in which it does.

    One whose words stand within longer ones of another topic is not asked for: of "accuracy stays
    within" the accuracy.
    """
    found = [(re.search(topic.asked, question, re.IGNORECASE), topic) for topic in TOPICS]
    spans = [(hit.span(), topic) for hit, topic in found if hit]
    alone = [
        (start, topic)
        for (start, end), topic in spans
        if not any(
            first <= start and end <= last and last - first > end - start
            for (first, last), _ in spans
        )
    ]
    return [topic for _, topic in sorted(alone, key=lambda each: each[0])]
