"""An experiment as the page shows it: what was varied, its answer, its tables and figures."""

from __future__ import annotations

from collections.abc import Collection
from itertools import chain
from typing import Any

import pandas

from batchscope import wording
from batchscope.analysis import run_series
from batchscope.catalogue import factor_words, own_columns, sweep_names
from batchscope.catalogue.budget_kinds import END, TARGET
from batchscope.catalogue.measure_settings import ENTRIES
from batchscope.report import held_equal, machine_answer
from batchscope.report.content import ExperimentResults
from batchscope.report.text import (
    VERDICTS,
    bracketed,
    label,
    level,
    of_difference,
    parsed,
    plain,
    shown,
    unit,
)
from batchscope.store import records
from batchscope.study.plan import Experiment

_MOST_AT_FIRST = 4  # rows of an answer whose experiment states no primary column
Row = dict[str, Any]


def build(found: ExperimentResults, cards: list[Row]) -> Row:
    """Returns what the page shows of an experiment, its figures apart.

    Args:
        cards: What `decision.cards` returns of the study.
    """
    experiment, tables = found.experiment, found.tables
    own = [card for card in cards if card["experiment"] == experiment.name]
    answer, rest = _answer(experiment, trends(tables.trends), bool(own))
    return {
        "id": f"experiment-{experiment.name}",
        "plan": experiment,
        "finished": any(row["status"] == records.FINISHED for row in found.rows),
        "varied": _varied(found),
        "timings": [name.replace("_", " ") for name in experiment.times.timings],
        "runs": len(found.rows),
        "cards": own,
        "answer": answer,
        "rest": rest,
        "equal": held_equal.build(tables.comparisons),
        "machine": machine_answer.build(tables.sweeps, tables.throughput),
    }


def trends(table: pandas.DataFrame) -> list[Row]:
    """Returns the rows of trends.csv as texts, with words for their series."""
    found = {}
    for group in run_series.series(table) if len(table) else ():
        for index, row in table.loc[group.frame.index].iterrows():
            found[index] = _trend(row, group.label)
    return [found[index] for index in sorted(found)]


def _trend(row: pandas.Series, series: str) -> Row:
    column, ratio = row["outcome"], row["budget"] == TARGET
    means = [
        [row[f"{end}_mean{part}"] for part in ("", "_low", "_high")]
        for end in ("smallest", "largest")
    ]
    how = unit(column, [each[0] for each in means])
    change = wording.PLAIN if ratio else of_difference(column)
    change = how if change == wording.PLAIN and not ratio else change
    low, high = row["smallest"], row["largest"]
    return {
        "series": series,
        "column": column,
        "label": label(column),
        "unit": how.suffix.strip(),
        "budget": row["budget"],
        "value": shown(row["budget_value"]),
        "ratio": ratio,
        "smallest": "" if pandas.isna(low) else int(low),
        "largest": "" if pandas.isna(high) else int(high),
        "means": [level(column, each, how) for each in means],
        "change": bracketed([row["estimate"], row["low"], row["high"]], change),
        "change_unit": "" if ratio else change.suffix.strip(),
        "estimate": 0.0 if pandas.isna(row["estimate"]) else row["estimate"] - ratio,
        "n": int(row["n"]),
        "stated": row["direction"] if row["budget"] == END else "",
        "source": "" if pandas.isna(row["source"]) else row["source"],
        "verdict": row["verdict"],
        "words": VERDICTS[row["verdict"]],
    }


def _answer(experiment: Experiment, rows: list[Row], decided: bool) -> tuple[list[Row], list[Row]]:
    """Returns the rows that answer an experiment's question, and the others.

    Args:
        decided: Whether it has a card, which answers it where it states no primary column.
    """
    measured = [
        column for name in experiment.trainings.measures for column in ENTRIES[name].columns
    ]
    order = list(dict.fromkeys([*experiment.primary, *measured]))
    asked = [
        row
        for column in experiment.primary or order
        for row in rows
        if row["column"] == column and row["budget"] == END
    ]
    asked = asked if experiment.primary else asked[: 0 if decided else _MOST_AT_FIRST]
    return asked, [row for row in rows if row not in asked]


def _varied(found: ExperimentResults) -> str:
    """Returns `batch size 16 to 256; seed 0 to 5`."""
    times = found.experiment.times
    rows = found.rows or [
        {"batch_size": size, **sweep.factors}
        for sweep in times.sweeps
        for size in sweep.batch_sizes
    ]
    values: dict[str, set[str]] = {}
    for name, value in chain.from_iterable(row.items() for row in rows):
        if value != "" and (name in sweep_names.EVERY_FACTOR or own_columns.is_own(name)):
            values.setdefault(name, set()).add(plain(value))
    return "; ".join(
        f"{name.removeprefix(own_columns.OWN).replace('_', ' ')} {_values(name, several)}"
        for name, several in values.items()
        if len(several) > 1
    )


def _values(factor: str, values: Collection[str]) -> str:
    """Returns the values of a factor; of whole numbers in succession a range: `0 to 5, 8`."""
    if factor in ("batch_size", "seed"):
        whole = sweep_names.format_sizes(sorted(map(int, values)))
        return whole.replace("_", ", ").replace("-", " to ")
    if len(values) > 12:
        return f"{len(values)} values"
    ordered = sorted(values, key=lambda text: (parsed(text) is None, parsed(text) or 0, text))
    return ", ".join(factor_words.value_words(factor, value) for value in ordered)
