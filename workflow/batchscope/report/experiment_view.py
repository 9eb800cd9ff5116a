"""An experiment as the page shows it: its factors, its answer, and its tables."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Mapping
from itertools import chain
from typing import Any

import pandas

from batchscope import wording
from batchscope.analysis import comparisons, intervals, run_series, step_cost
from batchscope.host import requirements
from batchscope.report import rising
from batchscope.report.content import ExperimentResults
from batchscope.report.text import (
    ESTIMATE,
    bracketed,
    format_interval,
    label,
    level,
    of_difference,
    parsed,
    plain,
    unit,
    with_interval,
)
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
from batchscope.study.outcomes import LEAST_WITH_INTERVAL, RISES, Reason, Verdict
from batchscope.study.plan import PlannedExperiment
from batchscope.study.registry import OF_OUTCOMES, OF_TRAININGS
from batchscope.study.tables import clipped
from batchscope.study.versions import ENTRIES

RATE = "learning_rate"
INCREASES, DECREASES, UNCLEAR = "increases", "decreases", "unclear"
FEW_SEEDS = "few_seeds"
NOTHING_STATED: Mapping[str, str] = {}
_OF_EVERY_TRAINING = {*OF_OUTCOMES, *OF_TRAININGS}
_MOST_AT_FIRST = 6  # rows of an answer if the experiment names no primary column
# What is paid with -> the rows that are compared at it: budget, and of a target what is taken.
_PAID = {
    EPOCHS: {EPOCHS: None},
    UPDATES: {TARGET: UPDATES, UPDATES: None},
    EXAMPLES: {TARGET: EXAMPLES, EXAMPLES: None},
    SECONDS: {TARGET: SECONDS, SECONDS: None},
    CONVERGENCE: {CONVERGENCE: None, END: None},
}
_MOST_SIZES = 5  # batch sizes whose throughput is listed
# Column of sweeps.csv with an interval -> what it is shown times: seconds in ms.
_TIMED = {"knee_fitted": 1, "fixed_seconds": 1000, "seconds_per_image": 1000}
_MEASURED = ("by_size", "blocks", "memory_mb_per_image", "max_batch_size")
Row = dict[str, Any]


def build(
    found: ExperimentResults, cards: list[Row], stated: Mapping[str, str] = NOTHING_STATED
) -> Row:
    """Return the parts of an experiment that the page shows.

    Args:
        cards: The cards of the study, of `decision.cards`.
        stated: Column -> direction of its trend in a document, of the study's claims.
    """
    experiment, tables = found.experiment, found.tables
    own = [card for card in cards if card["experiment"] == experiment.name]
    answer, rest = _answer(experiment, trends(tables.trends, stated))
    compared = equal(tables.comparisons)
    return {
        "id": f"experiment-{experiment.name}",
        "plan": experiment,
        "finished": any(row["status"] == records.FINISHED for row in found.rows),
        "varied": _varied(found),
        "timings": [name.replace("_", " ") for name in experiment.timings],
        "runs": len(found.rows),
        "cards": own,
        "rising": rising.of_experiment(tables),
        "answer": answer,
        "sentence": _sentence(answer),
        "winners": _winners(compared) if not answer and len(compared) == 1 else [],
        "rest": rest,
        "equal": compared,
        "machine": timings(tables.sweeps, tables.throughput),
        "figures": found.figures,
    }


def trends(table: pandas.DataFrame, stated: Mapping[str, str] = NOTHING_STATED) -> list[Row]:
    """Return the rows of trends.csv with the words of their series and their numbers as text.

    Series with the same numbers share a row: times do not depend on the learning rate.
    """
    found = []
    groups = run_series.series(table) if len(table) else []
    for group in groups:
        for at, row in group.frame.to_dict("index").items():
            row |= {"series": group.label, "change": _change(row), **_texts(row)}
            found.append((at, {**row, "document": _agreement(row, stated)}))
    shared: dict[tuple[str, ...], list[Row]] = {}
    for _, row in sorted(found, key=lambda pair: pair[0]):
        key = (row["outcome"], row["budget"], *row["means"], row["slope"])
        shared.setdefault(key, []).append(row)
    rows = []
    for several in shared.values():
        labels = [] if len(several) == len(groups) > 1 else [row["series"] for row in several]
        rows.append({**several[0], "series": wording.listed(labels)})
    return rows


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


def _agreement(row: Row, stated: Mapping[str, str]) -> str:
    """Return whether a change at the end of the runs agrees with the study's documents."""
    direction = stated.get(row["outcome"]) if row["budget"] == END else None
    if not direction or row["change"] not in (INCREASES, DECREASES):
        return ""
    return "agrees" if (row["change"] == INCREASES) == (direction == RISES) else "disagrees"


def _texts(row: Row) -> Row:
    """Return a trend's means, its change per doubling and their units."""
    column, ratio = row["outcome"], row["outcome"] in TAKEN
    ends = ("smallest", "largest")
    means = [[row[f"{end}_mean{part}"] for part in intervals.ENDS] for end in ends]
    how = unit(column, [mean[0] for mean in means])
    points = of_difference(column) != wording.PLAIN
    change = wording.PLAIN if ratio else of_difference(column) if points else how
    slope = with_interval([row[name] for name in ESTIMATE], row["n"])
    return {
        "unit": how.suffix.strip(),
        "means": [level(column, with_interval(mean, row["seeds"]), how) for mean in means],
        "slope": bracketed(slope, change),
        "slope_unit": change.suffix.strip(),
        "ratio": ratio,
    }


def _answer(experiment: PlannedExperiment, rows: list[Row]) -> tuple[list[Row], list[Row]]:
    """Return the rows that answer an experiment's question, and the others."""
    at_end = [row for row in rows if row["budget"] == END]
    asked = _primary(experiment, list(dict.fromkeys(row["outcome"] for row in at_end)))
    answer = [row for outcome in asked for row in at_end if row["outcome"] == outcome]
    answer = answer if experiment.keys.primary else answer[:_MOST_AT_FIRST]
    return answer, [row for row in rows if row not in answer]


def _primary(experiment: PlannedExperiment, outcomes: list[str]) -> list[str]:
    """Return the outcomes that an experiment's question is about.

    An experiment that names no primary columns asks about the outcomes of the figures that it
    names, or else of its measures. Every training has an evaluation and a time, so these count
    only if it measures nothing else. They do not count if several learning rates were tried,
    because batch sizes are then compared at the best rate of each.
    """
    if experiment.keys.primary:
        return list(experiment.keys.primary)
    measures = experiment.measures
    special = [name for name in measures if name not in _OF_EVERY_TRAINING]
    columns = {column for name in special for column in ENTRIES[name].columns_for(measures[name])}
    measured = [outcome for outcome in outcomes if outcome in columns]
    tuned = len(experiment.vary.get(RATE, ())) > 1
    drawn = [
        outcome
        for figure in experiment.keys.figures
        for outcome in (measured if tuned else outcomes)
        if FIGURES[figure].shows(outcome)
    ]
    return list(dict.fromkeys(drawn)) or measured or ([] if tuned else outcomes)


def _sentence(answer: list[Row]) -> list[tuple[str, list[str]]]:
    """Return each kind of change with the outcomes that show it, in the order of the rows.

    An outcome with several settings or series that all change alike is named once.
    """
    changes: dict[str, set[str]] = {}
    for row in answer:
        changes.setdefault(_stem(row), set()).add(row["change"])
    names: dict[str, dict[str, None]] = {}
    for row in answer:
        whole = wording.lower(label(row["outcome"])) + wording.aside(row["series"])
        name = _stem(row) if len(changes[_stem(row)]) == 1 else whole
        names.setdefault(row["change"], {})[name] = None
    return [(change, list(several)) for change, several in names.items()]


def _stem(row: Row) -> str:
    return wording.lower(label(row["outcome"])).partition(" (")[0]


def equal(compared: pandas.DataFrame) -> list[Row]:
    """Return the comparisons at equal budgets: for each series tabs of rows.

    A row has a cell of comparisons.csv per batch size. A tab has the winner of its first row.
    """
    found = []
    kept = compared.drop(columns=RATE, errors="ignore")
    for group in run_series.series(kept) if len(kept) else ():
        rows = compared.loc[group.frame.index]
        sizes = sorted(map(int, rows["batch_size"].unique()))
        tabs = {paid: [*_lines(rows, budgets, sizes)] for paid, budgets in _PAID.items()}
        shown = [
            {"name": paid, "rows": lines, "winner": _winner(lines[0]["cells"])}
            for paid, lines in tabs.items()
            if lines
        ]
        found += [{"series": group.label, "sizes": sizes, "tabs": shown}] if shown else []
    return found


def _winners(compared: list[Row]) -> list[tuple[int | None, list[str]]]:
    """Return each batch size that wins with the names of the tabs, those without a winner last."""
    names: dict[int | None, list[str]] = {}
    for tab in compared[0]["tabs"]:
        names.setdefault(tab["winner"], []).append(tab["name"])
    return sorted(names.items(), key=lambda item: item[0] is None)


def _winner(cells: list[Row | None]) -> int | None:
    """Return the batch size that all others are worse than; None if any may be as good."""
    left = [cell for cell in cells if cell and not _loses(cell)]
    beaten = len([cell for cell in cells if cell]) > len(left)
    return int(left[0]["batch_size"]) if len(left) == 1 and beaten else None


def _loses(cell: Row) -> bool:
    failed = cell["reason"] in (Reason.FAILED, Reason.NOT_REACHED)
    return cell["verdict"] == Verdict.BEYOND or failed


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


def timings(sweeps: pandas.DataFrame, throughput: pandas.DataFrame) -> Row | None:
    """Returns what was timed of each configuration, as sweeps.csv has it; None where nothing was.

    A configuration that waits for what is not here is among `left_out` alone.
    """
    found: dict[str, list[Row]] = {"configurations": [], "left_out": []}
    measured = False
    for group in run_series.series(sweeps.assign(batch_size=0, seed=0)) if len(sweeps) else ():
        for row in group.frame.to_dict("records"):
            timed = _timed(row, group.label, throughput)
            there = not timed.keys().isdisjoint(_MEASURED)
            waits = not there and timed.get("status") in requirements.LABELS
            found["left_out" if waits else "configurations"].append(timed)
            measured |= there
    return {**found, "levels": _levels(found["configurations"])} if measured else None


def _levels(configurations: list[Row]) -> list[tuple[str, list[str]]]:
    """Return how throughput ends at the largest batch sizes, with the titles of configurations."""
    titles: dict[str, list[str]] = {"levels_off": [], "rises": [], "noisy": []}
    for timed in configurations:
        if timed["noisy"]:
            titles["noisy"].append(timed["title"])
        elif timed["rising"]:
            titles["rises"].append(timed["title"])
        elif timed["knee_fitted"] or "knee_batch_size" in timed:
            titles["levels_off"].append(timed["title"])
    return [(level, several) for level, several in titles.items() if several]


def _timed(row: Row, label: str, throughput: pandas.DataFrame) -> Row:
    """Returns what is known of a configuration: numbers with an interval as estimates."""
    known = {name: value for name, value in row.items() if not pandas.isna(value)}
    known["fits"] = all(known.get(name, 0) > 0 for name in ("fixed_seconds", "seconds_per_image"))
    for name, times in _TIMED.items():
        values = [float(known.get(name + end, math.nan)) for end in intervals.ENDS]
        known[name] = format_interval(*(times * each for each in clipped(name, values)))
    known["noisy"] = step_cost.too_noisy(known.get("noise_floor"))
    known["rising"] = str(row.get("still_rising")) == "True"
    same = throughput["machine"].eq(row["machine"]) & throughput["sweep"].eq(row["sweep"])
    speeds = throughput[same].set_index("batch_size")["examples_per_second"].dropna().sort_index()
    if len(speeds):
        shown = {round((len(speeds) - 1) * at / (_MOST_SIZES - 1)) for at in range(_MOST_SIZES)}
        known["by_size"] = list(speeds.iloc[sorted(shown)].items())
    return {"title": label or f"{row['model']} on {row['dataset']}", **known}


def _varied(found: ExperimentResults) -> str:
    """Returns `batch size 16 to 256; seed 0 to 5`."""
    rows = found.rows or [
        {"batch_size": size, **sweep.factors}
        for sweep in found.experiment.sweeps
        for size in sweep.batch_sizes
    ]
    values: dict[str, set[str]] = {}
    for name, value in chain.from_iterable(row.items() for row in rows):
        if value != "" and (name in run_factors.EVERY_FACTOR or own_columns.is_own(name)):
            values.setdefault(name, set()).add(plain(value))
    return "; ".join(
        f"{name.removeprefix(own_columns.OWN).replace('_', ' ')} {_values(name, several)}"
        for name, several in values.items()
        if len(several) > 1
    )


def _values(factor: str, values: Collection[str]) -> str:
    """Returns the values of a factor; of whole numbers in succession a range: `0 to 5, 8`."""
    if factor in ("batch_size", "seed"):
        whole = format_sizes(sorted(map(int, values)))
        return whole.replace("_", ", ").replace("-", " to ")
    if len(values) > 12:
        return f"{len(values)} values"
    ordered = sorted(values, key=lambda text: (parsed(text) is None, parsed(text) or 0, text))
    return ", ".join(factor_words.value_words(factor, value) for value in ordered)
