"""The table of runs: which columns, in which order, and their cells."""

from __future__ import annotations

import math
from collections import Counter
from typing import TYPE_CHECKING, Any, NamedTuple

import pandas
from markupsafe import Markup, escape

from batchscope import wording
from batchscope.catalogue import columns, outcomes, own_columns, run_factors, run_names
from batchscope.report.text import parsed, plain
from batchscope.store import records, states

if TYPE_CHECKING:
    from batchscope.study.plan import Study

Row = dict[str, str]  # column of runs.csv -> text, empty where there is no value

PRINTED_COLUMNS = 11  # what an A4 page holds
_EVALUATED = ("test_loss", "test_accuracy", "validation_loss", "validation_accuracy")
_KEPT = ("batch_size", "seed", "status", "run")  # columns even where all runs share them


class Cell(NamedTuple):
    """A cell: shown text, exact text if it differs, CSS class."""

    text: str
    full: str = ""
    css: str = ""


class Column(NamedTuple):
    """A column of runs.csv; its kind is how it is sorted, `usual` whether it is shown at first."""

    name: str
    label: Markup  # with places where it may break
    kind: str
    doc: str
    usual: bool


def evaluated(rows: list[Row], evaluations: pandas.DataFrame) -> list[Row]:
    """Returns rows of runs.csv with outcomes of the last evaluation where they have none."""
    names = [name for name in _EVALUATED if name in evaluations]
    keys = ["run", *(["machine"] if "machine" in evaluations else [])]
    if not names or not rows:
        return rows
    last = evaluations.groupby(keys, sort=False, dropna=False)[names].last()
    texts = last.map(lambda value: "" if pandas.isna(value) else repr(value)).to_dict("index")
    filled = []
    for row in rows:
        key = row["run"] if len(keys) == 1 else (row["run"], row.get("machine", ""))
        given = texts.get(key, {}) if row["status"] == records.FINISHED else {}
        filled.append({**row, **{name: row.get(name) or text for name, text in given.items()}})
    return filled


def complete(study: Study, name: str, rows: list[Row]) -> list[Row]:
    """Returns a row for every planned run of an experiment; without a record: `missing`.

    Its factors are as in paths, 0.1 and 1e-5, true and false. Behind them stand the rows of other
    machines, and those made elsewhere.
    """
    experiment = study.experiments[name]
    tidy = [
        {**row, **{column: _given(text) for column, text in row.items() if _is_factor(column)}}
        for row in rows
    ]
    here = (None, study.machine)
    own = {row["run"]: row for row in tidy if row.get("machine") in here}
    planned = []
    for run in experiment.trainings.runs:
        planned.append(own.get(run) or _unrecorded(study, name, run))
    others = (row for row in tidy if experiment.own.path or row.get("machine") not in here)
    return [*planned, *others]


def _is_factor(column: str) -> bool:
    return column in run_factors.FACTORS or own_columns.is_own(column)


def _given(text: str) -> str:
    if text in ("True", "False"):
        return text.lower()
    value = parsed(text)
    return text if value is None or not math.isfinite(value) else wording.shortest(value)


def _unrecorded(study: Study, experiment: str, run: str) -> Row:
    factors, row = study.runs[run], {"run": run, "study": study.name, "experiment": experiment}
    row |= {"machine": study.machine, **{key: plain(value) for key, value in factors.items()}}
    for key in ("dataset", "model"):  # as in the tables: the plain name, and its digest
        row[key], digest = run_names.split_token(row[key])
        row[f"{key}_digest"] = digest or ""
    return {**row, "status": states.unrecorded(study.runs[run])}


def distinct(rows: list[Row]) -> dict[str, Row]:
    """Returns one row per run and machine: a run may stand in several experiments.

    Under the run's name; behind it, for another machine's, the machine's.
    """
    several = len({row.get("machine") for row in rows}) > 1
    return {row["run"] + (f" ({row['machine']})" if several else ""): row for row in rows}


def build(rows: list[Row]) -> tuple[dict[str, Any], str]:
    """Returns the table, and the style rules of its columns: what is aligned, what is printed.

    Columns are what distinguishes runs, the status, outcomes, the rest, and the name. What all
    runs share is no column: the factors among it stand in `same`.
    """
    present = list(dict.fromkeys(name for row in rows for name in row))
    asked = [name for name in present if name in _EVALUATED or outcomes.outcome(name)]
    factors = [name for name in present if _is_factor(name)]
    first = ("experiment", "machine", *run_factors.FACTORS, *factors, "status", *asked, *present)
    values = {name: {row.get(name, "") for row in rows} for name in present}
    shown, same = [], {}
    for name in sorted(dict.fromkeys(first), key=lambda name: name == "run"):
        factor, found = run_factors.FACTORS.get(name), values.get(name, ())
        if len(found) > 1 or (found and (len(rows) == 1 or name in _KEPT)):
            shown.append(_column(name, values[name]))
        elif found and factor and (factor.core or {*found} != {plain(factor.default)}):
            (same[name],) = found
    selects = [
        {
            "label": column.name.title(),
            "column": position,
            "options": [*Counter(row.get(column.name, "") for row in rows).items()],
        }
        for name in ("status", "experiment")
        for position, column in enumerate(shown)
        if column.name == name
    ]
    cells = [[_cell(row, column) for column in shown] for row in rows]
    return {"columns": shown, "rows": cells, "same": same, "selects": selects}, _rules(shown)


def _column(name: str, found: set[str]) -> Column:
    documented = columns.describe(name)
    numbers = [parsed(text) for text in found if text]
    kind = "number" if numbers and None not in numbers else "text"
    if documented is not None and documented.kind:
        kind = "number" if documented.kind in ("int", "float") else "text"
    unit = f" [{documented.unit}]" if documented and documented.unit else ""
    label = Markup("_<wbr>").join(escape(part) for part in name.split("_"))
    usual = name in ("experiment", "machine", "status", "run", *_EVALUATED) or _is_factor(name)
    filled = bool(numbers) and (usual or outcomes.outcome(name) is not None)
    return Column(name, label, kind, f"{documented.doc}{unit}" if documented else "", filled)


def _cell(row: Row, column: Column) -> Cell:
    text = row.get(column.name, "")
    if not text:
        return Cell(wording.ABSENT)
    if column.name == "status":
        return Cell(text, "", "" if text == records.FINISHED else "bad")
    value = parsed(text) if column.kind == "number" else None
    if value is None or _is_factor(column.name):
        return Cell(text)
    shown = wording.cell(value)
    return Cell(shown, "" if parsed(shown) == value else text)


def _rules(shown: list[Column]) -> str:
    """Returns a rule for all columns of numbers, and one that prints the first usual ones."""
    places = dict(enumerate(shown, 1))
    numbers = [place for place, column in places.items() if column.kind == "number"]
    usual = [place for place, column in places.items() if column.usual and column.name != "run"]
    hidden = [place for place in places if place not in usual[:PRINTED_COLUMNS]]
    aligned, gone = (
        ", ".join(f".runs {cells}:nth-child({place})" for place in found)
        for cells, found in (("td", numbers), (":is(th, td)", hidden))
    )
    return f"{aligned or '.runs .none'} {{ text-align: right; }}\n" + (
        f"@media print {{ {gone} {{ display: none; }} }}\n" if gone else ""
    )
