"""Advice as tables: a row per series, and a row per series, limit and batch size.

The first holds the sentences too, so that report and terminal show the same ones.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import pandas

from batchscope.analysis import advice_words, intervals, run_series, to_target_tables
from batchscope.analysis.advice import MEMORY, SECONDS, Advice, Judged, More
from batchscope.analysis.advice_words import Card
from batchscope.catalogue.decision_columns import ADVICE, ADVICE_SIZES
from batchscope.catalogue.entries import Column

_NEEDED = ("seeds_needed_low", "seeds_needed_high", "minutes_needed_low", "minutes_needed_high")
_SENTENCES = {
    "advice": "headline",
    "limits": "limits",
    "not_known": "unknown",
    "other_budgets": "budgets",
    "beside_the_plan": "look",
    "overturned_by": "overturned",
}


class SeriesAdvice(NamedTuple):
    """A series, by the factors that distinguish it, and its advice."""

    factors: dict[str, Any]
    advice: Advice


def summary(series: Sequence[SeriesAdvice], factors: Iterable[str] = ()) -> pandas.DataFrame:
    """Returns one row per series; see `ADVICE`. An experiment without any has these factors."""
    rows = [{**each.factors, **_row(each.advice)} for each in series]
    return _table(ADVICE, series, rows, factors)


def sizes(series: Sequence[SeriesAdvice], factors: Iterable[str] = ()) -> pandas.DataFrame:
    """Returns one row per series, limit and batch size; see `ADVICE_SIZES` and `summary`."""
    rows = [
        {**each.factors, **row}
        for each in series
        for judged in each.advice.judged.values()
        for row in _size_rows(each.advice, judged)
    ]
    return _table(ADVICE_SIZES, series, rows, factors)


def card(row: dict[str, Any]) -> Card:
    """Returns the sentences of a row of `summary`, in memory or read from its file."""
    texts = {name: row.get(column) for column, name in _SENTENCES.items()}
    return Card(**{name: text if isinstance(text, str) else "" for name, text in texts.items()})


def _table(
    columns: dict[str, Column],
    series: Sequence[SeriesAdvice],
    rows: list[dict[str, Any]],
    factors: Iterable[str],
) -> pandas.DataFrame:
    names = [name for each in series for name in each.factors] or factors
    return run_series.table(rows, columns, to_target_tables.factors_first(names))


def _row(advice: Advice) -> dict[str, Any]:
    evidence, sentences = advice.evidence, advice_words.card(advice)
    limits = [each.limit for each in advice.reaches if each.above or each.limit == MEMORY]
    row: dict[str, Any] = {
        "seeds": len(evidence.seeds),
        "seeds_planned": evidence.planned,
        "target": evidence.to_target.target,
        "slower": evidence.to_target.slower,
        "smallest": advice.smallest,
        "largest": advice.largest,
        "reason": " ".join(each.reason for each in advice.missing),
        "max_batch_size": evidence.limits.memory,
        "knee": evidence.limits.knee,
        **dict(zip(("binds_first", "binds_next"), limits, strict=False)),
        **_needed(advice.more, evidence.seed_seconds),
        "scope": evidence.scope,
        **{column: getattr(sentences, name) for column, name in _SENTENCES.items()},
        **to_target_tables.constants_found(evidence.to_target.critical, evidence.to_target.fastest),
    }
    if found := evidence.outcomes:
        row["outcome"] = " ".join(each.name for each in found)
        row["margin"] = " ".join(f"{each.margin:g}" for each in found)
    return row


def _needed(more: More | None, seconds: float) -> dict[str, Any]:
    if more is None:
        return {}
    return dict(zip(_NEEDED, (*more[:2], *(each * seconds / 60 for each in more[:2])), strict=True))


def _size_rows(advice: Advice, of_limit: list[Judged]) -> list[dict[str, Any]]:
    rows, questions = [], advice.questions
    for judged in of_limit:
        ends = judged.difference[:3]
        if judged.limit == SECONDS:
            ends = tuple(math.expm1(end) for end in ends)
        row = {
            "limit": judged.limit,
            "batch_size": judged.batch_size,
            "verdict": judged.verdict,
            "against": judged.against,
            **intervals.columns("difference", ends),
            **_needed(judged.more, advice.evidence.seed_seconds),
        }
        if judged.outcome:
            row |= {"outcome": judged.outcome.name, "margin": judged.outcome.margin}
        if any(judged is each for each in questions):
            row["question"] = advice_words.question(judged)
            row["equal"] = int(judged.more.equal)
        rows.append(row)
    return rows
