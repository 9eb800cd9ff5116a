"""The answers of an experiment: effects with confidence intervals and p-values over seeds."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Any

import pandas

from batchscope import wording
from batchscope.analysis import outcome_answers, series_differences
from batchscope.analysis.intervals import Interval
from batchscope.analysis.outcome_answers import Answer
from batchscope.catalogue import outcomes, value_ranges
from batchscope.catalogue.outcomes import Outcome
from batchscope.report.text import format_interval, format_p
from batchscope.wording import Estimate

READING = (
    "Values are means over seeds with 95 % intervals by Student's t, cut where no value can "
    "be; every seed has a timing job of its own. The change per doubling is the mean over seeds of "
    "the slope against the base-2 logarithm of the batch size. Paired seeds are "
    "those that finished at every batch size; they alone are compared. p tests the direction "
    "that was stated beforehand: Page's trend test with seeds as blocks, or a one-sided paired "
    "t-test where there are two batch sizes; 1 where the order, which Page's test sees, and the "
    "slope point apart; adjusted by Holm's method over all tests of the study, each once. "
    "\u201cRises\u201d or \u201cfalls\u201d is said where the adjusted p is "
    f"below {outcomes.LEVEL:g} with {outcomes.LEAST_SEEDS} paired seeds or more. \u201cAgainst "
    "what was stated\u201d is said where that of the opposite direction is, adjusted likewise over "
    "the opposites of all tests; p is then of the contrary. "
    "\u201cNot resolved\u201d means that these seeds do not show it, and not that there is no "
    "difference."
)
ONE_SIZE = outcome_answers.ONE_SIZE
DIFFERENCES = (
    "Means over seeds of the difference in pairs of runs with the same seed, with 95 % intervals "
    "by Student's t. No test: nobody stated a direction for them beforehand."
)
_GROWS = "as the batch size grows"
_TESTS = {"page": "Page", "paired_t": "Paired t"}


def headlines(answers: list[Answer]) -> list[tuple[str, str]]:
    """Returns pairs of a verdict and its outcomes, best first; none of one batch size alone."""
    found = _by_verdict(answers, slope)
    return [
        (wording.capital(verdict), "; ".join(outcomes) + ".") for verdict, outcomes in found.items()
    ]


def in_short(answers: list[Answer]) -> str:
    """Returns the first of these headlines as a clause without slopes; nothing without any."""
    for verdict, found in _by_verdict(answers, lambda _: "").items():
        if verdict.startswith(_GROWS):
            return f"{verdict}, {'; '.join(found)}"
        pause = "," if "," in verdict else ""
        return f"{verdict}{pause} for {wording.count(len(found), 'outcome')}"
    return ""


def _by_verdict(answers: list[Answer], slope: Callable[[Answer], str]) -> dict[str, list[str]]:
    """Returns verdict -> the outcomes that have it, those resolved first.

    Nothing is reported of batch sizes without what was held equal.
    """
    tested = [answer for answer in answers if answer.verdict != ONE_SIZE]
    lines: dict[str, list[str]] = {}
    for answer in sorted(tested, key=lambda answer: not _resolved(answer)):
        verdict, words = answer.verdict, wording.lower(answer.outcome.label)
        if _resolved(answer):
            verdict, words = _GROWS, f"{words} {_does(answer.outcome)}"
        change = slope(answer) if _resolved(answer) or _against(answer) else ""
        if beside := "; ".join(filter(None, [answer.series, change])):
            words += f" ({beside})"
        lines.setdefault(", ".join(filter(None, [verdict, answer.held])), []).append(words)
    return lines


def _does(outcome: Outcome) -> str:
    """Returns what an outcome does, of several as of one: `epochs ... rise`, `loss ... rises`."""
    noun = outcome.label.split()[0]
    several = noun.endswith("s") and not noun.endswith("ss")
    return outcome.direction.removesuffix("s") if several else outcome.direction


def _resolved(answer: Answer) -> bool:
    return answer.verdict == answer.outcome.direction


def slope(answer: Answer) -> str:
    """Returns an outcome's change per doubling with its interval, in words; may be empty.

    That of a share in percentage points, as sentences state shares.
    """
    ends = answer.slope.mean, answer.slope.low, answer.slope.high
    points = answer.outcome.column.endswith("accuracy")
    found = format_interval(*(100 * end for end in ends)) if points else _estimate(answer.slope)
    if found is None:
        return ""
    unit = "points" if points else answer.outcome.unit
    return " ".join(filter(None, [found.bracketed, unit, "per doubling"]))


def groups(answers: list[Answer], asked: Collection[Answer] = ()) -> list[dict[str, Any]]:
    """Returns one table per series; batch sizes stand in its head, exceptions in its cells.

    The rows of what the experiment's question is about, `asked`, come first, as `head`.
    """
    by_series: dict[str, list[Answer]] = {}
    for answer in answers:
        by_series.setdefault(answer.series, []).append(answer)
    references, questions = sources(answers, asked), {answer.outcome for answer in asked}
    tables = []
    for series, group in by_series.items():
        smallest = min(answer.smallest.batch_size for answer in group)
        largest = max(answer.largest.batch_size for answer in group)
        table = {"title": wording.capital(series), "held": group[0].held}
        table |= {"smallest": smallest, "largest": largest, "head": [], "rest": []}
        for answer in group:
            row = _row(answer, smallest, largest, references)
            table["head" if answer.outcome in questions else "rest"].append(row)
        tables.append(table)
    return tables


def across(answers: list[Answer], asked: Collection[Answer] = ()) -> dict[str, Any]:
    """Returns one table of many series: outcomes down, series across; arguments as of `groups`."""
    series = list(dict.fromkeys(answer.series for answer in answers))
    questions = {answer.outcome for answer in asked}
    by_outcome: dict[Outcome, dict[str, Answer]] = {}
    for answer in answers:
        by_outcome.setdefault(answer.outcome, {})[answer.series] = answer
    found: dict[str, Any] = {"series": series, "head": [], "rest": []}
    found["held"] = list(dict.fromkeys(answer.held for answer in answers if answer.held))
    for outcome, of_outcome in by_outcome.items():
        cells = [_cell(of_outcome[name]) if name in of_outcome else None for name in series]
        row = {"title": outcome.label, "column": outcome.column, "unit": outcome.unit}
        found["head" if outcome in questions else "rest"].append({**row, "cells": cells})
    return found


def _cell(answer: Answer) -> dict[str, Any]:
    ends = dict.fromkeys((answer.smallest, answer.largest))
    levels = [(end.batch_size, _estimate(end.interval)) for end in ends]
    return {**_shared(answer), "ends": levels, "p": _p(answer) if answer.test.name else ""}


def _shared(answer: Answer) -> dict[str, Any]:
    """Returns what every table has of an answer."""
    return {
        "slope": _estimate(answer.slope),
        "verdict": answer.verdict,
        "resolved": _resolved(answer),
        "note": answer.note,
    }


def contrast(runs: pandas.DataFrame) -> dict[str, Any] | None:
    """Returns how series differ from the first, as a table: an outcome per row."""
    found = series_differences.contrast(runs) if len(runs) else None
    if found is None:
        return None
    rows = []
    for column, intervals in found.differences.items():
        cells = [
            {"difference": _estimate(each), "seeds": wording.count(each.n, "paired seed")}
            for each in intervals
        ]
        rows.append({"title": outcomes.outcome(column).label, "column": column, "cells": cells})
    return {
        "title": f"Beside {found.against}, at batch size {found.batch_size}",
        "series": found.series,
        "rows": rows,
    }


def sources(answers: list[Answer], asked: Collection[Answer] = ()) -> list[str]:
    """Returns who stated the directions, each once, in order of appearance: what is asked first."""
    questions = {answer.outcome for answer in asked}
    ordered = sorted(answers, key=lambda answer: answer.outcome not in questions)
    found = [part.strip() for answer in ordered for part in answer.outcome.source.split(";")]
    return list(dict.fromkeys(part for part in found if part))


def _row(answer: Answer, smallest: int, largest: int, references: list[str]) -> dict[str, Any]:
    low, high, asked = answer.smallest, answer.largest, answer.outcome
    cited = [part.strip() for part in asked.source.split(";") if part.strip()]
    return {
        **_shared(answer),
        "title": asked.label,
        "column": asked.column,
        "unit": asked.unit,
        "smallest": _level(low.interval, asked.column),
        "smallest_at": low.batch_size if low.batch_size != smallest else None,
        "largest": _level(high.interval, asked.column),
        "largest_at": high.batch_size if high.batch_size != largest else None,
        "seeds": wording.count(answer.pairs, "paired seed"),
        "expected": asked.direction,
        "references": [references.index(part) + 1 for part in cited],
        "p": _p(answer),
        "raw_p": _raw_p(answer) if answer.test.name else "",
    }


def _p(answer: Answer) -> str:
    """Returns the adjusted p of what the verdict says: of the contrary where that is shown."""
    if _against(answer):
        return f"{format_p(answer.test.p_against_holm)} of the contrary"
    return format_p(answer.test.p_holm)


def _raw_p(answer: Answer) -> str:
    """Returns the test, and its p where that is of the direction that the verdict says."""
    test = _TESTS[answer.test.name]
    return test if _against(answer) else f"{test} {format_p(answer.test.p)}"


def _against(answer: Answer) -> bool:
    return answer.verdict.endswith(outcome_answers.AGAINST)


def _estimate(interval: Interval) -> Estimate | None:
    return format_interval(interval.mean, interval.low, interval.high)


def _level(interval: Interval, column: str) -> Estimate | None:
    """Returns a level, whose interval is cut where the outcome cannot be."""
    ends = value_ranges.clipped(column, (interval.low, interval.high))
    return format_interval(interval.mean, *ends)
