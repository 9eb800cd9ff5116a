"""What an experiment answers to its question, in one to three sentences.

An experiment that names its figures asks what these show: their outcomes, in their order, are what
an answer is about, and no other. Of one that has all figures it is those whose names stand in the
question.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from typing import Any

from batchscope.analysis import ledger
from batchscope.analysis.advice_words import Card
from batchscope.analysis.outcome_answers import FEW_SEEDS, NOT_RESOLVED, Answer
from batchscope.report import answers, claim_rows
from batchscope.report.content import Figure

MOST = 3  # sentences
_MOST_DECIDED = 2
_FASTEST = "fastest_batch_size"
_WORD = re.compile(r"[a-z]{4,}")
_STEM = 5  # letters that tell words apart: sharper is sharpness
_COMMON = frozenset({"batch", "size", "sizes", "which", "from", "with", "train"})
_MOST_SERIES = 2  # of which a finding says all
_BY_SERIES = "by series."
_FURTHER = " further series in the figure"
_ENDS = re.compile(r"(?<=[.!?]) (?=[A-Z0-9]|tf\.)")


def relevant(question: str, figures: Sequence[Figure], named: bool) -> list[Figure]:
    """Returns the figures that an answer is about, those first whose names it asks for most."""
    words = {stem for word in _WORD.findall(question.lower()) if (stem := word[:_STEM])}

    def hits(figure: Figure) -> int:
        title = {word[:_STEM] for word in _WORD.findall(figure.title.lower())}
        return len(words & title - _COMMON)

    ordered = sorted(figures, key=hits, reverse=True)
    return ordered if named else [figure for figure in ordered if hits(figure)] or ordered


def asked(found: list[Answer], figures: Sequence[Figure]) -> list[Answer]:
    """Returns the answers about outcomes that a figure shows, in the order of the figures.

    All of them where no figure shows any.
    """
    order = list(dict.fromkeys(column for figure in figures for column in figure.columns))
    shown = [answer for answer in found if answer.outcome.column in order]
    return sorted(shown, key=lambda each: order.index(each.outcome.column)) or found


def sentences(
    found: list[Answer],
    figures: Sequence[Figure],
    spoken: Sequence[str] = (),
    more: Sequence[str] = (),
    decided: Sequence[tuple[str, str]] = (),
) -> list[tuple[str, str]]:
    """Returns the answer as pairs of what is said, and of what; the first may be empty.

    What documents state and the runs decide comes first; then, figure by figure, the verdicts on
    its outcomes, or else what it shows.

    Args:
        found: The answers of an experiment that are asked; none where they are not to be told.
        spoken: Sentences that answer it better, if there are any.
        more: Sentences that belong to it beside what figures show.
        decided: As the function of this name returns it.
    """
    most = max(0, MOST - len(more) - (len(decided) > 1))
    if spoken:
        return [*decided, *(("", text) for text in [*spoken[:most], *more])]
    told: list[tuple[str, str]] = []
    columns: set[str] = set()
    for figure in figures:
        new = [each for each in found if each.outcome.column in {*figure.columns} - columns]
        columns |= {each.outcome.column for each in new}
        verdicts = _verdicts(new)
        if verdicts and not (figure.found and _open(new)):
            told += verdicts
        elif figure.found and (new or not columns.intersection(figure.columns)):
            told.append(("", " ".join(filter(None, [first(figure.found)[0], _none(new)]))))
    few = _none(found)
    told = told or _verdicts(found) or [("", few)] * bool(few)
    return [*decided, *told[:most], *(("", text) for text in more)]


def decided(stated: Sequence[dict[str, Any]]) -> list[tuple[str, str]]:
    """Returns the first of what documents state of an experiment and its runs decide.

    Args:
        stated: Rows of the ledger, as `claim_rows.build` returns them.
    """
    rows = [row for row in stated if row["verdict"] in (ledger.HELD, ledger.NOT_HELD)]
    return [
        (row["word"], f"{row['sentence'].removesuffix('.')} ({claim_rows.in_words(row)}).")
        for row in rows[:_MOST_DECIDED]
    ]


def _verdicts(found: list[Answer]) -> list[tuple[str, str]]:
    """Returns the verdicts on outcomes: of many series, in how many each was given."""
    tested = [each for each in found if each.verdict != answers.ONE_SIZE]
    if not tested or all(FEW_SEEDS in each.verdict for each in tested):
        return []
    series = {each.series for each in tested}
    if len(series) <= MOST:
        return answers.headlines(tested)
    lines = []
    for outcome in dict.fromkeys(each.outcome for each in tested):
        counts = Counter(each.verdict for each in tested if each.outcome == outcome)
        words = [f"{verdict} in {count}" for verdict, count in counts.most_common()]
        lines.append((outcome.label, f"{', '.join(words)} of {counts.total()} series."))
    return lines


def _open(found: list[Answer]) -> bool:
    """Returns whether the seeds resolve no outcome: then values say more than verdicts."""
    return {each.verdict for each in found} == {NOT_RESOLVED}


def _none(found: list[Answer]) -> str:
    """Returns that there is no verdict, and why, where that is so."""
    if _open(found):
        return "The tests do not resolve a trend."
    few = [each.verdict for each in found if FEW_SEEDS in each.verdict]
    return f"No verdict: {few[0]}." if few else ""


def advised(card: Card, figures: Sequence[Figure]) -> list[str]:
    """Returns what an advice says to the question: its range, the fastest size, and accuracy."""
    soonest = [first(each.found)[0] for each in figures if each.name == _FASTEST and each.found]
    margins = [each for each in _ENDS.split(card.limits or "") if " stays within " in each]
    told = [card.headline, *soonest, *margins, card.budgets]
    return [text for text in told if text][:MOST]


def parts(text: str) -> list[str]:
    """Returns the sentences of a text."""
    return _ENDS.split(text) if text else []


def first(text: str) -> tuple[str, str]:
    """Returns the first sentence of a text that says something, and the rest.

    One that only announces series is not alone: of many the first and the last follow it.
    """
    lead, *others = _ENDS.split(text)
    if not lead.endswith(_BY_SERIES) or not others:
        return lead, " ".join(others)
    series = others[0].removesuffix(".").split("; ")
    cut = series[-1].endswith(_FURTHER)
    series = series[: len(series) - cut]  # the count of others is no series
    if len(series) <= _MOST_SERIES and not cut:
        return f"{lead} {others[0]}", " ".join(others[1:])
    told = f"{series[0]}; \N{HORIZONTAL ELLIPSIS}; {series[-1]}."
    return f"{lead} {told}", text
