"""The table of runs: which columns, in which order, and their cells."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import pandas
from markupsafe import Markup, escape

from batchscope import wording
from batchscope.catalogue import columns, outcomes, own_columns, run_factors, run_names
from batchscope.catalogue.measures import MEASURES
from batchscope.report.text import common_decimals, marked, parsed, plain
from batchscope.store import job_files, records

if TYPE_CHECKING:
    from batchscope.study.plan import Study

Row = dict[str, str]  # column of runs.csv -> text, empty where there is no value

_OF_EVALUATIONS = ("test_loss", "test_accuracy")
PRINTED_COLUMNS = 11  # what an A4 page holds
_KEPT = ("batch_size", "seed", "status", "run")  # columns even where all runs share them
# What was given and is no outcome: stated once, above the table, where all runs share it.
_GIVEN_COLUMNS = (
    *run_factors.FACTORS,
    "study",
    "machine",
    "dataset_digest",
    "model_digest",
    "parameters",
    *(f"{split}_examples" for split in records.SPLITS),
)


class Cell(NamedTuple):
    """A cell: shown text, exact text if it differs, CSS class."""

    text: str
    full: str = ""
    css: str = ""


@dataclass(frozen=True)
class Column:
    """A column of runs.csv.

    Attributes:
        label: The name, with places where it may break.
        kind: `number` or `text`: how it is sorted and aligned.
        doc: What it holds, with its unit; may be empty.
        usual: Whether it is shown at first.
        decimals: Decimals that all its cells share, or None.
    """

    name: str
    label: Markup
    kind: str
    doc: str
    usual: bool
    decimals: int | None = None

    @property
    def explained(self) -> Markup:
        """What it holds, as HTML."""
        return marked(self.doc)


def evaluated(rows: list[Row], evaluations: pandas.DataFrame) -> list[Row]:
    """Returns rows of runs.csv with test outcomes of the last evaluation where they have none."""
    names = [name for name in _OF_EVALUATIONS if name in evaluations]
    keys = ["run", "machine"] if "machine" in evaluations else ["run"]
    if not names:
        return rows
    last = evaluations.dropna(subset=names).drop_duplicates(keys, keep="last").set_index(keys)
    found = {
        key if isinstance(key, tuple) else (key,): dict(zip(names, map(repr, values), strict=True))
        for key, values in zip(last.index, last[names].to_numpy().tolist(), strict=True)
    }
    filled = []
    for row in rows:
        given = found.get(tuple(row.get(key, "") for key in keys), {})
        given = given if row["status"] == records.FINISHED else {}
        filled.append({**row, **{name: row.get(name) or text for name, text in given.items()}})
    return filled


def complete(study: Study, name: str, rows: list[Row]) -> list[Row]:
    """Returns a row for every planned run of an experiment; without a record: `missing`.

    Its factors are as in paths. Behind them those of other machines, and those made elsewhere.
    """
    experiment, tidy = study.experiments[name], [_tidy(row) for row in rows]
    own = {row["run"]: row for row in tidy if row.get("machine") in (None, study.machine)}
    planned = [own.get(run) or _missing_row(study, name, run) for run in experiment.trainings.runs]
    return planned + [
        row
        for row in tidy
        if experiment.own.path or row.get("machine") not in (None, study.machine)
    ]


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
    return {**row, "status": job_files.unrecorded(study.runs[run])}


def distinct(rows: list[Row]) -> dict[str, Row]:
    """Returns one row per run and machine: a run may stand in several experiments.

    Under the run's name; behind it, for another machine's, the machine's.
    """
    several = len({row.get("machine") for row in rows}) > 1
    return {row["run"] + (f" ({row['machine']})" if several else ""): row for row in rows}


def numbers(rows: list[Row]) -> dict[str, int]:
    """Returns run -> its number on the page."""
    runs = dict.fromkeys(row["run"] for row in rows)
    return {run: number for number, run in enumerate(runs)}


def build(rows: list[Row]) -> tuple[dict[str, Any], str]:
    """Returns the table, and the style rules of its columns: what is aligned, what is printed.

    What all runs share is no column: its name and value stand in `shared`, and the names of columns
    without any value in `empty`.
    """
    shared = _shared(rows)
    shown = [column for column in _columns(rows) if column.name not in shared]
    number_of, runs = numbers(rows), len(distinct(rows))
    repeated = "A run that several experiments share has a row for each of them: "
    repeated += f"{len(rows):,} rows of {wording.count(runs, 'run')}."
    table = {
        "columns": shown,
        "rows": [
            (number_of[row["run"]], row.get("seed", ""), [_cell(row, column) for column in shown])
            for row in rows
        ],
        "same": [(name, value) for name, value in _same(rows) if _informative(name, value)],
        "selects": _selects(rows, shown),
        "shared": [(name, _given(text)) for name, text in shared.items() if text],
        "empty": [name for name, text in shared.items() if not text],
        "shared_by_experiments": repeated if runs < len(rows) else "",
    }
    return table, _aligned_rule(shown) + _print_rule(shown)


def _shared(rows: list[Row]) -> dict[str, str]:
    """Returns the columns that have one value, or none, in all of several runs."""
    names = dict.fromkeys(name for row in rows for name in row)
    found = {name: {row.get(name, "") for row in rows} for name in names if name not in _KEPT}
    return {name: values.pop() for name, values in found.items() if len(values) == 1 < len(rows)}


def _columns(rows: list[Row]) -> list[Column]:
    """Returns the columns: what distinguishes runs, the status, outcomes, the rest, the name."""
    present = list(dict.fromkeys(name for row in rows for name in row))
    filled = {name: {row[name] for row in rows if row.get(name)} for name in present}
    further = filter(own_columns.is_own, present)
    same = {name for name, _ in _same(rows)}
    identity = [
        name
        for name in ("experiment", "machine", *run_factors.FACTORS, *further)
        if len(filled.get(name, ())) > 1 or name == "batch_size"
    ]
    front = [*identity, "status", *(name for name in _usual(present) if filled.get(name))]
    middle = [name for name in present if name != "run" and name not in same]
    order = dict.fromkeys([*front, *middle, *(name for name in present if name in same), "run"])
    return [
        _column(name, filled[name], usual=name in front or name == "run")
        for name in order
        if name in present
    ]


def _usual(present: list[str]) -> list[str]:
    """Returns what every study asks about, then other losses and accuracies of final weights."""
    evaluated = [name for name, column in MEASURES["evaluate"].columns.items() if column.label]
    asked = [name for name in present if outcomes.outcome(name)]
    return [*asked, *(name for name in evaluated if name not in asked)]


def _column(name: str, filled: set[str], usual: bool) -> Column:
    documented = columns.describe(name)
    values = [parsed(text) for text in filled]
    numeric = bool(filled) and None not in values
    if documented is not None and documented.kind:
        numeric = documented.kind in ("int", "float")
    aligned = numeric and not _is_factor(name)
    unit = f" [{documented.unit}]" if documented and documented.unit else ""
    return Column(
        name=name,
        label=Markup("_<wbr>").join(escape(part) for part in name.split("_")),
        kind="number" if numeric else "text",
        doc=f"{documented.doc}{unit}" if documented else "",
        usual=usual,
        decimals=common_decimals([v for v in values if v is not None]) if aligned else None,
    )


def _cell(row: Row, column: Column) -> Cell:
    text = row.get(column.name, "")
    if not text:
        return Cell(wording.ABSENT)
    if column.name == "status":
        return Cell(text, "", "" if text == records.FINISHED else "bad")
    value = parsed(text) if column.kind == "number" else None
    if value is None or _is_factor(column.name):
        return Cell(text)
    aligned = column.decimals is not None
    shown = wording.fixed(value, column.decimals) if aligned else wording.cell(value)
    return Cell(shown, "" if parsed(shown) == value else text)


def _same(rows: list[Row]) -> list[tuple[str, str]]:
    """Returns what was given and has one value in all rows (where there is any)."""
    values = {name: {row.get(name, "") for row in rows} - {""} for name in _GIVEN_COLUMNS}
    return [
        (name, _given(found.pop()))
        for name, found in values.items()
        if len(found) == 1 and name != "batch_size"
    ]


def _informative(name: str, value: str) -> bool:
    """Returns whether a shared value is worth a reader's time: not one that stands elsewhere."""
    if name in ("study", "machine", "dataset_digest", "model_digest"):
        return False
    factor = run_factors.FACTORS.get(name)
    return factor is None or factor.core or value != plain(factor.birth)


def _selects(rows: list[Row], columns: list[Column]) -> list[dict[str, Any]]:
    """Returns the drop-down filters: status, and experiment where there are several."""
    selects = []
    for name in ("status", "experiment"):
        counts = Counter(row.get(name, "") for row in rows)
        positions = [index for index, column in enumerate(columns) if column.name == name]
        if positions and (name == "status" or len(counts) > 1):
            options = [*counts.items()]
            selects.append({"label": name.title(), "column": positions[0], "options": options})
    return selects


def _aligned_rule(columns: list[Column]) -> str:
    """Returns one rule for all columns of numbers, so that no cell of theirs needs a class."""
    places = [index for index, column in enumerate(columns, 1) if column.kind == "number"]
    cells = ", ".join(f".runs td:nth-child({index})" for index in places)
    style = "text-align: right; font-variant-numeric: tabular-nums;"
    return f"{cells} {{ {style} }}\n" if cells else ""


def _print_rule(columns: list[Column]) -> str:
    usual = [column for column in columns if column.usual and column.name != "run"]
    printed = usual[:PRINTED_COLUMNS]
    hidden = [
        f".runs :is(th, td):nth-child({index})"
        for index, column in enumerate(columns, 1)
        if column not in printed
    ]
    return f"@media print {{ {', '.join(hidden)} {{ display: none; }} }}\n" if hidden else ""
