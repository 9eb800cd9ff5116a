"""The rows of claims.csv as templates show them; their words stand in claim_words.html.j2."""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from batchscope import disk, wording
from batchscope.catalogue import factor_words, tables
from batchscope.catalogue.decision_columns import CLAIMS
from batchscope.catalogue.outcomes import Verdict
from batchscope.catalogue.tables import clipped, possible
from batchscope.report.text import format_interval, is_number, parsed
from batchscope.study.claims import RATIO

Row = dict[str, str]
Cells = list[tuple[str, list[str]]]  # name of a factor and its values, in words
Link = tuple[str, str] | None  # label and address of a figure, where there is one

_NAMED = ("optimizer", "device", "framework")  # factors that their values name
_MILLISECONDS = wording.Unit(" ms", 1000.0)


def read(path: Path | str) -> list[Row]:
    """Reads a table of claims; raises as `disk.read_rows` does."""
    return disk.read_rows(path, *CLAIMS)


def ledger(shown: Iterable[dict[str, Any]]) -> dict[str, Any]:
    """Returns rows as they are `shown` by document, and what they can be filtered by."""
    groups: dict[str, list[dict[str, Any]]] = {}
    for row in shown:
        groups.setdefault(row["document"], []).append(row)
    every = [row for rows in groups.values() for row in rows]
    return {
        "documents": [
            {"document": name, "rows": rows, "verdicts": verdicts(rows)}
            for name, rows in groups.items()
        ],
        "verdicts": verdicts(every),
        "experiments": list(dict.fromkeys(row["within"] for row in every)),
    }


def verdicts(rows: Iterable[Row]) -> dict[str, int]:
    """Returns how many claims have each verdict that one has, in the order of verdicts."""
    found = Counter(row["verdict"] for row in rows)
    return {str(verdict): found[verdict] for verdict in Verdict if found[verdict]}


def shown(row: Row, link: Link) -> dict[str, Any]:
    """Returns what a page shows of a claim; of a named study it stands in `study: experiment`."""
    unit, found = _unit(row), [parsed(row[name]) for name in ("estimate", "low", "high")]
    if row["type"] == "value" and None not in found:  # all others are differences or ratios
        found[1:] = clipped(row["column"], found[1:])
    lower, upper = _bounds(row, unit)
    if unit.suffix == " s" and all(abs(number or 0) < 1 for number in found):
        unit = _MILLISECONDS
    contrary, level = row["verdict"] == Verdict.CONTRADICTED, parsed(row["level"])
    column = tables.column(row["table"], row["column"])
    reason_of, part = _read(row["reason_of"]), _read(row["part"])
    # What the deciding contrast is of: its own cells, then one end against the other.
    pairs = {name: each for name, each in part.items() if isinstance(each, list)}
    part = [{name: each for name, each in part.items() if name not in pairs}]
    part += [{name: each[end] for name, each in pairs.items()} for end in (0, 1)]
    return {
        **row,
        "within": ": ".join(filter(None, [row.get("study"), row["experiment"]])),
        "estimate": format_interval(*(None if one is None else unit.times * one for one in found)),
        "unit": unit.suffix.strip(),
        "coverage": None if level is None else f"{wording.number(100 - 200 * level, 4)} %",
        "label": wording.lower(column.label) if column and column.label else _name(row["column"]),
        "over": _name(row["over"]),
        "rises": bool(row["low_bound"]),
        "lower": lower,
        "upper": upper,
        "cells": cells(_read(row["cells"])),
        "sides": [cells(side) for side in _read(row["sides"]) or ()],
        "part": [cells(each) for each in part] if int(row["parts"] or 0) > 1 else [],
        "p": parsed(row["p_against" if contrary else "p"]),
        "contrary": contrary,
        "timed": row["table"] in tables.OF_TIMINGS,
        "lost": bool(row["n"]) and int(row["n"]) < int(row["replicates"]),
        "wanted": int(row["seeds_to_resolve"] or 0),
        "lacking": cells({name: each for name, each in reason_of.items() if name != "framework"}),
        "frameworks": reason_of.get("framework", []),
        "figure_link": link if row["figure"] else None,
    }


def _read(text: str) -> Any:
    return json.loads(text) if text else {}


def _name(factor: str) -> str:
    return "number of epochs" if factor == "at_epoch" else factor.replace("_", " ")


def cells(found: dict[str, Any]) -> Cells:
    """Returns cells as the filter `cells` writes them: one value alone, or several of a factor."""
    named: Cells = []
    for name, values in found.items():
        if not isinstance(values, list):
            named.append((factor_words.describe({name: values}), []))
        elif name in _NAMED:
            named.append(("", [factor_words.describe({name: value}) for value in values]))
        else:
            texts = [wording.shortest(each) if is_number(each) else each for each in values]
            named.append((_name(name), texts))
    return named


def _unit(row: Row) -> wording.Unit:
    """Returns the unit to show numbers in: shares in per cent, their differences in points."""
    unit = "" if row["scale"] == RATIO else row["unit"]
    if unit not in ("share", "%"):
        return wording.Unit(f" {unit}" if unit else "")
    suffix = " %" if row["type"] == "value" else " points"
    return wording.Unit(suffix, 100.0 if unit == "share" else 1.0)


def _bounds(row: Row, unit: wording.Unit) -> tuple[str, str]:
    """Returns the bounds that say something; a value is never beyond what its column can have."""
    low, high = float(row["low_bound"] or -math.inf), float(row["high_bound"] or math.inf)
    if row["type"] == "value":
        least, most = possible(row["column"])
        if least < low < most <= high:
            high = math.inf
        elif low <= least < high < most:
            low = -math.inf
    # The lower of two may be what no decimals write: 1 / 1.05.
    lower = wording.number(unit.times * low, 4) if math.isfinite(low) else ""
    upper = wording.tick(unit.times * high) if math.isfinite(high) else ""
    if upper:
        return lower, upper + unit.suffix * bool(high)
    return lower + unit.suffix * bool(low), ""
