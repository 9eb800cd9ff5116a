"""The table of runs: its columns in order, and their cells."""

from __future__ import annotations

import math
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

Row = dict[str, str]  # column of runs.csv -> text, empty without a value

_KEPT = ("batch_size", "seed", "status", "run")  # columns even where all runs share them


def _evaluated(metrics: tasks.Metrics) -> list[str]:
    names = ("loss", *tasks.METRICS, *(metric.name for metric in metrics))
    return [f"{split}_{name}" for split in ("test", "validation") for name in names]


def evaluated(
    rows: list[Row], evaluations: pandas.DataFrame, metrics: tasks.Metrics = ()
) -> list[Row]:
    """Return the rows of finished runs with missing outcomes of their last evaluation."""
    names = [name for name in _evaluated(metrics) if name in evaluations]
    if not names:
        return rows
    keys = [name for name in ("run", "machine") if name in evaluations]
    last = evaluations.groupby(keys, sort=False, dropna=False)[names].last().reset_index()
    values: dict[tuple[str, ...], Row] = {}
    for row in last.to_dict("records"):
        key = tuple(str(row[name]) for name in keys)
        values[key] = {name: repr(row[name]) for name in names if pandas.notna(row[name])}
    filled = []
    for row in rows:
        key = tuple(row.get(name, "") for name in keys)
        final = values.get(key, {}) if row["status"] == records.FINISHED else {}
        filled.append({**row, **{name: row.get(name) or final[name] for name in final}})
    return filled


def complete(study: Study, name: str, rows: list[Row]) -> list[Row]:
    """Return a row for every planned run, then the rows of other machines and of external runs.

    A run without a record is `missing`. Factors are as in paths: 0.1, 1e-5, true, false.
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
    """Return name -> row of each run; with several machines, the name ends with the machine."""
    several = len({row.get("machine") for row in rows}) > 1
    return {row["run"] + (wording.aside(row["machine"]) if several else ""): row for row in rows}


def build(rows: list[Row], metrics: tasks.Metrics) -> dict[str, Any]:
    """Return the columns and cells of the table, and the settings that all runs share (`same`).

    The columns are the factors that distinguish runs, the status, outcomes, and the name of a run.
    All other columns are in runs.csv.
    """
    present = list(dict.fromkeys(name for row in rows for name in row))
    evaluated_names = _evaluated(metrics)
    outcome_names = [name for name in present if name in evaluated_names or outcomes.outcome(name)]
    factors = [name for name in present if _is_factor(name)]
    first = ("experiment", "machine", *run_factors.FACTORS, *factors, "status", *outcome_names)
    shown, same = [], {}
    for name in (name for name in dict.fromkeys((*first, "run")) if name in present):
        factor, values = run_factors.FACTORS.get(name), {row.get(name, "") for row in rows}
        if (len(values) > 1 or len(rows) == 1 or name in _KEPT) and any(values):
            shown.append(_column(name, values, tasks.of_columns(present), metrics))
        elif factor and (factor.required or values != {plain(factor.default)}):
            (same[name],) = values
    cells = [[_cell(row.get(column["name"], ""), column) for column in shown] for row in rows]
    return {"columns": shown, "rows": cells, "same": same}


def _column(
    name: str, values: set[str], learned: tuple[str, ...], metrics: tasks.Metrics
) -> dict[str, Any]:
    described, doc = columns.describe(name, metrics), ""
    numeric = None not in map(parsed, values - {""})
    if described:
        unit = tasks.unit(described.unit, learned)
        doc = described.doc + (f" [{unit}]" if unit else "")
        numeric = described.kind in ("int", "float") if described.kind else numeric
    label = Markup("_<wbr>").join(escape(part) for part in name.split("_"))  # may break there
    return {"name": name, "label": label, "numeric": numeric, "doc": doc}


def _cell(text: str, column: dict[str, Any]) -> dict[str, str]:
    name, number = column["name"], parsed(text) if column["numeric"] else None
    failed = name == "status" and text not in ("", records.FINISHED)
    rounded = number is not None and not _is_factor(name)
    return {
        "text": wording.cell(number) if rounded else text or wording.ABSENT,
        "css": "bad" if failed else "n" if column["numeric"] else "",
    }
