"""Comparisons at equal budgets: rows of comparisons.csv -> tabs of rows for each series."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import pandas

from batchscope.analysis import comparisons, run_series
from batchscope.study import tasks
from batchscope.study.budget_kinds import CONVERGENCE, COSTS, END, EPOCHS, TARGET
from batchscope.study.outcomes import Reason, Verdict

# Tab -> kind of budget -> outcome of its rows, all outcomes if empty.
_TABS: dict[str, dict[str, str]] = {
    EPOCHS: {EPOCHS: ""},
    **{cost: {TARGET: cost, cost: ""} for cost in COSTS},
    CONVERGENCE: {CONVERGENCE: "", END: ""},
}
Row = dict[str, Any]


def build(compared: pandas.DataFrame) -> list[Row]:
    """Return each series with a tab per kind of budget; a row has a comparison per batch size.

    The winner of a tab is the winner of its first row.
    """
    groups = []
    without_rate = compared.drop(columns="learning_rate", errors="ignore")
    for series in run_series.split_series(without_rate) if len(compared) else ():
        frame = compared.loc[series.frame.index]
        sizes = sorted(map(int, frame["batch_size"].unique()))
        rows_by_tab = {name: list(_rows(frame, _TABS[name], sizes)) for name in _TABS}
        tabs = [
            {"name": name, "rows": rows, "winner": winner(rows[0]["cells"])}
            for name, rows in rows_by_tab.items()
            if rows
        ]
        if tabs:
            groups.append({"series": series.label, "sizes": sizes, "tabs": tabs})
    return groups


def _rows(
    compared: pandas.DataFrame, budgets: Mapping[str, str], sizes: list[int]
) -> Iterator[Row]:
    for budget, cost in budgets.items():
        frame = compared[compared["budget"] == budget]
        frame = frame[frame["outcome"] == cost] if cost else frame
        keys = ["budget_value", "budget_column", "outcome"]
        for (_, _, outcome), group in frame.groupby(keys, sort=False, dropna=False):
            best = comparisons.best_batch_size(group)
            if best is not None:
                cells = {cell["batch_size"]: cell for cell in group.to_dict("records")}
                row = {"shares": tasks.is_share(outcome), "best": best}
                yield {**group.iloc[0], **row, "cells": [cells.get(size) for size in sizes]}


def winner(cells: list[Row | None]) -> int | None:
    """Return the batch size that is better than all others; None if another may be as good."""
    compared = [cell for cell in cells if cell]
    failed = (Reason.FAILED, Reason.NOT_REACHED)
    rivals = [
        cell
        for cell in compared
        if cell["verdict"] != Verdict.BEYOND and cell["reason"] not in failed
    ]
    return int(rivals[0]["batch_size"]) if len(rivals) == 1 < len(compared) else None
