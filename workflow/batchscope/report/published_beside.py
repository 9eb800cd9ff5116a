"""A document's numbers beside ours, from published.csv and the records of the data sets."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pandas

from batchscope.catalogue import columns, run_names
from batchscope.report.content import Inputs
from batchscope.report.text import format_interval
from batchscope.study import published_numbers

if TYPE_CHECKING:
    from batchscope.study.plan import Study

Links = dict[tuple[str, str], tuple[str, str]]  # experiment and figure -> label and address


def build(study: Study, inputs: Inputs, links: Links) -> dict[str, Any]:
    """Returns every number of a study's documents, by whether ours is there; empty without any."""
    used = [
        {
            "dataset": run_names.split_token(token)[0],
            "published": count,
            "place": place,
            "counts": inputs.datasets.get(token, {}).get("counts") or {},
        }
        for token, (count, place) in study.published.items()
    ]
    rows = [
        {
            **row_of(row),
            "experiment": found.experiment.title,
            "link": links.get((name, row["figure"])),
        }
        for name, found in inputs.experiments.items()
        for row in found.tables.published.to_dict("records")
    ]
    there, absent = [row for row in rows if row["here"]], [row for row in rows if not row["here"]]
    return {"examples": used, "here": there, "absent": absent} if used or rows else {}


def row_of(row: dict[str, Any]) -> dict[str, Any]:
    """Returns a row of published.csv with both numbers as texts, shares in per cent."""
    column, scale = row["column"], 100 if row["column"].endswith("accuracy") else 1
    parameter, described = published_numbers.COLUMNS[column], columns.describe(column)
    known = {name: None if pandas.isna(value) else value for name, value in row.items()}
    ours = (known[name] for name in ("here", "here_low", "here_high"))
    return {
        **known,
        "label": (described and described.label) or parameter.doc.removesuffix("."),
        "unit": "%" if parameter.unit in ("shares", "percent") else parameter.unit,
        "published": f"{scale * row['value']:.6g}",
        "here": format_interval(*(None if each is None else scale * each for each in ours)),
    }
