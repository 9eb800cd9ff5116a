"""Sections of documents: claims with their verdicts, and published values next to measured ones.

Rows of claims.csv and published.csv become values of templates, with numbers as text. The sentences
about claims are in claim_words.html.j2.
"""

import json
import math
from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from typing import Any

import pandas

from batchscope.core import display
from batchscope.core.display import Unit
from batchscope.report.page_figures import Links
from batchscope.report.report_inputs import ReportInputs
from batchscope.report.text import ESTIMATE, estimate, is_number, parsed
from batchscope.study import factor_maps, log_format, published_numbers, table_entries, tasks
from batchscope.study.claims import RATIO
from batchscope.study.names import split_token
from batchscope.study.outcomes import Verdict
from batchscope.study.table_entries import clipped_to_range

Row = dict[str, Any]
Cells = list[tuple[str, list[str]]]  # pairs of the name of a factor and its values as text

_FACTORS_NAMED_BY_VALUE = ("optimizer", "device")  # Their values say which factor it is.


def claims(rows: Iterable[Row], links: Links) -> list[Row]:
    """Return each document with its claims and its number of claims by verdict."""
    documents: dict[str, list[Row]] = {}
    for row in rows:
        claim = described_claim(row, links.get((row["experiment"], row["figure"])))
        documents.setdefault(row["document"], []).append(claim)
    sections = []
    for document, document_claims in documents.items():
        counts = Counter(claim["verdict"] for claim in document_claims)
        verdicts = {verdict: counts[verdict] for verdict in Verdict if counts[verdict]}
        sections.append({"document": document, "rows": document_claims, "verdicts": verdicts})
    return sections


def described_claim(row: Row, link: tuple[str, str] | None = None) -> Row:
    """Return a claim with its numbers as text, for templates.

    Args:
        row: Row of claims.csv, as text.
        link: Label and address of its figure.
    """
    unit, values = _unit(row), [parsed(row[name]) for name in ESTIMATE]
    if row["type"] == "value" and None not in values:  # The other types are differences or ratios.
        values[1:] = clipped_to_range(row["column"], values[1:])
    lower, upper = _bounds(row, unit)
    is_contradicted, level = row["verdict"] == Verdict.CONTRADICTED, parsed(row["level"])
    column = table_entries.describe(row["column"], table=row["table"])
    names = ("cells", "sides", "reason_of", "part")
    decoded = {name: json.loads(row[name]) if row[name] else {} for name in names}
    # The deciding contrast has its factors, and pairs of values for the two ends that it compares.
    part = decoded["part"]
    ends = {name: pair for name, pair in part.items() if isinstance(pair, list)}
    contrast = [{name: value for name, value in part.items() if name not in ends}]
    contrast += [{name: pair[end] for name, pair in ends.items()} for end in (0, 1)]
    return {
        **row,
        "estimate": estimate(values, unit),
        "unit": unit.suffix.strip(),
        "coverage": None if level is None else f"{display.number(100 - 200 * level, 4)} %",
        "label": display.lower(column.label) if column and column.label else _name(row["column"]),
        "over": _name(row["over"]),
        "rises": bool(row["low_bound"]),
        "lower": lower,
        "upper": upper,
        "cells": cells(decoded["cells"]),
        "sides": [cells(side) for side in decoded["sides"]],
        "contrast": [cells(end) for end in contrast] if int(row["parts"] or 0) > 1 else [],
        "p": parsed(row["p_against" if is_contradicted else "p"]),
        "contrary": is_contradicted,
        "timed": row["table"] in table_entries.TIMING_TABLES,
        "incomplete": bool(row["n"]) and int(row["n"]) < int(row["replicates"]),
        "seeds_needed": int(row["seeds_to_resolve"] or 0),
        "lacking": cells(decoded["reason_of"]),
        "figure_link": link,
    }


def _name(factor: str) -> str:
    name = factor.removeprefix(log_format.USER_PREFIX).replace("_", " ")
    return "number of epochs" if factor == "at_epoch" else name


def cells(factors: Mapping[str, Any]) -> Cells:
    """Return the factors of cells for the filter `cells`, with their values as text."""
    labelled: Cells = []
    for name, values in factors.items():
        if not isinstance(values, list):
            labelled.append((factor_maps.describe({name: values}), []))
        elif name in _FACTORS_NAMED_BY_VALUE:
            labelled.append(("", [factor_maps.describe({name: value}) for value in values]))
        else:
            texts = [display.shortest(value) if is_number(value) else value for value in values]
            labelled.append((_name(name), texts))
    return labelled


def _unit(row: Row) -> Unit:
    """Return the unit of the numbers: per cent for shares, points for their differences."""
    unit = "" if row["scale"] == RATIO else row["unit"]
    if unit not in ("share", "%"):
        return Unit(f" {unit}" if unit else "")
    return Unit(" %" if row["type"] == "value" else " points", 100.0 if unit == "share" else 1.0)


def _bounds(row: Row, unit: Unit) -> tuple[str, str]:
    """Return the bounds as text. The lower one has four digits, because it may be 1 / 1.05."""
    low, high = float(row["low_bound"] or -math.inf), float(row["high_bound"] or math.inf)
    lower = display.number(unit.times * low, 4) if math.isfinite(low) else ""
    if math.isfinite(high):
        return lower, display.tick(unit.times * high) + unit.suffix * bool(high)
    return lower + unit.suffix * bool(low), ""


def published_values(inputs: ReportInputs, links: Links) -> Row:
    """Return published values, split by whether this study has a value; empty without any."""
    datasets = {split_token(token)[0]: record for token, record in inputs.datasets.items()}
    examples = [
        {"dataset": name, **dict(body), "counts": datasets.get(name, {}).get("counts") or {}}
        for name, body in inputs.study.file.published.items()
    ]
    section: Row = {"examples": examples, "measured": [], "absent": []}
    for name, results in inputs.experiments.items():
        for row in results.tables.published.to_dict("records"):
            value = described_value(row, results.tables.tasks)
            link = links.get((name, row["figure"]))
            value |= {"experiment": results.experiment.title, "link": link}
            section["measured" if value["here"] else "absent"].append(value)
    return section if any(section.values()) else {}


def described_value(row: Row, learned: Collection[str] = (tasks.CLASSIFICATION,)) -> Row:
    """Return a row of published.csv with both numbers as texts, shares in per cent."""
    scale = 100 if tasks.is_share(row["column"]) else 1
    column = published_numbers.COLUMNS[row["column"]]
    values = {name: None if pandas.isna(value) else value for name, value in row.items()}
    numbers = [values[name] for name in ("here", "here_low", "here_high")]
    return {
        **values,
        "label": column.label,
        "unit": tasks.unit_for_tasks("%" if column.unit == "share" else column.unit, learned),
        "published": "" if values["value"] is None else f"{scale * row['value']:.6g}",
        "here": estimate(numbers, Unit(times=scale)),
    }
