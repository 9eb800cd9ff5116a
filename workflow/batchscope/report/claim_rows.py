"""The rows of claims.csv as templates show them; their words are in claim_words.html.j2."""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Iterable
from typing import Any

from batchscope import wording
from batchscope.report.text import ESTIMATE, estimate, is_number, parsed
from batchscope.study import factor_words, own_columns
from batchscope.study import tables as table_entries
from batchscope.study.claims import RATIO
from batchscope.study.outcomes import Verdict
from batchscope.study.tables import clipped, possible
from batchscope.wording import Unit

Row = dict[str, str]
Cells = list[tuple[str, list[str]]]  # name of a factor and its values, in words
Link = tuple[str, str] | None  # label and address of a figure

_LEAST_WIDTH = 1e-12  # an interval has no width if all replicates agree
_NAMED = ("optimizer", "device")  # factors that their values name


def by_document(rows: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return each document with its rows, of `shown`, and its number of claims by verdict."""
    groups: dict[str, list[dict[str, Any]]] = {}
    for row in rows:
        groups.setdefault(row["document"], []).append(row)
    documents = []
    for name, claims in groups.items():
        counts = Counter(row["verdict"] for row in claims)
        verdicts = {verdict: counts[verdict] for verdict in Verdict if counts[verdict]}
        documents.append({"document": name, "rows": claims, "verdicts": verdicts})
    return documents


def surprise(row: Row) -> float:
    """Return the distance of a contradicted claim's interval from its bounds, in half widths.

    Half widths make claims in all units comparable; ratios are compared by their logarithms.
    """
    low, high = float(row["low"]), float(row["high"])
    lower, upper = float(row["low_bound"] or -math.inf), float(row["high_bound"] or math.inf)
    if row["scale"] == RATIO:
        low, high, lower, upper = (
            math.log(number) if number > 0 else -math.inf for number in (low, high, lower, upper)
        )
    return max(lower - high, low - upper) / max((high - low) / 2, _LEAST_WIDTH)


def shown(row: Row, link: Link) -> dict[str, Any]:
    """Return a claim with its numbers as text, for templates."""
    unit, values = _unit(row), [parsed(row[name]) for name in ESTIMATE]
    if row["type"] == "value" and None not in values:  # all others are differences or ratios
        values[1:] = clipped(row["column"], values[1:])
    lower, upper = _bounds(row, unit)
    if unit.suffix == " s" and all(abs(number or 0) < 1 for number in values):
        unit = Unit(" ms", 1000.0)
    contrary, level = row["verdict"] == Verdict.CONTRADICTED, parsed(row["level"])
    column = table_entries.column(row["table"], row["column"])
    names = ("cells", "sides", "reason_of", "part")
    decoded = {name: json.loads(row[name]) if row[name] else {} for name in names}
    # The deciding contrast has cells of its own, and two ends that it compares.
    part = decoded["part"]
    ends = {name: values for name, values in part.items() if isinstance(values, list)}
    parts = [{name: value for name, value in part.items() if name not in ends}]
    parts += [{name: values[end] for name, values in ends.items()} for end in (0, 1)]
    return {
        **row,
        "estimate": estimate(values, unit),
        "unit": unit.suffix.strip(),
        "coverage": None if level is None else f"{wording.number(100 - 200 * level, 4)} %",
        "label": wording.lower(column.label) if column and column.label else _name(row["column"]),
        "over": _name(row["over"]),
        "rises": bool(row["low_bound"]),
        "lower": lower,
        "upper": upper,
        "cells": cells(decoded["cells"]),
        "sides": [cells(side) for side in decoded["sides"]],
        "part": [cells(each) for each in parts] if int(row["parts"] or 0) > 1 else [],
        "p": parsed(row["p_against" if contrary else "p"]),
        "contrary": contrary,
        "timed": row["table"] in table_entries.OF_TIMINGS,
        "lost": bool(row["n"]) and int(row["n"]) < int(row["replicates"]),
        "wanted": int(row["seeds_to_resolve"] or 0),
        "lacking": cells(decoded["reason_of"]),
        "figure_link": link if row["figure"] else None,
    }


def _name(factor: str) -> str:
    name = factor.removeprefix(own_columns.OWN).replace("_", " ")
    return "number of epochs" if factor == "at_epoch" else name


def cells(factors: dict[str, Any]) -> Cells:
    """Return cells for the filter `cells`: names of factors with their values as text."""
    named: Cells = []
    for name, values in factors.items():
        if not isinstance(values, list):
            named.append((factor_words.describe({name: values}), []))
        elif name in _NAMED:
            named.append(("", [factor_words.describe({name: value}) for value in values]))
        else:
            texts = [wording.shortest(each) if is_number(each) else each for each in values]
            named.append((_name(name), texts))
    return named


def _unit(row: Row) -> Unit:
    """Return the unit of the numbers: per cent for shares, points for their differences."""
    unit = "" if row["scale"] == RATIO else row["unit"]
    if unit not in ("share", "%"):
        return Unit(f" {unit}" if unit else "")
    return Unit(" %" if row["type"] == "value" else " points", 100.0 if unit == "share" else 1.0)


def _bounds(row: Row, unit: Unit) -> tuple[str, str]:
    """Return the bounds as text, without a bound at the end of the column's range."""
    low, high = float(row["low_bound"] or -math.inf), float(row["high_bound"] or math.inf)
    if row["type"] == "value":
        least, most = possible(row["column"])
        if least < low < most <= high:
            high = math.inf
        elif low <= least < high < most:
            low = -math.inf
    # The lower bound may need many decimals: 1 / 1.05.
    lower = wording.number(unit.times * low, 4) if math.isfinite(low) else ""
    if math.isfinite(high):
        return lower, wording.tick(unit.times * high) + unit.suffix * bool(high)
    return lower + unit.suffix * bool(low), ""
