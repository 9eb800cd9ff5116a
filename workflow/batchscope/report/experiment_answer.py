"""What an experiment answers to its question, in one to three sentences.

An experiment that names its figures asks what these show: their outcomes, in their order, are what
an answer is about, and no other. Of one that has all figures it is those whose names stand in the
question.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

from batchscope import wording
from batchscope.catalogue.outcomes import Verdict
from batchscope.report import answers, claim_rows, topics
from batchscope.report.answers import Answer
from batchscope.report.content import Figure

MOST = 3  # sentences
_MOST_DECIDED = 2
_MOST_SERIES = 3  # of which an answer has a sentence each
_FASTEST = "fastest_batch_size"
_FEW_SEEDS = (Verdict.PROVISIONAL, Verdict.ONE_SEED)
_WORD = re.compile(r"[a-z]{4,}")
_STEM = 5  # letters that distinguish words: sharper is sharpness
# Beginnings of words that say nothing of what is asked.
_COMMON = frozenset(
    _WORD.findall(
        "after batch does each every from have here into many more most much over size sizes take "
        "takes than that their them there these they this train what when where which with"
    )
)
# The series that sentences up to the next one are about.
_LED = re.compile(r"(?!By series|Step times)[^:(]{1,80}: ")
_INTERVAL = re.compile("interval|quartiles")
_ENDS = re.compile(r"(?<=[.!?]) (?=[A-Z0-9]|tf\.)")


def relevant(
    question: str,
    figures: Sequence[Figure],
    named: bool,
    elsewhere: Sequence[tuple[str, Figure]] = (),
) -> list[Figure]:
    """Returns the figures that answer a question, each with what of its finding answers it.

    Those of the topics that the question asks for, in its order; of one topic also those of the
    study's other experiments, which come with these' titles. Without a topic, those first in whose
    names most of its words stand, with their first sentences.
    """
    found = []
    for topic in topics.asked(question):
        own = _shown(topic, [("", figure) for figure in figures])
        found += (own or _shown(topic, elsewhere if topic.elsewhere else ()))[:1]
    words = _stems(question)

    def hits(figure: Figure) -> int:
        return len(words & _stems(figure.title))

    ordered = sorted(figures, key=hits, reverse=True)
    if not named:
        ordered = [figure for figure in ordered if hits(figure)] or ordered
    return found or [replace(figure, found=first(figure.found)[0]) for figure in ordered]


def _shown(topic: Any, figures: Sequence[tuple[str, Figure]]) -> list[Figure]:
    """Returns the figures of a topic, with what they state of it, the best first."""
    found = []
    for name in topic.figures:
        for title, figure in figures:
            text = _matching(figure.found, topic.pattern)
            if figure.name == name and (text or not topic.pattern):
                led = f"In \u201c{title}\u201d: {wording.lower(text)}" if title else text
                found.append(replace(figure, found=led))
    return found


def _matching(finding: str, pattern: str) -> str:
    """Returns the sentences of a finding that match, each with its series; the first of any."""
    if not pattern:
        return first(finding)[0]
    found: dict[str, str] = {}
    label = ""
    for sentence in parts(finding):
        lead = _LED.match(sentence)
        label = lead[0] if lead else label
        if re.search(pattern, sentence):
            led = sentence if lead or not label else label + wording.lower(sentence)
            found.setdefault(label, led)
    return " ".join([*found.values()][:_MOST_SERIES])


def compares(question: str, factors: Iterable[str]) -> bool:
    """Returns whether a question names a factor that distinguishes series: it compares them."""
    return bool(_stems(question) & _stems(" ".join(factors)))


def _stems(text: str) -> set[str]:
    """Returns the beginnings of the words of a text, but for those that stand everywhere."""
    words = {word[:_STEM] for word in _WORD.findall(text.lower())} - _COMMON
    return {word.removesuffix("s") for word in words}


def asked(found: list[Answer], figures: Sequence[Figure]) -> list[Answer]:
    """Returns the answers about outcomes of figures, in their order; all if they show none."""
    order = list(dict.fromkeys(column for figure in figures for column in figure.columns))
    shown = [answer for answer in found if answer.outcome.column in order]
    return sorted(shown, key=lambda each: order.index(each.outcome.column)) or found


def sentences(
    found: list[Answer],
    figures: Sequence[Figure],
    spoken: Sequence[str] = (),
    more: Sequence[str] = (),
    decided: Sequence[dict[str, Any]] = (),
    compared: bool = False,
) -> list[tuple[str, str]]:
    """Returns the answer as pairs of a verdict and a text; the verdict may be empty.

    What documents state and the runs decide comes first; then, figure by figure, the verdicts on
    its outcomes, or else what it shows.

    Args:
        found: The answers of an experiment that are asked; none where they are not to be reported.
        figures: As `relevant` returns them.
        spoken: Sentences that answer it better, if there are any.
        more: Sentences that belong to it beside what figures show.
        decided: As the function of this name returns it.
        compared: Whether it is asked how series differ, rather than what each of them does.
    """
    pairs: list[tuple[str, str]] = []
    columns: set[str] = set()
    known = {row["figure"] for row in decided[:1]}  # more of these comes last
    for figure in sorted(figures, key=lambda each: each.name in known):
        new = [each for each in found if each.outcome.column in {*figure.columns} - columns]
        columns |= {each.outcome.column for each in new}
        new = [each for each in new if each.outcome.label.lower() in figure.found.lower()] or new
        verdicts, beside = _verdicts(new), len({each.series for each in new}) > 1
        apart = bool(_INTERVAL.search(figure.found))
        shows = apart and (compared or not beside)
        if verdicts and not shows and not (figure.found and _open(new)):
            pairs += verdicts
        elif figure.found and (new or not columns.intersection(figure.columns)):
            verdict, none = ("", "") if apart and beside else (_resolved(new), _none(new))
            pairs.append((verdict, " ".join(filter(None, [figure.found, none]))))
    few = _none(found)
    pairs = pairs or _verdicts(found) or [("", few)] * bool(few)
    pairs = [("", text) for text in spoken] or pairs
    stated = [
        (row["word"], f"{row['sentence'].removesuffix('.')} ({claim_rows.in_words(row)}).")
        for row in decided[: max(1, MOST - 1 - len(more))]
    ]
    most = max(0, MOST - len(more) - len(stated))
    return [*stated, *pairs[:most], *(("", text) for text in more)]


def decided(
    stated: Sequence[dict[str, Any]], question: str, figures: Sequence[Figure] = ()
) -> list[dict[str, Any]]:
    """Returns what documents state of a question and the runs decide, each of something new in it.

    First what the figures show that its question asks for, then what has the words of the question
    that few others have; what shares no word with the question does not answer it.
    """
    names = {figure.name for figure in figures}
    # Names of what is compared, which have a capital letter, are in many of them.
    plain = " ".join(word for word in question.split() if not word[0].isupper())
    left, found = _stems(plain) or _stems(question), []
    common = Counter(stem for row in stated for stem in _stems(row["sentence"]))

    def rare(row: dict[str, Any]) -> float:
        return sum(1 / common[stem] for stem in left & _stems(row["sentence"]))

    for row in sorted(stated, key=lambda row: (row["figure"] not in names, -rare(row))):
        shared = left & _stems(row["sentence"])
        if row["verdict"] in (Verdict.SUPPORTED, Verdict.CONTRADICTED) and shared:
            left -= shared
            found.append(row)
    return found[:_MOST_DECIDED]


def _resolved(found: list[Answer]) -> str:
    """Returns the verdict on a figure's first outcome where it is a direction, and its budget."""
    if not found or not (found[0].resolved or found[0].against):
        return ""
    return wording.capital(", ".join(filter(None, [found[0].words, found[0].held])))


def _verdicts(found: list[Answer]) -> list[tuple[str, str]]:
    """Returns the verdicts on outcomes: of many series, in how many each was given."""
    tested = [each for each in found if each.verdict != Verdict.NOT_TESTABLE]
    if all(each.verdict in _FEW_SEEDS for each in tested):
        return []
    series = {each.series for each in tested}
    if len(series) <= MOST:
        return answers.headlines(tested)
    lines = []
    for outcome in dict.fromkeys(each.outcome for each in tested):
        counts = Counter(each.words for each in tested if each.outcome == outcome)
        words = [f"{verdict} in {count}" for verdict, count in counts.most_common()]
        lines.append((outcome.label, f"{', '.join(words)} of {counts.total()} series."))
    return lines


def _open(found: list[Answer]) -> bool:
    """Returns whether the seeds resolve no outcome: then values say more than verdicts."""
    return {each.verdict for each in found} == {Verdict.NOT_RESOLVED}


def _none(found: list[Answer]) -> str:
    """Returns that there is no verdict, and why, where that is so."""
    if _open(found):
        return "These seeds do not resolve a trend."
    few = [each.words for each in found if each.verdict in _FEW_SEEDS]
    return f"{wording.capital(few[0])}." if few else ""


def advised(headline: str, figures: Sequence[Figure]) -> list[str]:
    """Returns what an advice says to the question: its headline, and the fastest size."""
    soonest = [first(each.found)[0] for each in figures if each.name == _FASTEST and each.found]
    return [f"{headline}.", *soonest][:MOST]


def parts(text: str) -> list[str]:
    """Returns the sentences of a text."""
    return _ENDS.split(text) if text else []


def first(text: str) -> tuple[str, str]:
    """Returns the first sentence of a text, and the rest."""
    lead, *others = _ENDS.split(text)
    return lead, " ".join(others)
