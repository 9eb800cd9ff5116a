"""Verdicts on published claims, by the runs: held, not held, or not resolved."""

from __future__ import annotations

import math
from typing import NamedTuple

from batchscope import wording
from batchscope.analysis import outcome_answers
from batchscope.analysis.intervals import Interval
from batchscope.analysis.outcome_answers import Answer
from batchscope.catalogue import outcomes
from batchscope.report.text import format_interval, format_p

HELD, NOT_HELD, NOT_RESOLVED = "Held", "Not held", "Not resolved"
SEEN, NOT_SEEN = "Seen, not tested", "Not seen, not tested"
NO_VALUE = "Not measured"


class Verdict(NamedTuple):
    """One statement about one series.

    Attributes:
        word: Held, not held, not resolved, and so on.
        text: What was stated of which series, and the numbers.
    """

    word: str
    text: str


def verdicts(claims: dict[str, str], answers: list[Answer]) -> list[Verdict]:
    """Returns a verdict per statement and series.

    Args:
        claims: Column -> `rises` or `falls`, as the batch size grows.
        answers: What the runs of the experiment say, from `outcome_answers.answers`.
    """
    found = []
    for column, direction in claims.items():
        own = [answer for answer in answers if answer.outcome.column == column]
        found += [_verdict(direction, answer) for answer in own]
        if not own:
            label = outcomes.stated(column, direction, "").label
            found.append(Verdict(NO_VALUE, f"{wording.lower(label)} {direction}."))
    return found


def counts(found: list[Verdict]) -> list[tuple[str, int]]:
    """Returns how often each word was said, in the order of a reader's interest."""
    words = dict.fromkeys((HELD, NOT_HELD, NOT_RESOLVED, SEEN, NOT_SEEN, NO_VALUE))
    words |= dict.fromkeys(verdict.word for verdict in found)
    said = [(word, sum(verdict.word == word for verdict in found)) for word in words]
    return [(word, count) for word, count in said if count]


def _verdict(direction: str, answer: Answer) -> Verdict:
    series = f"{answer.series}: " if answer.series else ""
    stated = f"{series}{wording.lower(answer.outcome.label)} {direction}"
    if answer.held and not answer.outcome.timed:
        stated += f", {answer.held}"
    return Verdict(_word(direction, answer), f"{stated} ({_numbers(answer)}).")


def _word(direction: str, answer: Answer) -> str:
    if answer.outcome.timed:
        change = answer.change.mean
        if not math.isfinite(change):
            return NOT_RESOLVED
        lower_end = answer.smallest if change > 0 else answer.largest
        if lower_end.batch_size in answer.ran_out:
            return NOT_RESOLVED  # a lower bound below another value may truly lie above it
        return SEEN if (change > 0) == (direction == outcomes.RISES) else NOT_SEEN
    if answer.verdict == direction:
        return HELD
    if answer.verdict.endswith(outcome_answers.AGAINST):
        return NOT_HELD
    return wording.capital(answer.verdict)


def _numbers(answer: Answer) -> str:
    ends = (answer.smallest, answer.largest)
    told = [f"{_value(end.interval)} at {end.batch_size}" for end in ends]
    text = wording.listed(dict.fromkeys(told))
    slope = format_interval(answer.slope.mean, answer.slope.low, answer.slope.high)
    if slope and slope.low:
        text += f"; {slope.value} [{slope.low}, {slope.high}] per doubling"
    if math.isfinite(answer.p_holm):
        p = format_p(answer.p_holm)
        text += f"; adjusted p {p if p.startswith('<') else '= ' + p}"
    return "; ".join(filter(None, [text, answer.note]))


def _value(interval: Interval) -> str:
    shown = format_interval(interval.mean, interval.low, interval.high)
    return shown.value if shown else "nothing"
