"""The table of runs: which columns, in which order, and their cells."""

from __future__ import annotations

import math
from collections import Counter
from typing import TYPE_CHECKING, Any

import pandas
from markupsafe import Markup, escape

from batchscope import wording
from batchscope.report.text import parsed, plain
from batchscope.store import jobs, records
from batchscope.study import columns, outcomes, own_columns, run_factors, tasks
from batchscope.study.names import split_token

if TYPE_CHECKING:
    from batchscope.study.plan import Study

Row = dict[str, str]  # column of runs.csv -> text, empty where there is no value

PRINTED_COLUMNS = 11  # what an A4 page holds
_KEPT = ("batch_size", "seed", "status", "run")  # columns even where all runs share them


def _evaluated(metrics: tasks.Metrics) -> list[str]:
    names = ("loss", *tasks.METRICS, *(metric.name for metric in metrics))
    return [f"{split}_{name}" for split in ("test", "validation") for name in names]


def evaluated(
    rows: list[Row], evaluations: pandas.DataFrame, metrics: tasks.Metrics = ()
) -> list[Row]:
    """Returns rows of runs.csv with outcomes of the last evaluation where they have none."""
    names = [name for name in _evaluated(metrics) if name in evaluations]
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
    experiment, here = study.experiments[name], (None, study.machine)
    tidy = [
        {column: _as_in_paths(text) if _is_factor(column) else text for column, text in row.items()}
        for row in rows
    ]
    own = {row["run"]: row for row in tidy if row.get("machine") in here}
    planned = {**experiment.runs, **experiment.commands}
    rest = (row for row in tidy if row["run"] not in planned or row.get("machine") not in here)
    return [*(own.get(run) or _unrecorded(study, name, run) for run in planned), *rest]


def _is_factor(column: str) -> bool:
    return column in run_factors.FACTORS or own_columns.is_own(column)


def _as_in_paths(text: str) -> str:
    if text in ("True", "False"):
        return text.lower()
    value = parsed(text)
    return text if value is None or not math.isfinite(value) else wording.shortest(value)


def _unrecorded(study: Study, experiment: str, run: str) -> Row:
    row = {"run": run, "study": study.name, "experiment": experiment, "machine": study.machine}
    if made_by := study.commands.get(run):
        row |= {own_columns.named(key): plain(each) for key, each in made_by.factors.items()}
        return {**row, "status": jobs.unrecorded(made_by.needs)}
    row |= {key: plain(value) for key, value in study.runs[run].items()}
    for key in ("dataset", "model"):  # as in the tables: the plain name, and its digest
        row[key], digest = split_token(row[key])
        row[f"{key}_digest"] = digest or ""
    return {**row, "status": jobs.unrecorded(study.runs[run])}


def distinct(rows: list[Row]) -> dict[str, Row]:
    """Returns one row per run and machine: a run may stand in several experiments.

    Under the run's name; behind it, for another machine's, the machine's.
    """
    several = len({row.get("machine") for row in rows}) > 1
    return {row["run"] + (wording.aside(row["machine"]) if several else ""): row for row in rows}


def build(rows: list[Row], metrics: tasks.Metrics) -> tuple[dict[str, Any], str]:
    """Returns the table, and the style rules of its columns: what is aligned, what is printed.

    Columns are what distinguishes runs, the status, outcomes, the rest, and the name. What all
    runs share is no column: the factors among it stand in `same`.
    """
    present = list(dict.fromkeys(name for row in rows for name in row))
    asked = [name for name in present if name in _evaluated(metrics) or outcomes.outcome(name)]
    factors = [name for name in present if _is_factor(name)]
    first = ("experiment", "machine", *run_factors.FACTORS, *factors, "status", *asked, *present)
    shown, same = [], {}
    for name in sorted(dict.fromkeys(first), key=lambda name: name == "run"):
        factor, found = run_factors.FACTORS.get(name), {row.get(name, "") for row in rows}
        if name not in present:
            continue
        if len(found) > 1 or len(rows) == 1 or name in _KEPT:
            shown.append(_column(name, found, tasks.of_columns(present), metrics))
        elif factor and (factor.required or {*found} != {plain(factor.default)}):
            (same[name],) = found
    selects = [
        {
            "label": name.title(),
            "column": position,
            "options": [*Counter(row.get(name, "") for row in rows).items()],
        }
        for name in ("status", "experiment")
        for position, column in enumerate(shown)
        if column["name"] == name
    ]
    cells = [[_cell(row, column) for column in shown] for row in rows]
    return {"columns": shown, "rows": cells, "same": same, "selects": selects}, _rules(shown)


def _column(
    name: str, found: set[str], learned: tuple[str, ...], metrics: tasks.Metrics
) -> dict[str, Any]:
    """Returns a column: its `kind` is how it is sorted, `usual` whether it is shown at first."""
    documented, doc = columns.describe(name, metrics), ""
    numbers = [parsed(text) for text in found if text]
    kind = "number" if numbers and None not in numbers else "text"
    if documented is not None:
        unit = tasks.unit(documented.unit, learned)
        doc = documented.doc + (f" [{unit}]" if unit else "")
        if documented.kind:
            kind = "number" if documented.kind in ("int", "float") else "text"
    shown = ("experiment", "machine", "status", "run", *_evaluated(metrics))
    usual = name in shown or _is_factor(name)
    return {
        "name": name,
        "label": Markup("_<wbr>").join(escape(part) for part in name.split("_")),  # may break there
        "kind": kind,
        "doc": doc,
        "usual": bool(numbers) and (usual or outcomes.outcome(name) is not None),
    }


def _cell(row: Row, column: dict[str, Any]) -> dict[str, str]:
    """Returns a cell: shown text, exact text if it differs, and CSS class."""
    name, text = column["name"], row.get(column["name"], "")
    value = parsed(text) if column["kind"] == "number" and not _is_factor(name) else None
    shown = text or wording.ABSENT if value is None else wording.cell(value)
    bad = name == "status" and text != records.FINISHED
    full = text if value is not None and parsed(shown) != value else ""
    return {"text": shown, "full": full, "css": "bad" if bad and text else ""}


def _rules(shown: list[dict[str, Any]]) -> str:
    """Returns a rule for all columns of numbers, and one that prints the first usual ones."""
    places = dict(enumerate(shown, 1))
    numbers = [place for place, column in places.items() if column["kind"] == "number"]
    usual = [at for at, column in places.items() if column["usual"] and column["name"] != "run"]
    hidden = [place for place in places if place not in usual[:PRINTED_COLUMNS]]
    aligned, gone = (
        ", ".join(f".runs {cells}:nth-child({place})" for place in found)
        for cells, found in (("td", numbers), (":is(th, td)", hidden))
    )
    return f"{aligned or '.runs .none'} {{ text-align: right; }}\n" + (
        f"@media print {{ {gone} {{ display: none; }} }}\n" if gone else ""
    )
