"""An experiment as the page shows it: what was varied, its answer, and its tables."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator
from itertools import chain
from typing import Any

import pandas

from batchscope import wording
from batchscope.analysis import comparisons, intervals, run_series, step_cost
from batchscope.catalogue import factor_words, own_columns, run_factors, sweep_names, tasks
from batchscope.catalogue.budget_kinds import (
    CONVERGENCE,
    END,
    EPOCHS,
    EXAMPLES,
    SECONDS,
    TAKEN,
    TARGET,
    UPDATES,
)
from batchscope.catalogue.run_names import ENTRIES
from batchscope.catalogue.tables import clipped
from batchscope.host import absence
from batchscope.report import rising
from batchscope.report.content import ExperimentResults
from batchscope.report.text import (
    ESTIMATE,
    bracketed,
    format_interval,
    level,
    of_difference,
    parsed,
    plain,
    unit,
)
from batchscope.store import records
from batchscope.study.plan import Experiment

RATE = "learning_rate"
_MOST_AT_FIRST = 4  # rows of an answer whose experiment states no primary column
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


def build(found: ExperimentResults, cards: list[Row]) -> Row:
    """Returns what the page shows of an experiment, given what `decision.cards` returns."""
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
        "rising": rising.of_experiment(tables),
        "answer": answer,
        "rest": rest,
        "equal": equal(tables.comparisons),
        "machine": timings(tables.sweeps, tables.throughput),
        "figures": found.figures,
    }


def trends(table: pandas.DataFrame) -> list[Row]:
    """Returns the rows of trends.csv with words for their series, and their numbers as texts."""
    found = []
    for group in run_series.series(table) if len(table) else ():
        rows = group.frame.to_dict("index")
        found += [(at, {**row, "series": group.label, **_texts(row)}) for at, row in rows.items()]
    return [row for _, row in sorted(found, key=lambda each: each[0])]


def _texts(row: Row) -> Row:
    """Returns a trend's means, its change per doubling and their units."""
    column, ratio = row["outcome"], row["outcome"] in TAKEN
    ends = ("smallest", "largest")
    means = [[row[f"{end}_mean{part}"] for part in intervals.ENDS] for end in ends]
    how = unit(column, [each[0] for each in means])
    points = of_difference(column) != wording.PLAIN
    change = wording.PLAIN if ratio else of_difference(column) if points else how
    return {
        "unit": how.suffix.strip(),
        "means": [level(column, each, how) for each in means],
        "change": bracketed([row[name] for name in ESTIMATE], change),
        "change_unit": change.suffix.strip(),
        "ratio": ratio,
        "stated": row["direction"] if row["budget"] == END else "",
    }


def _answer(experiment: Experiment, rows: list[Row], decided: bool) -> tuple[list[Row], list[Row]]:
    """Returns the rows that answer an experiment's question, and the others.

    Args:
        decided: Whether it has a card, which answers it where it states no primary column.
    """
    measured = (ENTRIES[name].columns for name in experiment.trainings.measures)
    asked = [
        row
        for column in experiment.primary or dict.fromkeys(chain.from_iterable(measured))
        for row in rows
        if row["outcome"] == column and row["budget"] == END
    ]
    asked = asked if experiment.primary else asked[: 0 if decided else _MOST_AT_FIRST]
    return asked, [row for row in rows if row not in asked]


def equal(compared: pandas.DataFrame) -> list[Row]:
    """Returns what is best where something else is held equal: for each series tabs of rows.

    Each tab and row has its best batch size; a row is of comparisons.csv, with a cell per size.
    """
    found = []
    kept = compared.drop(columns=RATE, errors="ignore")
    for group in run_series.series(kept) if len(kept) else ():
        rows = compared.loc[group.frame.index]
        sizes = sorted(map(int, rows["batch_size"].unique()))
        tabs = {paid: [*_lines(rows, budgets, sizes)] for paid, budgets in _PAID.items()}
        shown = [
            {"name": paid, "rows": lines, "best": lines[0]["best"]}
            for paid, lines in tabs.items()
            if lines
        ]
        found += [{"series": group.label, "sizes": sizes, "tabs": shown}] if shown else []
    return found


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
            waits = not there and timed.get("status") in absence.WORDS
            found["left_out" if waits else "configurations"].append(timed)
            measured |= there
    return found if measured else None


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
        for sweep in found.experiment.times.sweeps
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
        whole = sweep_names.format_sizes(sorted(map(int, values)))
        return whole.replace("_", ", ").replace("-", " to ")
    if len(values) > 12:
        return f"{len(values)} values"
    ordered = sorted(values, key=lambda text: (parsed(text) is None, parsed(text) or 0, text))
    return ", ".join(factor_words.value_words(factor, value) for value in ordered)
