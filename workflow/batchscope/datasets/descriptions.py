"""Short descriptions of the tables and arrays of a study, for `plan`."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from batchscope import wording
from batchscope.datasets import tables
from batchscope.datasets.preparation import divided, system_error
from batchscope.datasets.raw import Request
from batchscope.errors import UserError
from batchscope.store import records
from batchscope.study import example_kinds, plan, tasks
from batchscope.study.names import split_token

_NAMED = 6  # largest number of columns or classes in a line
_TITLES = {
    tables.LABEL: "label",
    tables.NUMBER: "numbers",
    tables.BOOLEAN: "true or false",
    tables.CATEGORICAL: "categories",
    tables.IGNORED: "ignored",
    tables.REFUSED: "refused",
}


def described(study: plan.Study, results: Path | str) -> tuple[list[str], list[str]]:
    """Return the descriptions of a study's tables and arrays, and their problems."""
    lines: list[str] = []
    problems: list[str] = []
    for dataset, definition in study.datasets.items():
        place = f"datasets.{split_token(dataset)[0]}"
        request = Request(place, definition, Path(), Path())
        if definition["source"] not in ("csv", "npz"):
            continue
        try:
            if (record := records.data_record(results, dataset)) is not None:
                lines += [f"{place}, prepared: {_summary(record)}", *_learned(record)]
            elif definition["source"] == "csv":
                table = tables.read(request)
                problems += table.problems
                lines += [f"{place}: {table.rows:,} rows", *_columns(table.columns)]
                if table.raw is not None:
                    record = divided(request, table.raw).record
                    lines += [f"  after the split: {_summary(record)}", *_learned(record)]
            else:
                record = divided(request).record
                lines += [f"{place}: {_summary(record)}", *_learned(record)]
        except OSError as error:
            problems.append(str(system_error(place, error)))
        except UserError as error:
            problems += str(error).splitlines()
    return lines, problems


def _columns(columns: list[tables.TableColumn]) -> Iterator[str]:
    for kind, title in _TITLES.items():
        names = []
        for column in columns:
            if column.kind != kind:
                continue
            values = wording.count(len(column.categories), "value") if column.categories else ""
            missing = f"{column.missing:,} missing" if column.missing else ""
            notes = ", ".join(filter(None, (values, missing)))
            names.append(column.name[:40] + wording.aside(notes))
        if names:
            yield f"  {title}: {wording.some(names, most=_NAMED)}"


def _summary(record: dict[str, Any]) -> str:
    shape = record["input_shape"]
    kind = example_kinds.KINDS[record.get("kind", example_kinds.IMAGES)]
    size = "x".join(map(str, shape)) if len(shape) > 1 else f"{shape[0]} each"
    parts = ", ".join(f"{count:,} {part}" for part, count in record["counts"].items())
    return f"{kind} ({size}), {parts}"


def _learned(record: dict[str, Any]) -> Iterator[str]:
    names, counts = record["class_names"], [*record["class_counts"].values()]
    if record.get("task") == tasks.REGRESSION:
        means = zip(names, record["target_means"], record["target_deviations"], strict=True)
        targets = [f"{name} (mean {mean:.4g}, deviation {sd:.4g})" for name, mean, sd in means]
        yield f"  to predict: {wording.some(targets, most=_NAMED)}"
    elif counts:
        totals = map(sum, zip(*counts, strict=True))
        texts = [f"{name} {count:,}" for name, count in zip(names, totals, strict=True)]
        yield f"  {len(names)} classes: {wording.some(texts, most=_NAMED)}"
    else:
        yield f"  labels: {wording.some(names, most=_NAMED)}"
