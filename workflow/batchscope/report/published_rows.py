"""Published values of documents next to the results: rows of published.csv -> values and texts."""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING, Any

import pandas

from batchscope.core.display import Unit
from batchscope.report.claim_rows import Links
from batchscope.report.report_inputs import ReportInputs
from batchscope.report.text import estimate
from batchscope.study import published_numbers, tasks
from batchscope.study.names import split_token

if TYPE_CHECKING:
    from batchscope.study.plan import Study

Row = dict[str, Any]


def build(study: Study, inputs: ReportInputs, links: Links) -> Row:
    """Return published values, split by whether this study has a value; empty without any."""
    examples = [
        {
            "dataset": split_token(token)[0],
            "published": number,
            "place": place,
            "counts": inputs.datasets.get(token, {}).get("counts") or {},
        }
        for token, (number, place) in study.published.items()
    ]
    rows = [
        {
            **described_value(row, results.tables.tasks),
            "experiment": results.experiment.title,
            "link": links.get((name, row["figure"])),
        }
        for name, results in inputs.experiments.items()
        for row in results.tables.published.to_dict("records")
    ]
    measured = [row for row in rows if row["here"]]
    absent = [row for row in rows if not row["here"]]
    section = {"examples": examples, "measured": measured, "absent": absent}
    return section if rows or examples else {}


def described_value(row: Row, learned: Collection[str] = (tasks.CLASSIFICATION,)) -> Row:
    """Return a row of published.csv with both numbers as texts, shares in per cent."""
    column, scale = row["column"], 100 if tasks.is_share(row["column"]) else 1
    described = published_numbers.COLUMNS[column]
    values = {name: None if pandas.isna(value) else value for name, value in row.items()}
    unit = "%" if described.unit == "share" else described.unit
    numbers = [values[name] for name in ("here", "here_low", "here_high")]
    return {
        **values,
        "label": described.label,
        "unit": tasks.unit_for_tasks(unit, learned),
        "published": "" if values["value"] is None else f"{scale * row['value']:.6g}",
        "here": estimate(numbers, Unit(times=scale)),
    }
