"""The context of an experiment: its factors, its answer, and its tables."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from itertools import chain
from typing import Any

import pandas

from batchscope import wording
from batchscope.analysis import comparisons, intervals, run_series
from batchscope.report import batch_schedules, text, timing_section
from batchscope.report.content import ExperimentResults
from batchscope.store import records
from batchscope.study import factor_words, own_columns, run_factors, tasks
from batchscope.study.budget_kinds import (
    CONVERGENCE,
    END,
    EPOCHS,
    EXAMPLES,
    SECONDS,
    TAKEN,
    TARGET,
    UPDATES,
)
from batchscope.study.figures import FIGURES
from batchscope.study.names import format_sizes
from batchscope.study.outcomes import LEAST_WITH_INTERVAL, Reason, Verdict
from batchscope.study.plan import PlannedExperiment
from batchscope.study.registry import OF_OUTCOMES, OF_TRAININGS
from batchscope.study.versions import ENTRIES

RATE = "learning_rate"
INCREASES, DECREASES, UNCLEAR = "increases", "decreases", "unclear"
FEW_SEEDS = "few_seeds"
_MOST_AT_FIRST = 6  # rows of an answer if the experiment names no primary column
# Tab -> the budgets of its rows, with the one outcome of a target.
_PAID = {
    EPOCHS: {EPOCHS: None},
    UPDATES: {TARGET: UPDATES, UPDATES: None},
    EXAMPLES: {TARGET: EXAMPLES, EXAMPLES: None},
    SECONDS: {TARGET: SECONDS, SECONDS: None},
    CONVERGENCE: {CONVERGENCE: None, END: None},
}
Row = dict[str, Any]


def build(results: ExperimentResults, cards: list[Row]) -> Row:
    """Return the parts of an experiment; `cards` come from `decision.cards`."""
    experiment, tables = results.experiment, results.tables
    answer, rest = _answer(experiment, trends(tables.trends))
    words = (word for run in list(experiment.commands.values())[:1] for word in run.command.words)
    return {
        "id": f"experiment-{experiment.name}",
        "plan": experiment,
        "finished": any(row["status"] == records.FINISHED for row in results.rows),
        "varied": _varied(results),
        "source": experiment.external_runs.path if experiment.external_runs else " ".join(words),
        "timings": [name.replace("_", " ") for name in experiment.timings],
        "runs": len(results.rows),
        "cards": [card for card in cards if card["experiment"] == experiment.name],
        "rising": batch_schedules.of_experiment(tables),
        "answer": answer,
        "sentence": _sentence(answer),
        "rest": rest,
        "equal": equal(tables.comparisons),
        "machine": timing_section.build(tables.sweeps, tables.throughput),
        "figures": results.figures,
    }


def trends(table: pandas.DataFrame) -> list[Row]:
    """Return the rows of trends.csv with the words of their series and their numbers as text.

    Series with the same numbers share a row: times do not depend on the learning rate.
    """
    groups = run_series.series(table) if len(table) else []
    rows = {}
    for group in groups:
        for at, row in group.frame.to_dict("index").items():
            rows[at] = {**row, "series": group.label, "change": _change(row), **_texts(row)}
    shared: dict[tuple[str, ...], list[Row]] = {}
    for at in sorted(rows):
        row = rows[at]
        key = (row["outcome"], row["budget"], *row["means"], row["slope"])
        shared.setdefault(key, []).append(row)
    merged = []
    for same in shared.values():
        labels = [] if len(same) == len(groups) > 1 else [row["series"] for row in same]
        merged.append({**same[0], "series": wording.listed(labels)})
    return merged


def _change(row: Row) -> str:
    """Return the sign of a trend by its interval, which also decides the verdict."""
    if row["verdict"] == Verdict.NOT_TESTABLE:
        return Verdict.NOT_TESTABLE
    if row["n"] < LEAST_WITH_INTERVAL:
        return FEW_SEEDS
    no_change = 1.0 if row["outcome"] in TAKEN else 0.0
    if row["low"] > no_change:
        return INCREASES
    return DECREASES if row["high"] < no_change else UNCLEAR


def _texts(row: Row) -> Row:
    """Return a trend's means, its change per doubling and their units."""
    column, ratio = row["outcome"], row["outcome"] in TAKEN
    ends = ("smallest", "largest")
    means = [[row[f"{end}_mean{part}"] for part in intervals.ENDS] for end in ends]
    how = text.unit(column, [mean[0] for mean in means])
    points = text.of_difference(column) != wording.PLAIN
    change = wording.PLAIN if ratio else text.of_difference(column) if points else how
    slope = text.with_interval([row[name] for name in text.ESTIMATE], row["n"])
    return {
        "unit": how.suffix.strip(),
        "means": [
            text.level(column, text.with_interval(mean, row["seeds"]), how) for mean in means
        ],
        "slope": text.bracketed(slope, change),
        "slope_unit": change.suffix.strip(),
        "ratio": ratio,
    }


def _answer(experiment: PlannedExperiment, rows: list[Row]) -> tuple[list[Row], list[Row]]:
    """Return the rows that answer an experiment's question, and the others.

    An experiment that names no primary columns asks about the outcomes of the figures that it
    names, or else of its measures. Every training has an evaluation and a time, so these count
    only if it measures nothing else. They do not count if several learning rates were tried,
    because batch sizes are then compared at the best rate of each.
    """
    at_end = [row for row in rows if row["budget"] == END]
    if experiment.keys.primary:
        named = experiment.keys.primary
        answer = [row for outcome in named for row in at_end if row["outcome"] == outcome]
        return answer, [row for row in rows if row not in answer]
    outcomes = list(dict.fromkeys(row["outcome"] for row in at_end))
    special = {*experiment.measures} - {*OF_OUTCOMES, *OF_TRAININGS}
    columns = {
        column
        for name in special
        for column in ENTRIES[name].columns_for(experiment.measures[name])
    }
    measured = [outcome for outcome in outcomes if outcome in columns]
    usual = measured if len(experiment.vary.get(RATE, ())) > 1 else outcomes
    figures = [FIGURES[name] for name in experiment.keys.figures]
    drawn = [outcome for figure in figures for outcome in usual if figure.shows(outcome)]
    asked = list(dict.fromkeys(drawn)) or measured or usual
    answer = [row for outcome in asked for row in at_end if row["outcome"] == outcome]
    answer = answer[:_MOST_AT_FIRST]
    return answer, [row for row in rows if row not in answer]


def _sentence(answer: list[Row]) -> list[tuple[str, list[str]]]:
    """Return each kind of change with the outcomes that show it, in the order of the rows.

    An outcome is named once if all its settings and series have the same change.
    """
    changes: dict[str, set[str]] = {}
    for row in answer:
        changes.setdefault(_stem(row), set()).add(row["change"])
    names: dict[str, dict[str, None]] = {}
    for row in answer:
        name = wording.lower(text.label(row["outcome"])) + wording.aside(row["series"])
        name = _stem(row) if len(changes[_stem(row)]) == 1 else name
        names.setdefault(row["change"], {})[name] = None
    return [(change, list(several)) for change, several in names.items()]


def _stem(row: Row) -> str:
    return wording.lower(text.label(row["outcome"])).partition(" (")[0]


def equal(compared: pandas.DataFrame) -> list[Row]:
    """Return the comparisons at equal budgets: for each series tabs of rows.

    A row has a cell of comparisons.csv per batch size. A tab has the winner of its first row.
    """
    groups = []
    without_rate = compared.drop(columns=RATE, errors="ignore")
    for series in run_series.series(without_rate) if len(compared) else ():
        rows = compared.loc[series.frame.index]
        sizes = sorted(map(int, rows["batch_size"].unique()))
        tabs = {paid: list(_lines(rows, budgets, sizes)) for paid, budgets in _PAID.items()}
        shown = [
            {"name": paid, "rows": lines, "winner": _winner(lines[0]["cells"])}
            for paid, lines in tabs.items()
            if lines
        ]
        if shown:
            groups.append({"series": series.label, "sizes": sizes, "tabs": shown})
    return groups


def _winner(cells: list[Row | None]) -> int | None:
    """Return the batch size that all others are worse than; None if any may be as good."""
    known = [cell for cell in cells if cell]
    failed = (Reason.FAILED, Reason.NOT_REACHED)
    left = [
        cell for cell in known if cell["verdict"] != Verdict.BEYOND and cell["reason"] not in failed
    ]
    return int(left[0]["batch_size"]) if len(left) == 1 < len(known) else None


def _lines(
    rows: pandas.DataFrame, budgets: dict[str, str | None], sizes: list[int]
) -> Iterator[Row]:
    for budget, taken in budgets.items():
        own = rows[(rows["budget"] == budget) & ((rows["outcome"] == taken) | (taken is None))]
        keys = ["budget_value", "budget_column", "outcome"]
        for (_, _, outcome), line in own.groupby(keys, sort=False, dropna=False):
            best = comparisons.best(line)
            if best is not None:
                cells = {row["batch_size"]: row for row in line.to_dict("records")}
                shares = tasks.is_share(outcome)
                shown = {"shares": shares, "best": best, "cells": [*map(cells.get, sizes)]}
                yield {**line.iloc[0], **shown}


def _varied(results: ExperimentResults) -> str:
    """Return the factors with several values: `batch size 16 to 256; seed 0 to 5`."""
    rows = results.rows or [
        {"batch_size": size, **sweep.factors}
        for sweep in results.experiment.sweeps
        for size in sweep.batch_sizes
    ]
    values: dict[str, set[str]] = {}
    for name, value in chain.from_iterable(row.items() for row in rows):
        if value != "" and (name in run_factors.EVERY_FACTOR or own_columns.is_own(name)):
            values.setdefault(name, set()).add(text.plain(value))
    return "; ".join(
        f"{name.removeprefix(own_columns.OWN).replace('_', ' ')} {_values(name, several)}"
        for name, several in values.items()
        if len(several) > 1
    )


def _values(factor: str, values: Collection[str]) -> str:
    """Return the values of a factor; consecutive integers as a range: `0 to 5, 8`."""
    if factor in ("batch_size", "seed"):
        sizes = format_sizes(sorted(map(int, values)))
        return sizes.replace("_", ", ").replace("-", " to ")
    if len(values) > 12:
        return f"{len(values)} values"
    numbers = {value: text.parsed(value) for value in values}
    ordered = sorted(values, key=lambda value: (numbers[value] is None, numbers[value] or 0, value))
    return ", ".join(factor_words.value_words(factor, value) for value in ordered)
