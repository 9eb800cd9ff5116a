"""Trends with the batch size: rows of trends.csv -> rows with their numbers as text.

`answering_rows` selects the rows that answer the question of an experiment.
"""

from __future__ import annotations

from typing import Any

import pandas

from batchscope.analysis import intervals, run_series
from batchscope.analysis.chosen_rates import RATE
from batchscope.core import display
from batchscope.report import text
from batchscope.study.budget_kinds import COSTS, END
from batchscope.study.figures import FIGURES
from batchscope.study.outcomes import MIN_SEEDS_FOR_INTERVAL, Verdict
from batchscope.study.plan import PlannedExperiment
from batchscope.study.registry import ENTRIES, OUTCOME_MEASURES, TRAINING_TIMINGS

INCREASES, DECREASES, UNCLEAR = "increases", "decreases", "unclear"
FEW_SEEDS = "few_seeds"
_MAX_ANSWERS = 6  # An answer has more rows only if the experiment names primary columns.
Row = dict[str, Any]


def build(table: pandas.DataFrame) -> list[Row]:
    """Return the rows with the words of their series and their numbers as text.

    Series with the same numbers share a row, for example times at several learning rates.
    """
    series = run_series.split_series(table) if len(table) else []
    labels = {position: group.label for group in series for position in group.frame.index}
    rows_by_numbers: dict[tuple[str, ...], list[Row]] = {}
    for position, row in table.to_dict("index").items():
        row |= {"series": labels[position], "change": _change(row), **_texts(row)}
        key = (row["outcome"], row["budget"], *row["means"], row["slope"])
        rows_by_numbers.setdefault(key, []).append(row)
    merged = []
    for same in rows_by_numbers.values():
        names = [] if len(same) == len(series) > 1 else [row["series"] for row in same]
        merged.append({**same[0], "series": display.listed(names)})
    return merged


def _change(row: Row) -> str:
    """Return the sign of a trend by its interval, which also decides the verdict."""
    if row["verdict"] == Verdict.NOT_TESTABLE:
        return Verdict.NOT_TESTABLE
    if row["n"] < MIN_SEEDS_FOR_INTERVAL:
        return FEW_SEEDS
    no_change = 1.0 if row["outcome"] in COSTS else 0.0
    if row["low"] > no_change:
        return INCREASES
    return DECREASES if row["high"] < no_change else UNCLEAR


def _texts(row: Row) -> Row:
    """Return a trend's means, its change per doubling and their units."""
    column, is_ratio = row["outcome"], row["outcome"] in COSTS
    means = [
        [row[f"{size}_mean{end}"] for end in intervals.SUFFIXES] for size in ("smallest", "largest")
    ]
    unit = text.unit(column, [mean[0] for mean in means])
    points = text.difference_unit(column)
    change = display.PLAIN if is_ratio else points if points != display.PLAIN else unit
    slope = text.with_interval([row[name] for name in text.ESTIMATE], row["n"])
    return {
        "unit": unit.suffix.strip(),
        "means": [
            text.level(column, text.with_interval(mean, row["seeds"]), unit) for mean in means
        ],
        "slope": text.bracketed(slope, change),
        "slope_unit": change.suffix.strip(),
        "ratio": is_ratio,
    }


def answering_rows(experiment: PlannedExperiment, rows: list[Row]) -> list[Row]:
    """Return the rows that answer an experiment's question: the trends of its primary columns.

    Without primary columns they are the outcomes of the figures that it names, or else of its
    measures. Every training has an evaluation and a time, so these count only if a figure shows
    them, or if the experiment measures nothing else. They never count if a batch size has several
    learning rates, because batch sizes are then compared at the best rate of each.
    """
    at_end = [row for row in rows if row["budget"] == END]
    if primary := experiment.keys.primary:
        return [row for outcome in primary for row in at_end if row["outcome"] == outcome]
    outcomes = list(dict.fromkeys(row["outcome"] for row in at_end))
    columns = {
        column
        for name in {*experiment.measures} - {*OUTCOME_MEASURES, *TRAINING_TIMINGS}
        for column in ENTRIES[name].columns_for(experiment.measures[name])
    }
    measured = [outcome for outcome in outcomes if outcome in columns]
    allowed = measured if _has_several_rates(experiment) else outcomes
    figures = [FIGURES[name] for name in experiment.keys.figures]
    shown = [outcome for figure in figures for outcome in allowed if figure.shows(outcome)]
    outcomes = dict.fromkeys(shown or measured or ([] if columns else allowed))
    rows = [row for outcome in outcomes for row in at_end if row["outcome"] == outcome]
    return rows[:_MAX_ANSWERS]


def _has_several_rates(experiment: PlannedExperiment) -> bool:
    if len(experiment.vary.get(RATE, ())) > 1:
        return True
    runs = [{**run, "seed": 0} for run in experiment.runs.values()]
    configurations = {tuple(run.values()) for run in runs}
    return len(configurations) > len({tuple({**run, RATE: 0}.values()) for run in runs})


def outcomes_by_change(answers: list[Row]) -> list[tuple[str, list[str]]]:
    """Return each kind of change with the outcomes that have it, in the order of the rows."""
    names: dict[str, dict[str, None]] = {}
    for row in answers:
        name = display.lower(text.label(row["outcome"])) + display.aside(row["series"])
        names.setdefault(row["change"], {})[name] = None
    return [(change, list(outcomes)) for change, outcomes in names.items()]
