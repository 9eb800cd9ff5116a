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
    keys = ["run", "machine"] if "machine" in evaluations else ["run"]
    if not names or not rows:
        return rows
    last = evaluations[[*keys, *names]].groupby(keys, sort=False, dropna=False).last()
    found = last.apply(
        lambda each: each.map(lambda value: "" if pandas.isna(value) else repr(value))
    )
    texts = found.to_dict("index")
    filled = []
    for row in rows:
        key = row["run"] if len(keys) == 1 else (row["run"], row.get("machine", ""))
        given = texts.get(key, {}) if row["status"] == records.FINISHED else {}
        filled.append({**row, **{name: row.get(name) or text for name, text in given.items()}})
    return filled


def complete(study: Study, name: str, rows: list[Row]) -> list[Row]:
    """Returns a row for every planned run of an experiment; without a record: `missing`.

    Its factors are as in paths. Behind them those of other machines, and those made elsewhere.
    """
    experiment, tidy = study.experiments[name], [_tidy(row) for row in rows]
    here = (None, study.machine)
    own = {row["run"]: row for row in tidy if row.get("machine") in here}
    planned = [own.get(run) or _missing_row(study, name, run) for run in experiment.trainings.runs]
    others = (row for row in tidy if experiment.own.path or row.get("machine") not in here)
    return [*planned, *others]


def _tidy(row: Row) -> Row:
    """Returns a row with its factors as they stand in names: 0.1 and 1e-5, true and false."""
    return {**row, **{name: _given(row[name]) for name in row if _is_factor(name)}}


def _is_factor(column: str) -> bool:
    return column in run_factors.FACTORS or own_columns.is_own(column)


def _given(text: str) -> str:
    if text in ("True", "False"):
        return text.lower()
    value = parsed(text)
    return text if value is None or not math.isfinite(value) else wording.shortest(value)


def _missing_row(study: Study, experiment: str, run: str) -> Row:
    row = {"run": run, "study": study.name, "experiment": experiment, "machine": study.machine}
    row.update({key: plain(value) for key, value in study.runs[run].items()})
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

    What all runs share is no column: the factors among it stand in `same`.
    """
    present = dict.fromkeys(name for row in rows for name in row)
    values = {name: {row.get(name, "") for row in rows} for name in present}
    shared = {
        name: next(iter(found))
        for name, found in values.items()
        if len(found) == 1 < len(rows) and name not in _KEPT
    }
    shown = [_column(name, values[name]) for name in _order(present) if name not in shared]
    same = {name: text for name, text in shared.items() if _informative(name, text)}
    table = {
        "columns": shown,
        "rows": [[_cell(row, column) for column in shown] for row in rows],
        "same": same,
        "selects": _selects(rows, shown),
    }
    return table, _rules(shown)


def _order(present: dict[str, None]) -> list[str]:
    """Returns the columns: what distinguishes runs, the status, outcomes, the rest, the name."""
    factors = [name for name in present if _is_factor(name)]
    asked = [name for name in present if name in _EVALUATED or outcomes.outcome(name)]
    first = ("experiment", "machine", *run_factors.FACTORS, *factors, "status", *asked, *present)
    ordered = [name for name in dict.fromkeys(first) if name in present]
    return sorted(ordered, key=lambda name: name == "run")


def _informative(name: str, value: str) -> bool:
    factor = run_factors.FACTORS.get(name)
    return factor is not None and (factor.core or value != plain(factor.birth))


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


def _selects(rows: list[Row], shown: list[Column]) -> list[dict[str, Any]]:
    """Returns the drop-down filters: status, and experiment where there are several."""
    return [
        {
            "label": column.name.title(),
            "column": position,
            "options": [*Counter(row.get(column.name, "") for row in rows).items()],
        }
        for name in ("status", "experiment")
        for position, column in enumerate(shown)
        if column.name == name
    ]


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
