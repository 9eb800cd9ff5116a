"""The card of one series: rows of advice.csv and comparisons.csv -> values for the templates.

`build` lists the fields of a card. `recommendation` builds the cards of a study.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from typing import Any

import pandas

from batchscope.analysis import advice_series, intervals, run_series, verdicts
from batchscope.analysis.advice import BASELINE, RATE_ON_EDGE, Headline, Item
from batchscope.analysis.expectations import COUNTED, EPOCH_SECONDS, PATIENCE
from batchscope.core import display
from batchscope.figures import FigureTables
from batchscope.report import text, training_code
from batchscope.study import budget_kinds, factor_words, tasks
from batchscope.study.budget_kinds import COSTS, EPOCHS, EXAMPLES, SECONDS, TARGET, UPDATES
from batchscope.study.decision_columns import ADVICE
from batchscope.study.outcomes import MIN_SEEDS, MIN_SEEDS_FOR_INTERVAL, Reason, Verdict

RATE = "learning_rate"
_SCOPE = ("model", "dataset", "optimizer", "device")
_MEAN = [f"mean{end}" for end in intervals.SUFFIXES]
# Columns of the table of batch sizes: title, cost, and budget of the comparison.
_COST_COLUMNS = (
    ("Time to target", SECONDS, TARGET),
    ("Examples to target", EXAMPLES, TARGET),
    ("Time", SECONDS, EXAMPLES),
)
Row = dict[str, Any]


def build(advice: pandas.DataFrame, factors: Row, tables: FigureTables) -> Row:
    """Return the card of one series.

    Args:
        advice: Its rows of advice.csv.
        factors: The factors that distinguish the series.
    """
    rows_by_item = {item: _advice_rows(advice[advice["item"] == item]) for item in Item}
    (recommendation,), limits = rows_by_item[Item.RECOMMENDATION], rows_by_item[Item.LIMIT]
    best = recommendation if recommendation["batch_size"] else None
    compared = advice_series.select_factors(tables.comparisons, factors)
    runs = advice_series.select_factors(tables.runs, factors)
    sizes = _sizes(recommendation)
    names = dict.fromkeys(row["name"] for row in limits if row["batch_size"])
    checks = _merged_checks(rows_by_item[Item.CHECK])
    expected = [row for row in rows_by_item[Item.EXPECTATION] if _is_size(row, best)]
    best_runs = _runs_of_best(best, runs)
    stop = _training_length(expected, checks, best, best_runs)
    table = _size_table(rows_by_item[Item.SIZE], best, compared, rows_by_item[Item.EXPECTATION])
    scope = {name: factors[name] for name in _SCOPE if pandas.notna(factors.get(name))}
    return {
        "headline": recommendation["headline"],
        "best": best,
        "n": recommendation["n"],
        "few": recommendation["n"] < MIN_SEEDS_FOR_INTERVAL,
        "min_seeds": MIN_SEEDS,
        "about": display.listed(sizes),
        "others": [size for size in sizes if best and size != best["batch_size"]],
        "edges": [row for row in rows_by_item[Item.CHECK] if row["name"] == RATE_ON_EDGE],
        "baseline": next((row for row in checks if row["name"] == BASELINE), None),
        "task": tasks.from_columns(compared["outcome"])[0],
        "rates": rows_by_item[Item.RATE],
        "expected": [row for row in expected if row["name"] not in (*COUNTED, EPOCH_SECONDS)],
        "stop": stop,
        "code": _keras_code(best_runs, stop),
        "scope": [factor_words.describe({name: value}) for name, value in scope.items()],
        "reached": _cost_to_target(compared, best["batch_size"], names) if best else None,
        "outcomes": [
            _sizes_by_verdict(name, compared, sizes)
            for name in sorted(names, key=COSTS.__contains__)
        ],
        "sizes": table,
        "lines": _aligned_lines(table),
        "checks": checks,
        "limits": limits,
        "suggestions": rows_by_item[Item.SUGGESTION],
    }


def _advice_rows(advice: pandas.DataFrame) -> list[Row]:
    """Return rows of advice.csv, completed by texts of their numbers; a missing value is None."""
    typed = run_series.with_integer_columns(advice, ADVICE).astype(object)
    return [{**row, **_texts(row)} for row in typed.where(typed.notna(), None).to_dict("records")]


def _sizes(row: Row) -> list[int]:
    # A single size in a column is read from the file as a number: 16.0.
    return [int(float(size)) for size in str(row["sizes"] or "").split()]


def _texts(row: Row) -> Row:
    minutes, name = row["minutes_to_resolve"], str(row["name"])
    unit = text.difference_unit(name) if row["item"] == Item.LIMIT else display.PLAIN
    interval = text.bracketed([row[end] for end in text.ESTIMATE], unit)
    return {
        "rate": "" if row[RATE] is None else display.shortest(float(row[RATE])),
        "shown": _expectation_text(row) if row["item"] == Item.EXPECTATION else interval,
        "cost": "" if minutes is None else display.duration(60 * float(minutes)),
    }


def _expectation_text(row: Row) -> str:
    """Return the mean over seeds with its interval, or the range for counts and for few seeds."""
    name, numbers = row["name"], [row[end] for end in text.ESTIMATE]
    unit = display.PLAIN if name in COUNTED else text.unit(name, numbers[:1])
    if name not in COUNTED and row["n"] >= MIN_SEEDS_FOR_INTERVAL:
        return text.level(name, numbers, unit) + unit.suffix
    digits = 2 if name in COUNTED else 3
    mean, low, high = (display.number(unit.times * number, digits) for number in numbers)
    return mean + unit.suffix + display.aside(f"{low} to {high}" if low != high else "")


def _runs_of_best(best: Row | None, runs: pandas.DataFrame) -> pandas.DataFrame:
    """Return the finished runs of the recommended size and rate."""
    if not best:
        return runs.iloc[:0]
    factors = {name: best[name] for name in ("batch_size", RATE)}
    return advice_series.select_factors(run_series.finished_runs(runs), factors)


def _training_length(
    expected: Sequence[Row], checks: Sequence[Row], best: Row | None, runs: pandas.DataFrame
) -> Row:
    """Return how long to train: the epochs or updates, and whether to stop early.

    Args:
        runs: The runs of the recommended size and rate.
    """
    by_name = {row["name"]: row for row in expected}
    used = by_name.get(EPOCHS) or by_name.get(UPDATES)
    if not used:
        return {}
    falling = (row["sizes"] for row in checks if row["name"] == "still_falling")
    falls = any(best["batch_size"] in sizes for sizes in falling)
    last = math.ceil(used["high"]) if used["name"] == EPOCHS else None
    patience = int(by_name[PATIENCE]["high"]) if PATIENCE in by_name and not falls else None
    if patience and len(runs):
        # Runs may have stopped early.
        patience = int(next(iter(runs.get("patience", ())), 0) or patience)
        last = int(runs[EPOCHS].max()) if EPOCHS in runs else last
    return {
        **used,
        "falls": falls,
        "early": used["key"] == budget_kinds.CONVERGENCE and not falls,
        "patience": patience,
        "last": last,
    }


def _keras_code(runs: pandas.DataFrame, stop: Row) -> list[str]:
    """Return the recommended training as lines of Keras."""
    if runs.empty:
        return []
    return training_code.keras_lines(runs.iloc[0].to_dict(), stop.get("last"), stop.get("patience"))


def _comparisons_at(compared: pandas.DataFrame, outcome: str, *budgets: str) -> pandas.DataFrame:
    """Return the comparisons of an outcome at the first budget that has means."""
    outcome_rows = compared[compared["outcome"] == outcome].set_index("batch_size", drop=False)
    frames = [outcome_rows[outcome_rows["budget"] == budget] for budget in budgets]
    return max(frames, key=lambda frame: (frame["mean"].notna().any(), len(frame) > 0))


def _cost_to_target(compared: pandas.DataFrame, best: int, limits: Collection[str]) -> Row | None:
    """Return the cost of the best size to the target, in seconds unless examples rank the sizes."""
    for cost in (SECONDS, EXAMPLES, UPDATES)[EXAMPLES in limits :]:
        costs = _comparisons_at(compared, cost, TARGET, EXAMPLES)
        if best in costs.index and pandas.notna(costs.loc[best, "mean"]):
            row = costs.loc[best]
            unit = text.unit(cost, [row["mean"]])
            jobs = f"n = {text.integer(row['reached'])}" if cost == SECONDS else ""
            mean = text.bracketed(row[_MEAN], unit) + unit.suffix
            return {**row, "name": cost, "shown": mean + display.aside(jobs)}
    return None


def _sizes_by_verdict(name: str, compared: pandas.DataFrame, sizes: Sequence[int]) -> Row:
    """Return the batch sizes by verdict on one outcome; `equal` if all `sizes` are within."""
    ends = budget_kinds.end_kinds(compared["budget"].unique())
    compared = _comparisons_at(
        compared, name, *(budget_kinds.COST_KINDS if name in COSTS else ends)
    )
    by_verdict = {kind: [] for kind in (Verdict.WITHIN, Verdict.BEYOND, "failed", "open")}
    by_size = verdicts.verdicts_of_intervals(compared)
    for size, verdict, reason in zip(compared.index, by_size, compared["reason"], strict=True):
        kind = "failed" if reason in (Reason.FAILED, Reason.NOT_REACHED) else verdict
        by_verdict[kind if kind in by_verdict else "open"].append(int(size))
    unit = display.Unit(" %", 100.0) if name in COSTS else text.difference_unit(name)
    return {
        **by_verdict,
        "label": text.label(name),
        "is_cost": name in COSTS,
        "equal": {*sizes} <= {*by_verdict[Verdict.WITHIN]},
        "margin": text.margin(compared["margin"].iloc[0], unit),
    }


def _size_table(
    sizes: Sequence[Row], best: Row | None, compared: pandas.DataFrame, expected: Sequence[Row]
) -> Row:
    """Return the table with a row per batch size: its verdict, and the columns that have values."""
    columns = {"Learning rate": {row["batch_size"]: row["rate"] for row in sizes}}
    for title, cost, budget in _COST_COLUMNS:
        costs = _comparisons_at(compared, cost, budget)
        unit = text.unit(cost, costs["mean"])
        texts = {int(size): text.level(cost, row[_MEAN], unit) for size, row in costs.iterrows()}
        columns[title + display.aside(unit.suffix.strip())] = texts
    for row in expected:
        if row["name"] not in (PATIENCE, SECONDS):
            columns.setdefault(text.label(row["name"]), {})[row["batch_size"]] = row["shown"]
    columns = {title: texts for title, texts in columns.items() if any(texts.values())}
    recommended = best is not None and best["headline"] == Headline.RECOMMENDED
    by_size = verdicts.verdicts_of_intervals(pandas.DataFrame(sizes))
    return {
        "heads": list(columns),
        "rows": [
            {
                **row,
                "verdict": verdict,
                "verdict_words": _verdict_words(row, verdict, best, compared),
                # No size is highlighted if none is distinguished or within every margin.
                "inside": _is_size(row, best)
                and (recommended or best["verdict"] == Verdict.WITHIN),
                "cells": [texts.get(row["batch_size"], "") for texts in columns.values()],
            }
            for row, verdict in zip(sizes, by_size, strict=True)
        ],
    }


def _is_size(row: Row, best: Row | None) -> bool:
    return best is not None and row["batch_size"] == best["batch_size"]


def _verdict_words(row: Row, verdict: str, best: Row | None, compared: pandas.DataFrame) -> str:
    """Return the verdict on a batch size in words, with the outcome that decides about it."""
    if _is_size(row, best):
        several = best["headline"] == Headline.NOT_DISTINGUISHED
        return "best measured" if several and best["verdict"] != Verdict.WITHIN else "recommended"
    if row["reason"] == Reason.NOT_REACHED:
        size = compared[compared["batch_size"] == row["batch_size"]]
        costs = size[(size["budget"] == TARGET) & (size["outcome"] != SECONDS)]
        epochs, reached = text.integer(size["epochs_run"].max()), costs["reached"].max()
        seeds = f"{text.integer(reached)} of {text.integer(costs['seeds'].max())} seeds"
        phrase = f"{seeds} reached the target" if reached > 0 else "target not reached"
        return f"{phrase} in {epochs} epochs" if epochs else phrase
    if verdict == Verdict.BEYOND and row["name"] == SECONDS:
        return "slower than the margin allows"
    phrase = "runs failed" if row["reason"] == Reason.FAILED else text.VERDICTS[verdict]
    decides = row["name"] and verdict != Verdict.WITHIN
    return f"{phrase}: {display.lower(text.label(row['name']))}" if decides else phrase


def _merged_checks(check_rows: Sequence[Row]) -> list[Row]:
    """Merge the rows of each check, with its batch sizes, and sort those that passed last.

    The sizes are those that failed, or those that were checked; a check of all sizes has none.
    """
    checks: dict[str, Row] = {}
    for row in check_rows:
        state = {1: "passed", 0: "failed"}.get(row["passed"], "open")
        check = checks.setdefault(row["name"], {**row, "state": state, "sizes": _sizes(row)})
        if check["batch_size"]:
            check["sizes"].append(row["batch_size"])
    return sorted(checks.values(), key=lambda row: row["state"] == "passed")


def _aligned_lines(table: Row) -> list[str]:
    """Return the table of batch sizes as aligned lines for the terminal."""
    lines = [["Batch size", *table["heads"], "Verdict"]]
    for row in table["rows"]:
        cells = [cell or display.ABSENT for cell in row["cells"]]
        lines.append([row["batch_size"], *cells, row["verdict_words"]])
    frame = pandas.DataFrame(lines).map(" {}".format)
    return frame.to_string(index=False, header=False).splitlines()
