"""The answers of an experiment: its trends at each training's own end, in words."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import pandas

from batchscope import wording
from batchscope.analysis import run_series, seed_pairs, training_ends, trends
from batchscope.analysis.intervals import ENDS, Interval
from batchscope.catalogue import outcomes, value_ranges
from batchscope.catalogue.budget_kinds import END
from batchscope.catalogue.outcomes import FALLS, LEAST_SEEDS, RISES, Outcome, Reason, Verdict
from batchscope.report.text import format_interval, format_p
from batchscope.wording import Estimate

READING = (
    "Values are means over seeds with 95 % intervals by Student's t, cut where no value can "
    "be; every seed has a timing job of its own. Paired seeds are those with a value at every "
    "batch size; they alone are compared. The change per doubling is the mean of their slopes "
    "against the base-2 logarithm of the batch size, with Student's t-interval of these slopes. "
    "The verdict is read off it: \u201crises\u201d or \u201cfalls\u201d is said where it lies on "
    "one side of 0. Each end is a one-sided bound at the level beside p, so that of the trends of "
    f"an experiment that are said to rise or fall {wording.percent(outcomes.LEVEL, 0)} on average "
    "are wrong at most (false discovery rate, Benjamini and Hochberg). Fewer than "
    f"{LEAST_SEEDS} paired seeds say nothing that is more than provisional. \u201cNot "
    "resolved\u201d means that these seeds do not show it, and not that there is no difference."
)
DIFFERENCES = (
    "Means over seeds of the difference in pairs of runs with the same seed, with 95 % intervals "
    "by Student's t. No verdict: nobody stated a direction for them beforehand."
)
_GROWS = "as the batch size grows"
_OPPOSITE = {RISES: FALLS, FALLS: RISES}
_HELD = {
    "target_train_loss": "at an equal training loss",
    "epochs_run": "at equal epochs",
    "steps_run": "at equal updates",
}
_UNTESTABLE = {Reason.ALONE: "one batch size", Reason.LOWER_BOUND: "lower bounds alone"}


class Level(NamedTuple):
    """An outcome, its mean over seeds, at one end of a series' batch sizes."""

    batch_size: int
    interval: Interval


@dataclass(frozen=True)
class Answer:
    """A row of trends.csv, with words for its series, and for what was equal at all batch sizes.

    Attributes:
        p: Of what the verdict says: of the contrary where it is contradicted.
    """

    outcome: Outcome
    series: str
    held: str
    smallest: Level
    largest: Level
    slope: Interval
    level: float
    p: float
    verdict: Verdict
    reason: Reason
    note: str

    @property
    def resolved(self) -> bool:
        """Whether it goes as was stated."""
        return self.verdict == Verdict.SUPPORTED

    @property
    def against(self) -> bool:
        """Whether it goes against what was stated."""
        return self.verdict == Verdict.CONTRADICTED

    @property
    def words(self) -> str:
        """The verdict in words."""
        direction = self.outcome.direction
        return {
            Verdict.SUPPORTED: direction,
            Verdict.CONTRADICTED: f"{_OPPOSITE[direction]}, against what was stated",
            Verdict.PROVISIONAL: f"provisional, {self.slope.n} of {LEAST_SEEDS} seeds",
            Verdict.NOT_TESTABLE: _UNTESTABLE.get(self.reason, "not testable"),
        }.get(self.verdict, self.verdict.replace("_", " "))


def read(table: pandas.DataFrame, runs: pandas.DataFrame) -> list[Answer]:
    """Returns the rows of trends.csv at the end of the trainings, in order."""
    if table.empty:
        return []
    found, rows = {}, table[table["budget"] == END]
    for group in run_series.series(runs):
        held = held_equal(group.frame)
        for index, row in run_series.of(rows, group.factors).iterrows():
            found[index] = _answer(row, group, held)
    return [found[index] for index in sorted(found)]


def _answer(row: pandas.Series, group: run_series.Series, held: str) -> Answer:
    source = "" if pandas.isna(row["source"]) else row["source"]
    outcome = outcomes.stated(row["outcome"], row["direction"], source)
    reason = Reason("" if pandas.isna(row["reason"]) else row["reason"])
    ends = [
        Level(int(row[name]), Interval(*(row[f"{name}_mean{end}"] for end in ENDS)))
        for name in ("smallest", "largest")
    ]
    return Answer(
        replace(outcome, source=source),
        group.label,
        held,
        *ends,
        slope=Interval(row["estimate"], row["low"], row["high"], int(row["n"])),
        level=row["level"],
        p=row["p_against" if row["verdict"] == Verdict.CONTRADICTED else "p"],
        verdict=Verdict(row["verdict"]),
        reason=reason,
        note=_note(row, reason, group.frame),
    )


def _note(row: pandas.Series, reason: Reason, runs: pandas.DataFrame) -> str:
    """Returns what a reader must know beside the verdict, or an empty string."""
    notes, several = [], row["smallest"] < row["largest"]
    sizes = {size for size in runs["batch_size"] if not row["smallest"] <= size <= row["largest"]}
    if sizes:
        notes.append(f"no value at batch size {', '.join(map(str, sorted(sizes)))}")
    if row["outcome"] in trends.UNTIL_STOPPED and (counts := training_ends.ran_out(runs)):
        notes.append(f"{_ran_out(counts)}, so that its mean is a lower bound")
    if several and row["n"] < row["seeds"]:
        notes.append(f"{row['n']} of {row['seeds']} seeds have a value at every batch size")
    if reason == Reason.NOT_AT_EVERY_STEP:
        notes.append("not at every step")
    return "; ".join(notes)


def held_equal(rows: pandas.DataFrame) -> str:
    """Returns what the finished runs of a series have in common where their trainings ended.

    `at equal epochs (40)`, or `at each run's own end (patience 10)`.
    """
    column, value = training_ends.held_equal(rows)
    if column in _HELD:
        return f"{_HELD[column]} ({wording.shortest(value)})"
    return f"at each run's own end{f' (patience {value:.0f})' if column else ''}"


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
    tested = [answer for answer in answers if answer.verdict != Verdict.NOT_TESTABLE]
    lines: dict[str, list[str]] = {}
    for answer in sorted(tested, key=lambda answer: not answer.resolved):
        verdict, said = answer.words, wording.lower(answer.outcome.label)
        if answer.resolved:
            verdict, said = _GROWS, f"{said} {_does(answer.outcome)}"
        change = slope(answer) if answer.resolved or answer.against else ""
        if beside := "; ".join(filter(None, [answer.series, change])):
            said += f" ({beside})"
        lines.setdefault(", ".join(filter(None, [verdict, answer.held])), []).append(said)
    return lines


def _does(outcome: Outcome) -> str:
    """Returns what an outcome does, of several as of one: `epochs ... rise`, `loss ... rises`."""
    noun = outcome.label.split()[0]
    several = noun.endswith("s") and not noun.endswith("ss")
    return outcome.direction.removesuffix("s") if several else outcome.direction


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
    return {**_shared(answer), "ends": levels}


def _shared(answer: Answer) -> dict[str, Any]:
    """Returns what every table has of an answer."""
    return {
        "slope": _estimate(answer.slope),
        "verdict": answer.words,
        "resolved": answer.resolved,
        "p": _p(answer),
        "note": answer.note,
    }


def contrast(runs: pandas.DataFrame) -> dict[str, Any] | None:
    """Returns how series differ from the first, as a table: an outcome per row."""
    found = seed_pairs.differences(runs) if len(runs) else None
    if found is None:
        return None
    rows = []
    for column, intervals in found.of.items():
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
        "seeds": wording.count(answer.slope.n, "paired seed"),
        "expected": asked.direction,
        "references": [references.index(part) + 1 for part in cited],
        "level": f"level {wording.number(answer.level)}" if answer.level > 0 else "",
    }


def _p(answer: Answer) -> str:
    """Returns the p of what the verdict says; nothing where nothing was tested."""
    if pandas.isna(answer.p):
        return ""
    return f"{format_p(answer.p)} of the contrary" if answer.against else format_p(answer.p)


def _estimate(interval: Interval) -> Estimate | None:
    return format_interval(interval.mean, interval.low, interval.high)


def _level(interval: Interval, column: str) -> Estimate | None:
    """Returns a level, whose interval is cut where the outcome cannot be."""
    ends = value_ranges.clipped(column, (interval.low, interval.high))
    return format_interval(interval.mean, *ends)


def _ran_out(counts: dict[int, tuple[int, int]]) -> str:
    """Returns `3 of 6 at batch size 256 ran ...` of what `training_ends.ran_out` returned."""
    parts = [f"{some} of {all_} at batch size {size}" for size, (some, all_) in counts.items()]
    return f"{', '.join(parts)} ran to the last epoch that they may"
