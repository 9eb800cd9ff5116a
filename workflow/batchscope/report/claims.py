"""Verdicts on published claims, by the runs: held, not held, or not resolved."""

from __future__ import annotations

from typing import Any, NamedTuple

from batchscope import wording
from batchscope.analysis import outcome_answers
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


def verdicts(claims: dict[str, str], answers: list[dict[str, Any]]) -> list[Verdict]:
    """Returns a verdict per statement and series.

    Args:
        claims: Column -> `rises` or `falls`, as the batch size grows.
        answers: What the runs of the experiment say, from `statistics.answers`.
    """
    found = []
    for column, direction in claims.items():
        own = [answer for answer in answers if answer["outcome"] == column]
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


def _verdict(direction: str, answer: dict[str, Any]) -> Verdict:
    series = f"{answer['series']}: " if answer["series"] else ""
    stated = f"{series}{wording.lower(answer['label'])} {direction}"
    return Verdict(_word(direction, answer), f"{stated} ({_numbers(answer)}).")


def _word(direction: str, answer: dict[str, Any]) -> str:
    if answer["timed"]:
        value = answer["change"]["value"]
        if value is None:
            return NOT_RESOLVED
        lower_end = answer["smallest" if value > 0 else "largest"]["batch_size"]
        if lower_end in answer["ran_out"]:
            return NOT_RESOLVED  # a lower bound below another value may truly lie above it
        return SEEN if (value > 0) == (direction == outcomes.RISES) else NOT_SEEN
    if answer["verdict"] == direction:
        return HELD
    if answer["verdict"].endswith(outcome_answers.AGAINST):
        return NOT_HELD
    return wording.capital(answer["verdict"])


def _numbers(answer: dict[str, Any]) -> str:
    ends = [answer["smallest"], answer["largest"]]
    told = [f"{_value(end)} at {end['batch_size']}" for end in ends]
    text = wording.listed(dict.fromkeys(told))
    slope = format_interval(*(answer["slope"][key] for key in ("value", "low", "high")))
    if slope and slope.low:
        text += f"; {slope.value} [{slope.low}, {slope.high}] per doubling"
    if answer["p_holm"] is not None:
        p = format_p(answer["p_holm"])
        text += f"; adjusted p {p if p.startswith('<') else '= ' + p}"
    return "; ".join(filter(None, [text, answer["note"]]))


def _value(end: dict[str, Any]) -> str:
    shown = format_interval(end["value"], end["low"], end["high"])
    return shown.value if shown else "nothing"
