"""A document's numbers beside ours: one table of a study, with our interval at each."""

from __future__ import annotations

import io
import math
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, NamedTuple

import pandas

from batchscope.analysis import intervals, run_series
from batchscope.catalogue import columns, run_names
from batchscope.report.content import Figure, Inputs
from batchscope.report.text import Estimate, format_interval
from batchscope.store import records
from batchscope.study import published_numbers
from batchscope.tables import csv_tables

if TYPE_CHECKING:
    from batchscope.study.plan import Experiment, Study

READING = (
    "What a document gives is of its own machine, data and network: a contrast, and no target. "
    "Ours are means over seeds with 95 % intervals (Student's t); times, utilisation and "
    "throughput, which have no seeds, are medians with their quartiles."
)


class Row(NamedTuple):
    """One number of a document and ours; the number of its examples has no experiment.

    Attributes:
        where: What the document calls the place.
        figure: The names of the experiment and of its figure that shows the number.
        what: What the number is of, with its unit and the series.
        here: Ours; None where there is none.
        note: How many seeds stand behind ours, or why there is none.
    """

    experiment: str
    where: str
    figure: tuple[str, str]
    what: str
    batch_size: int | str
    published: str
    here: Estimate | None
    note: str


def build(study: Study, inputs: Inputs) -> list[Row]:
    """Returns every number of a study's documents, in their order; examples first.

    Ours are read from the tables of the figures and from the records of the data sets.
    """
    used = [
        _examples(token, *stated, inputs.datasets.get(token, {}))
        for token, stated in study.published.items()
    ]
    return used + [
        row
        for found in inputs.experiments.values()
        for row in _of_experiment(found.experiment, {each.name: each for each in found.figures})
    ]


def _examples(token: str, published: int, place: str, record: dict[str, Any]) -> Row:
    """Returns how many examples of a data set a document used, beside ours."""
    counts = record.get("counts")
    here = Estimate(f"{sum(counts.values()):,}") if counts else None
    parts = ", ".join(f"{split} {count:,}" for split, count in (counts or {}).items())
    what = f"Examples of {run_names.split_token(token)[0]}"
    return Row("", place, ("", ""), what, "", f"{published:,}", here, parts or "not prepared here")


def _of_experiment(experiment: Experiment, figures: dict[str, Figure]) -> Iterable[Row]:
    for name, series in experiment.numbers.items():
        where = " ".join(experiment.published[name]["figure"].split())
        frame = _own(figures[name]) if name in figures else pandas.DataFrame()
        for one in series:
            factors = dict(one.factors)
            for token in {"dataset", "model"} & factors.keys():
                factors[token] = run_names.split_token(factors[token])[0]
            chosen = _matching(frame, factors)
            words = run_series.describe(factors)
            for column, numbers in one.columns.items():
                for size, number in zip(one.batch_sizes, numbers, strict=True):
                    scale = 100 if column.endswith("accuracy") else 1
                    here, note = _ours(chosen, column, size, scale)
                    what = ", ".join(filter(None, [_label(column), words]))
                    shown = f"{scale * number:.6g}"
                    place = experiment.name, name
                    yield Row(experiment.title, where, place, what, size, shown, here, note)


def _own(figure: Figure) -> pandas.DataFrame:
    """Returns the rows of a figure's table that are ours."""
    if not figure.csv:
        return pandas.DataFrame()
    frame = csv_tables.read(io.StringIO(figure.csv.decode()))
    return frame[frame["document"].isna()] if "document" in frame else frame


def _matching(frame: pandas.DataFrame, factors: dict[str, Any]) -> pandas.DataFrame:
    """Returns the rows of a series; a factor that the table does not have is the same in all."""
    for factor, value in factors.items():
        if factor in frame:
            frame = frame[frame[factor] == value]
    return frame


def _ours(
    frame: pandas.DataFrame, column: str, batch_size: int, scale: int
) -> tuple[Estimate | None, str]:
    """Returns our number with its interval, and what stands behind it, or why there is none."""
    if frame.empty or column not in frame:
        return None, "not measured here"
    rows = frame[frame["batch_size"] == batch_size]
    if rows.empty:
        return None, "no such batch size here"
    keys = [name for name in (*run_series.varying(frame), "seed") if name in rows]
    rows = rows[[*dict.fromkeys((*keys, "status")), *_of(column, rows)]].drop_duplicates()
    if "status" in rows:
        rows = rows[rows["status"] == records.FINISHED]
    rows = rows[rows[column].notna()]
    if rows.empty:
        return None, "not measured here"
    if f"{column}_q1" in rows or "seed" not in rows:
        ends = rows[_of(column, rows)].drop_duplicates()
        if len(ends) > 1:
            return None, "several settings here"
        value = ends.iloc[0]
        low, high = (value.get(f"{column}_{end}", math.nan) for end in ("q1", "q3"))
        found = format_interval(*(scale * float(each) for each in (value[column], low, high)))
        return found, "quartiles" if found and found.low else ""
    if rows["seed"].duplicated().any():
        return None, "several settings here"
    interval = intervals.t_interval(rows[column].astype(float))
    ends = (interval.mean, interval.low, interval.high)
    return format_interval(*(scale * float(each) for each in ends)), f"n {len(rows)}"


def _of(column: str, rows: pandas.DataFrame) -> list[str]:
    return [name for name in (column, f"{column}_q1", f"{column}_q3") if name in rows]


def _label(column: str) -> str:
    """Returns what a column is, with its unit: `Test accuracy (%)`."""
    parameter = published_numbers.COLUMNS[column]
    described = columns.describe(column)
    label = (described.label if described else "") or parameter.doc.removesuffix(".")
    return f"{label} ({'%' if parameter.unit in ('shares', 'percent') else parameter.unit})"
