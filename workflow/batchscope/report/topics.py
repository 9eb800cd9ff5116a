"""What questions ask for: the figures, and of their findings the sentences, that answer it."""

from __future__ import annotations

import re
from dataclasses import replace

from batchscope.catalogue.entries import Topic
from batchscope.catalogue.figures import FIGURES

TOPICS = tuple(
    replace(topic, figures=topic.figures or (figure.name,))
    for figure in FIGURES.values()
    for topic in figure.topics
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
