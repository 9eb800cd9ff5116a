"""The section of data sets, models and machines: records -> values of its template."""

from __future__ import annotations

import json
from collections import Counter
from typing import Any

from batchscope.core import display
from batchscope.report.report_inputs import ReportInputs
from batchscope.report.text import plain
from batchscope.store import records
from batchscope.study.names import split_token

_MAX_SKIPPED = 200  # The record of the data set lists all skipped files.
Row = dict[str, Any]


def build(inputs: ReportInputs) -> Row:
    return {
        "datasets": [_dataset(inputs, token) for token in inputs.datasets],
        "models": sorted(
            {
                (row["model"], row["dataset"], int(float(row["parameters"])))
                for row in inputs.rows
                if row.get("parameters")
            }
        ),
        "machines": _machines(inputs),
    }


def _dataset(inputs: ReportInputs, token: str) -> Row:
    record = inputs.datasets[token]
    skipped = record.get("skipped") or ()
    return {
        "name": split_token(token)[0],
        "token": token,
        "record": record,
        "balance": {
            split: (min(counts), max(counts))
            for split, counts in (record.get("class_counts") or {}).items()
            if counts
        },
        "skipped": skipped[:_MAX_SKIPPED],
        "skipped_count": record.get("skipped_count") or len(skipped),
        "warnings": list(records.data_warnings(token, record)),
    }


def processor_words(machine: Row) -> str:
    """Return the GPUs of a machine and its CPU with the number of usable cores."""
    gpus, cores = machine.get("gpu") or [], machine.get("usable_cores") or machine.get("cores")
    cpu = " ".join(str(machine.get("cpu") or "").split())
    cpu += display.aside(display.count(cores, "core")) if cpu and isinstance(cores, int) else ""
    return ", ".join(filter(None, [*dict.fromkeys(map(str, gpus)), cpu]))


def _machines(inputs: ReportInputs) -> list[Row]:
    """Return machines with versions, and their numbers of runs and timings by device."""
    machines: dict[str, Row] = {}
    runs = [*inputs.runs.values(), *inputs.other_runs]
    for use, use_records in (("Runs", runs), ("Timings", inputs.timings)):
        for record in use_records:
            machine, versions = record["machine"], record.get("versions") or {}
            key = json.dumps([machine, versions], sort_keys=True)
            row = machines.setdefault(key, {"machine": machine, "versions": versions, "uses": {}})
            device, threads = plain(record.get("device")), plain(record.get("threads"))
            row["uses"].setdefault(use, Counter())[f"{device}, {threads} threads"] += 1
    return list(machines.values())
