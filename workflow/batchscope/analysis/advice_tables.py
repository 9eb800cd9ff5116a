"""Advice as tables: a row per series, and a row per series, limit and batch size.

The first holds the sentences too, so that report and terminal show the same ones.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import pandas

from batchscope.analysis import advice_words, run_series
from batchscope.analysis.advice import MEMORY, SECONDS, Advice, Judged, More, Reach
from batchscope.analysis.advice_words import Card

# Columns of advice.csv beside the factors of a series.
COLUMNS: dict[str, str] = {
    "seeds": "Seeds of the trainings.",
    "seeds_planned": "Seeds that the configuration planned; empty where it does not say.",
    "target": "Loss or accuracy that is to be reached, in words; empty where there is none.",
    "outcome": "Outcome that is to be kept; empty where none was measured; several, each with a "
    "margin, are separated by blanks.",
    "margin": "Largest loss of it that counts as negligible; as many.",
    "slower": "Share of the fastest batch size's seconds to the target by which one may take "
    "longer.",
    "smallest": "Smallest batch size of the recommended range; empty where there is none.",
    "largest": "Largest one.",
    "reason": "Why there is no range: no_target, no_seconds, no_outcome, too_few_seeds, "
    "rate_on_edge, none_holds (every batch size is shown to miss a limit) or none_shown (some are "
    "not resolved); several are separated by blanks.",
    "binds_first": "Limit that ends the range above: memory, seconds or outcome; empty where it "
    "reaches to the largest batch size tried.",
    "binds_next": "Limit that ends above next.",
    "max_batch_size": "Largest batch that fits into memory; empty where it was not measured.",
    "knee": "Batch size that reaches 90 % of the throughput's plateau.",
    "critical_batch_size": "Critical batch size at the target.",
    "critical_batch_size_low": "Lower end of its 95 % interval; empty where it is open.",
    "critical_batch_size_high": "Upper end.",
    "fastest_batch_size": "Fastest batch size in closed form.",
    "fastest_batch_size_low": "Lower end of its 95 % interval.",
    "fastest_batch_size_high": "Upper end.",
    "seeds_needed_low": "Further seeds that would settle the first open question with power "
    ".8, or that a verdict needs at all. First is what ends the range, and else the cheapest.",
    "seeds_needed_high": "The same with the upper 80 % bound of the standard deviation.",
    "minutes_needed_low": "Minutes of one core that these seeds take, as trainings, measures and "
    "timings of these runs took; empty where that is unknown.",
    "minutes_needed_high": "Upper end.",
    "scope": "What it holds for, in words.",
    "advice": "The advice, in words.",
    "limits": "What ends the range, and what the other limits allow, in words.",
    "not_known": "What is not resolved, and what it costs to know, in words.",
    "other_budgets": "What looks better where other things are held equal, in words.",
    "beside_the_plan": "What it means that there are other seeds than were planned, in words.",
    "overturned_by": "What would overturn it, in words.",
}
# Columns of advice_sizes.csv beside the factors of a series.
SIZES: dict[str, str] = {
    "limit": "memory, seconds (to the target) or outcome.",
    "outcome": "Which outcome, of that limit; empty where none was measured.",
    "margin": "Largest loss of it that counts as negligible.",
    "batch_size": "Examples per update.",
    "verdict": "within (one-sided paired t-tests at 5 %: every other size is better by less than "
    "the limit's margin), beyond (some other one is better by more), not_resolved, few_seeds, "
    "failed, or not_measured. Of memory: within or beyond what fits.",
    "against": "The other batch size that decides the verdict.",
    "difference": "Mean paired difference to it; of seconds, relative.",
    "difference_low": "Lower end of its 90 % t-interval, which is wider where seeds are read at "
    "different learning rates.",
    "difference_high": "Upper end.",
    "question": "The open question, in words; empty where it is settled, or is asked of the other "
    "size already.",
    "equal": "1 where the seeds would show equal sizes to be equal; 0 where a difference as large "
    "as it is measured would be distinguished from the margin.",
    "seeds_needed_low": "Further seeds that would settle it with power .8, at the level of its "
    "test.",
    "seeds_needed_high": "The same with the upper 80 % bound of the standard deviation.",
    "minutes_needed_low": "Minutes of one core that these seeds take.",
    "minutes_needed_high": "Upper end.",
}
_WHOLE = (
    "seeds",
    "seeds_planned",
    "smallest",
    "largest",
    "max_batch_size",
    "batch_size",
    "against",
    "equal",
)
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
    """Returns one row per series; see `COLUMNS`.

    Args:
        series: The series.
        factors: Columns of an experiment without any.
    """
    rows = [{**each.factors, **_row(each.advice)} for each in series]
    return _table(COLUMNS, series, rows, factors)


def sizes(series: Sequence[SeriesAdvice], factors: Iterable[str] = ()) -> pandas.DataFrame:
    """Returns one row per series, limit and batch size; see `SIZES` and `summary`."""
    rows = [
        {**each.factors, **row}
        for each in series
        for judged in each.advice.judged.values()
        for row in _size_rows(each.advice, judged)
    ]
    return _table(SIZES, series, rows, factors)


def card(row: dict[str, Any]) -> Card:
    """Returns the sentences of a row of `summary`, in memory or read from its file."""
    texts = {name: row.get(column) for column, name in _SENTENCES.items()}
    return Card(**{name: text if isinstance(text, str) else "" for name, text in texts.items()})


def _table(
    columns: dict[str, str],
    series: Sequence[SeriesAdvice],
    rows: list[dict[str, Any]],
    factors: Iterable[str],
) -> pandas.DataFrame:
    names = {name: None for each in series for name in each.factors} or dict.fromkeys(factors)
    known = run_series.factor_columns(pandas.DataFrame(columns=list(names)))
    first = [*known, *(name for name in names if name not in known)]
    frame = pandas.DataFrame(rows, columns=[*first, *columns])
    whole = [name for name in columns if name in (*_WHOLE, *_NEEDED[:2])]
    return frame.astype(dict.fromkeys(whole, "Int64"))


def _row(advice: Advice) -> dict[str, Any]:
    evidence, sentences = advice.evidence, advice_words.card(advice)
    row: dict[str, Any] = {
        "seeds": len(evidence.seeds),
        "seeds_planned": evidence.planned,
        "target": evidence.target,
        "slower": evidence.slower,
        "smallest": advice.smallest,
        "largest": advice.largest,
        "reason": " ".join(each.reason for each in advice.missing),
        "max_batch_size": evidence.memory,
        "knee": evidence.knee,
        **dict(zip(("binds_first", "binds_next"), _binding(advice.reaches), strict=False)),
        **_needed(advice.more, evidence.seed_seconds),
        "scope": evidence.scope,
        **{column: getattr(sentences, name) for column, name in _SENTENCES.items()},
    }
    if found := evidence.outcomes:
        row["outcome"] = " ".join(each.name for each in found)
        row["margin"] = " ".join(f"{each.margin:g}" for each in found)
    if fit := evidence.critical:
        row |= {
            "critical_batch_size": fit.critical_batch_size,
            "critical_batch_size_low": fit.low,
            "critical_batch_size_high": fit.high,
        }
    if best := evidence.fastest:
        row |= {
            "fastest_batch_size": best.batch_size,
            "fastest_batch_size_low": best.batch_size_low,
            "fastest_batch_size_high": best.batch_size_high,
        }
    return row


def _binding(reaches: Sequence[Reach]) -> list[str]:
    return [reach.limit for reach in reaches if reach.above is not None or reach.limit == MEMORY]


def _needed(more: More | None, seconds: float) -> dict[str, Any]:
    if more is None:
        return {}
    return dict(zip(_NEEDED, (*more[:2], *(each * seconds / 60 for each in more[:2])), strict=True))


def _size_rows(advice: Advice, of_limit: list[Judged]) -> list[dict[str, Any]]:
    rows, questions = [], advice.questions
    for judged in of_limit:
        ends = (judged.difference, judged.low, judged.high)
        if judged.limit == SECONDS:
            ends = tuple(math.expm1(end) for end in ends)
        row = {
            "limit": judged.limit,
            "batch_size": judged.batch_size,
            "verdict": judged.verdict,
            "against": judged.against,
            **dict(zip(("difference", "difference_low", "difference_high"), ends, strict=True)),
            **_needed(judged.more, advice.evidence.seed_seconds),
        }
        if judged.outcome:
            row |= {"outcome": judged.outcome.name, "margin": judged.outcome.margin}
        if any(judged is each for each in questions):
            row["question"] = advice_words.question(judged)
            row["equal"] = int(judged.more.equal)
        rows.append(row)
    return rows
