"""The ledger of claims: what the runs say of every sentence that documents state.

What one document states in one study is a family of statements; see `contrasts`.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable
from typing import Any

import pandas

from batchscope.analysis import claim_contrasts, contrasts, run_series
from batchscope.analysis.contrasts import Statement
from batchscope.catalogue import tables
from batchscope.catalogue.decision_columns import CLAIMS
from batchscope.catalogue.outcomes import Reason, Verdict
from batchscope.host import absence
from batchscope.study.claim_models import DIFFERENCE, GPU, MACHINE, RATIO
from batchscope.study.claims import Claim, Test


def table(
    claims: Iterable[Claim], read: Callable[[str, str], pandas.DataFrame], machine: str
) -> pandas.DataFrame:
    """Returns one row per claim, in order; see `CLAIMS`.

    Args:
        read: (experiment, table) -> its rows.
        machine: This machine, on which claims are tested that name none.
    """
    rows: list[dict[str, Any]] = []
    families: dict[str, dict[int, Statement]] = {}  # document -> row -> what is stated there
    for claim in claims:
        row, statement = _read(claim, read(claim.test.experiment, claim.test.file), machine)
        if row["reason"] == Reason.NONE:
            families.setdefault(claim.document, {})[len(rows)] = statement
        rows.append(row)
    for family in families.values():
        for at, judged in zip(family, contrasts.judge([*family.values()]), strict=True):
            row = rows[at]
            row |= judged.columns(row["scale"] == RATIO)
            row["part"] = _text(dict(judged.deciding.cells))
            row["parts"] = len(family[at].contrasts)
            if judged.estimate.n < 2:
                row |= dict.fromkeys(("level", "p", "p_against"), math.nan)
    return run_series.table(rows, CLAIMS)


def _read(claim: Claim, frame: pandas.DataFrame, machine: str) -> tuple[dict[str, Any], Statement]:
    """Returns the row of a claim before it is judged, and what it states of a table."""
    test = claim.test
    if "machine" in frame and not any("machine" in cells for cells in test.selections()):
        frame = frame[frame["machine"] == machine]
    rows = claim_contrasts.rows(frame, test)
    statement = claim_contrasts.statement(rows, test)
    reason, of = _missing(claim, frame, rows, statement)
    about, by = tables.column(test.table, test.column), claim_contrasts.replicate(rows, test)
    per = "doubling" if claim_contrasts.doublings(rows, test) else "unit"
    sides = [{test.over: test.chosen}] if test.chosen else test.sides
    low, high = (end if math.isfinite(end) else math.nan for end in test.bounds)
    row = {
        **{name: getattr(claim, name) for name in ("id", "document", "place", "sentence")},
        **{name: getattr(test, name) for name in ("type", "experiment", "table", "column", "over")},
        "scale": RATIO if test.ratio else DIFFERENCE,
        "per": per if test.type in ("trend", "interaction") else "",
        "unit": about.unit if about else "",
        "low_bound": low,
        "high_bound": high,
        "cells": _text(_short(test.cells)),
        "sides": _text([*map(_short, sides)]),
        "replicates": rows[by].nunique() if by else min(1, len(rows)),
        "verdict": Verdict.NOT_TESTABLE,
        "reason": reason,
        "reason_of": _text(of),
        "figure": claim.figure,
    }
    return row, statement


def _missing(
    claim: Claim, frame: pandas.DataFrame, rows: pandas.DataFrame, statement: Statement
) -> tuple[Reason, dict[str, Any]]:
    """Returns why a claim cannot be tested, and the cells that are missing; else nothing."""
    test = claim.test
    absent = _absent(frame, test)
    lacking = Reason.NONE if absent else _lacking(rows, test)
    of_budget = (lacking, test.budget if lacking == Reason.NO_BUDGET else {})
    if statement.n and not absent:
        return of_budget
    if claim.requires == MACHINE:
        return Reason.NO_MACHINE, {}
    statuses = {*rows["status"]} if "status" in rows else set()
    if claim.requires == GPU or absence.NO_GPU in statuses:
        several = any("replicas" in cells for cells in test.selections())
        return Reason.FEW_GPUS if several else Reason.NO_GPU, {}
    if absence.NO_CORES in statuses:
        return Reason.NO_CORES, {}
    if absence.NOT_INSTALLED in statuses:
        names = rows.loc[rows["status"] == absence.NOT_INSTALLED, "framework"].unique()
        return Reason.NOT_INSTALLED, {"framework": [*names]}
    if frame.empty:
        return Reason.NO_RESULTS, {}
    if absent or not statement.contrasts:
        return Reason.NOT_IN_GRID, absent
    if lacking:
        return of_budget
    return Reason.NO_VALUE, next(dict(each.cells) for each in statement.contrasts if not each.n)


def _absent(frame: pandas.DataFrame, test: Test) -> dict[str, Any]:
    """Returns the first named cell that no row has; empty where all are there.

    A budget names no cell: it is read within a run.
    """
    for cells in test.selections():
        named = {name: values for name, values in cells.items() if name not in test.budget}
        for name, values in named.items():
            for value in values:
                if claim_contrasts.selected(frame, {**named, name: (value,)}).empty:
                    return {name: value}
    return {}


def _lacking(rows: pandas.DataFrame, test: Test) -> Reason:
    """Returns why the replicates that are left decide nothing.

    A training that failed leaves its seed out. But whether one ends before a budget, or a value has
    a logarithm, goes along with what is measured: the seeds that are left would be a choice.
    """
    if test.column not in rows:
        return Reason.NONE
    values = (run_series.finished(rows) if "status" in rows else rows)[test.column].astype(float)
    if test.budget and values.isna().any():
        return Reason.NO_BUDGET
    return Reason.NOT_POSITIVE if test.ratio and (values <= 0).any() else Reason.NONE


def _short(cells: dict[str, tuple[Any, ...]]) -> dict[str, Any]:
    """Returns cells with what has one value as that value."""
    return {name: each[0] if len(each) == 1 else [*each] for name, each in cells.items()}


def _text(cells: Any) -> str:
    """Returns cells as JSON; empty for none."""
    return json.dumps(cells, ensure_ascii=False, default=lambda one: one.item()) if cells else ""
