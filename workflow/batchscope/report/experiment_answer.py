"""What an experiment answers to its question, in one to three sentences.

An experiment's figures show what it asks: their outcomes, in their order, are what an answer is
about, and no other.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from batchscope.analysis.outcome_answers import Answer
from batchscope.report import answers
from batchscope.report.content import Figure

MOST = 3  # sentences
_MOST_SERIES = 2  # of which a finding says all
_BY_SERIES = "by series."
_ENDS = re.compile(r"(?<=[.!?]) (?=[A-Z0-9])")


def asked(found: list[Answer], figures: Sequence[Figure]) -> list[Answer]:
    """Returns the answers about outcomes that a figure shows, in the order of the figures.

    All of them where no figure shows any.
    """
    order = list(dict.fromkeys(column for figure in figures for column in figure.columns))
    shown = [answer for answer in found if answer.outcome.column in order]
    return sorted(shown, key=lambda each: order.index(each.outcome.column)) or found


def sentences(
    found: list[Answer], figures: Sequence[Figure], spoken: Sequence[str] = ()
) -> list[tuple[str, str]]:
    """Returns the answer as pairs of what is said, and of what; the first may be empty.

    Args:
        found: The answers of an experiment that are asked; none where they are not to be told.
        figures: Its figures.
        spoken: Sentences that answer it better, if there are any.
    """
    if spoken:
        return [("", text) for text in spoken][:MOST]
    told = answers.headlines(found)
    columns = {answer.outcome.column for answer in found if not answer.outcome.timed}
    for figure in figures:
        if len(told) < MOST and figure.found and not columns.intersection(figure.columns):
            told.append(("", first(figure.found)[0]))
    return told[:MOST]


def first(text: str) -> tuple[str, str]:
    """Returns the first sentence of a text that says something, and the rest.

    One that only announces series is not alone: of many the first and the last follow it.
    """
    parts = _ENDS.split(text)
    if not parts[0].endswith(_BY_SERIES) or len(parts) < 2:
        return parts[0], " ".join(parts[1:])
    series = parts[1].split("; ")
    if len(series) <= _MOST_SERIES:
        return " ".join(parts[:2]), " ".join(parts[2:])
    told = f"{series[0]}; \N{HORIZONTAL ELLIPSIS}; {series[-1]}"
    return f"{parts[0]} {told}", text
