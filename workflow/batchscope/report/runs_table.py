"""The table of runs: rows of runs.csv and planned runs -> columns and cells as text."""

import math
from typing import Any

from batchscope.core import display
from batchscope.report.text import parsed, plain
from batchscope.store import jobs
from batchscope.study import log_format, run_factors
from batchscope.study.names import split_token
from batchscope.study.plan import Study
from batchscope.study.table_entries import tested_direction

Row = dict[str, str]  # column of runs.csv -> text, empty without a value

# These columns are shown even if all runs share their value.
_ALWAYS_SHOWN = ("batch_size", "seed", "status", "run")


def complete_rows(study: Study, name: str, rows: list[Row]) -> list[Row]:
    """Return a row for every planned run, then the rows of other machines and of external runs.

    A run without a record is `missing`. Factors are as in paths: 0.1, 1e-5, true, false.
    """
    experiment, machines = study.experiments[name], (None, study.machine)
    tidy_rows = [
        {column: _as_in_paths(text) if _is_factor(column) else text for column, text in row.items()}
        for row in rows
    ]
    by_run = {row["run"]: row for row in tidy_rows if row.get("machine") in machines}
    runs = experiment.factors_of
    other_rows = (
        row for row in tidy_rows if row["run"] not in runs or row.get("machine") not in machines
    )
    return [*(by_run.get(run) or _unrecorded(study, name, run) for run in runs), *other_rows]


def _is_factor(column: str) -> bool:
    return column in run_factors.FACTORS or log_format.is_user_defined(column)


def _as_in_paths(text: str) -> str:
    if text in ("True", "False"):
        return text.lower()
    value = parsed(text)
    return text if value is None or not math.isfinite(value) else display.shortest(value)


def _unrecorded(study: Study, experiment: str, run: str) -> Row:
    row = {"run": run, "study": study.name, "experiment": experiment, "machine": study.machine}
    if command := study.commands.get(run):
        row |= {
            log_format.prefixed_name(key): plain(value) for key, value in command.factors.items()
        }
        return {**row, "status": jobs.status_without_record(command.needs)}
    row |= {key: plain(value) for key, value in study.runs[run].items()}
    for key in ("dataset", "model"):  # as in the tables: the plain name, and its digest
        row[key], digest = split_token(row[key])
        row[f"{key}_digest"] = digest or ""
    return {**row, "status": jobs.status_without_record(study.runs[run])}


def rows_by_run(rows: list[Row]) -> dict[str, Row]:
    """Return name -> row of each run; with several machines, the name ends with the machine."""
    several = len({row.get("machine") for row in rows}) > 1
    return {row["run"] + (display.aside(row["machine"]) if several else ""): row for row in rows}


def build(rows: list[Row]) -> dict[str, Any] | None:
    """Return the columns and cells of the table, and the settings that all runs share.

    The columns are the factors that distinguish runs, the status, outcomes, and the name of a run.
    All other columns are in runs.csv.
    """
    column_names = dict.fromkeys(name for row in rows for name in row)
    factors = [name for name in column_names if _is_factor(name)]
    results = [name for name in column_names if tested_direction(name)]
    order = ("experiment", "machine", *run_factors.FACTORS, *factors, "status", *results, "run")
    columns, shared = [], {}
    for name in dict.fromkeys(order):
        factor, values = run_factors.FACTORS.get(name), {row.get(name, "") for row in rows}
        if any(values) and (len(values) > 1 or len(rows) == 1 or name in _ALWAYS_SHOWN):
            columns.append(name)
        elif any(values) and factor and (factor.required or values != {plain(factor.default)}):
            (shared[name],) = values
    cells = [[_cell(name, row.get(name, "")) for name in columns] for row in rows]
    return {"columns": columns, "rows": cells, "same": shared} if rows else None


def _cell(name: str, text: str) -> str:
    number = None if _is_factor(name) else parsed(text)
    return text or display.ABSENT if number is None else display.cell(number)
