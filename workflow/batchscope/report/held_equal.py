"""What is best where something else is held equal: rows of comparisons.csv as tables to look at."""

from __future__ import annotations

from typing import Any

import pandas

from batchscope import wording
from batchscope.analysis import run_series
from batchscope.catalogue.budget_kinds import CONVERGENCE, END, EPOCHS, SECONDS, TARGET, UPDATES
from batchscope.report.text import VERDICTS, bracketed, label, of_difference, shown

RATE = "learning_rate"
# What is paid with -> the rows that are compared at it: budget, and of a target what is taken.
_PAID = {
    EPOCHS: {EPOCHS: None},
    UPDATES: {TARGET: UPDATES, UPDATES: None},
    "examples": {TARGET: "examples"},
    SECONDS: {TARGET: SECONDS, SECONDS: None},
    CONVERGENCE: {CONVERGENCE: None, END: None},
}
MARKS = {"within": "\N{CHECK MARK}", "beyond": "\N{MULTIPLICATION SIGN}"}
Row = dict[str, Any]


def build(comparisons: pandas.DataFrame) -> list[Row]:
    """Returns for each series the tabs, each with its best batch size and rows of cells."""
    if comparisons.empty:
        return []
    found = []
    for group in run_series.series(comparisons.drop(columns=RATE, errors="ignore")):
        rows = comparisons.loc[group.frame.index]
        tabs = [_tab(paid, rows, budgets) for paid, budgets in _PAID.items()]
        if tabs := [tab for tab in tabs if tab["rows"]]:
            sizes = sorted(map(int, rows["batch_size"].unique()))
            for line in (line for tab in tabs for line in tab["rows"]):
                line["cells"] = [line["cells"].get(size) for size in sizes]
            found.append({"series": group.label, "sizes": sizes, "tabs": tabs})
    return found


def _tab(paid: str, rows: pandas.DataFrame, budgets: dict[str, str | None]) -> Row:
    lines = []
    for budget, taken in budgets.items():
        own = rows[rows["budget"] == budget]
        own = own if taken is None else own[own["outcome"] == taken]
        keys = ["budget_value", "budget_column", "outcome"]
        for _, group in own.groupby(keys, sort=False, dropna=False):
            if group["mean"].notna().any():
                lines.append(_line(group))
    return {"name": paid, "rows": lines, "best": lines[0]["best"] if lines else None}


def _line(group: pandas.DataFrame) -> Row:
    first = group.iloc[0]
    rises = first["outcome"].endswith("accuracy")
    means = group.set_index("batch_size")["mean"].astype(float).dropna()
    column = first["budget_column"]
    return {
        "budget": first["budget"],
        "value": shown(first["budget_value"]),
        "target": "" if pandas.isna(column) else wording.lower(label(column)),
        "outcome": label(first["outcome"]),
        "points": rises,
        "ratio": first["budget"] == TARGET,
        "best": int(means.idxmax() if rises else means.idxmin()),
        "cells": {int(row["batch_size"]): _cell(row) for row in group.to_dict("records")},
    }


def _cell(row: Row) -> Row:
    ends = [row["estimate"], row["low"], row["high"]]
    value, _, interval = bracketed(ends, of_difference(row["outcome"])).partition(" ")
    against = "" if pandas.isna(row["against"]) else int(row["against"])
    return {
        "verdict": row["verdict"],
        "mark": MARKS.get(row["verdict"], "?"),
        "words": VERDICTS[row["verdict"]],
        "value": value or wording.ABSENT,
        "interval": interval,
        "against": against,
    }
