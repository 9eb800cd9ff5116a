"""Data sets and machines of a study as the page shows them."""

from __future__ import annotations

import base64
import json
from collections import Counter
from itertools import zip_longest
from typing import Any

from batchscope import wording
from batchscope.report.content import Inputs
from batchscope.report.text import plain
from batchscope.store import records

_MOST_CLASSES = 40  # more have the smallest and the largest number of examples only
_SKIPPED_SHOWN = 200  # more are in the data set's record
Row = dict[str, Any]


def dataset(inputs: Inputs, token: str) -> Row:
    record = inputs.datasets[token]
    splits, class_counts = list(record.get("counts") or ()), record.get("class_counts") or {}
    columns = [class_counts.get(split) or [] for split in splits]
    balance = list(zip_longest(*columns, fillvalue=0))  # examples of a class in every split
    names = list(map(str, record.get("class_names") or []))
    labels = [*names, *map(str, range(len(names), len(balance)))]
    many, skipped = len(balance) > _MOST_CLASSES, record.get("skipped") or ()
    samples = [
        (sample.label, sample.text, _address(sample.image), sample.small)
        for sample in inputs.samples.get(token, ())
    ]
    return {
        "token": token,
        "record": record,
        "samples": samples,
        "splits": splits if balance else [],
        "balance": [] if many else list(zip(labels, balance, strict=False)),
        "ends": [(min(each), max(each)) for each in zip(*balance, strict=True)] if many else [],
        "skipped": skipped[:_SKIPPED_SHOWN],
        "skipped_count": record.get("skipped_count") or len(skipped),
        "warnings": list(records.data_warnings(token, record)),
    }


def _address(image: bytes) -> str:
    return f"data:image/webp;base64,{base64.b64encode(image).decode()}" if image else ""


def processor(machine: Row) -> str:
    """Return the GPUs of a machine and its CPU with the number of usable cores."""
    gpus, cores = machine.get("gpu"), machine.get("usable_cores") or machine.get("cores")
    cpu = " ".join(str(machine.get("cpu") or "").split())
    cpu += wording.aside(wording.count(cores, "core")) if cpu and isinstance(cores, int) else ""
    gpus = [gpus] if isinstance(gpus, str) else gpus or []
    return ", ".join(filter(None, [*dict.fromkeys(map(str, gpus)), cpu]))


def machines(inputs: Inputs) -> list[Row]:
    """Return machines with versions, and their numbers of runs and timings by device."""
    rows: dict[str, Row] = {}
    runs = [*inputs.runs.values(), *inputs.other_runs]
    for use, made in (("run", runs), ("timing job", inputs.timings)):
        for record in made:
            machine, versions = record["machine"], record.get("versions") or {}
            key = json.dumps([machine, versions], sort_keys=True)
            row = rows.setdefault(key, {"of": machine, "versions": versions, "uses": {}})
            how = (plain(record.get("device")), record.get("threads"))
            row["uses"].setdefault(use, Counter())[how] += 1
    return list(rows.values())
