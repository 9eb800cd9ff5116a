"""Where the numbers come from: data sets and machines; places.html.j2 has the words."""

from __future__ import annotations

import base64
import json
from collections import Counter
from collections.abc import Iterable
from itertools import zip_longest
from typing import Any

from batchscope.datasets.samples import Sample
from batchscope.report.content import Inputs
from batchscope.report.text import plain
from batchscope.store import records

MANY_CLASSES = 40  # of more, the smallest and the largest are given
SKIPPED_SHOWN = 200  # more are in the data set's record


def datasets(inputs: Inputs) -> list[dict[str, Any]]:
    """Returns what the page shows of each prepared data set."""
    return [
        _dataset(token, record, inputs.samples.get(token, ()))
        for token, record in inputs.datasets.items()
    ]


def _dataset(token: str, record: dict[str, Any], samples: Iterable[Sample]) -> dict[str, Any]:
    splits = list(record.get("counts") or ())
    per_split = record.get("class_counts") or {}
    lists = [per_split.get(split) or [] for split in splits]
    balance = [*zip_longest(*lists, fillvalue=0)]  # of each class its examples in every split
    names = [*map(str, record.get("class_names") or [])]
    labels = [*names, *map(str, range(len(names), len(balance)))]
    many = len(balance) > MANY_CLASSES
    skipped = record.get("skipped") or ()
    return {
        "token": token,
        "record": record,
        "samples": [(each.label, each.text, _address(each.image), each.small) for each in samples],
        "splits": splits if balance else [],
        "balance": [] if many else list(zip(labels, balance, strict=False)),
        "ends": [(min(each), max(each)) for each in zip(*balance, strict=True)] if many else [],
        "skipped": skipped[:SKIPPED_SHOWN],
        "skipped_count": record.get("skipped_count") or len(skipped),
        "warnings": list(records.data_warnings(token, record)),
    }


def _address(image: bytes) -> str:
    return f"data:image/webp;base64,{base64.b64encode(image).decode()}" if image else ""


def machines(inputs: Inputs) -> list[dict[str, Any]]:
    """Returns each machine and set of versions, with what was made there.

    That is how many runs and timings were made on each device with so many threads.
    """
    columns: dict[str, dict[str, Any]] = {}
    runs = [*inputs.runs.values(), *inputs.other_runs]
    for use, found in (("run", runs), ("timing job", inputs.timings)):
        for record in found:
            machine, versions = record["machine"], record.get("versions") or {}
            key = json.dumps([machine, versions], sort_keys=True)
            column = columns.setdefault(key, {"of": machine, "versions": versions, "uses": {}})
            how = (plain(record.get("device")), record.get("threads"))
            column["uses"].setdefault(use, Counter())[how] += 1
    return list(columns.values())
