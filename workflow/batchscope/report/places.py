"""Where the numbers come from: data sets, models and machines; places.html.j2 has the words."""

from __future__ import annotations

import base64
import json
from collections import Counter
from collections.abc import Iterable
from itertools import zip_longest
from typing import Any

from batchscope.catalogue import run_names
from batchscope.catalogue.weight_counts import Summary
from batchscope.datasets.samples import Sample
from batchscope.report.content import Inputs, Look
from batchscope.report.text import plain
from batchscope.store import data_warnings

MANY_CLASSES = 40  # of more, the smallest and the largest are given
SKIPPED_SHOWN = 200  # more are in the data set's record


def dataset(token: str, record: dict[str, Any], samples: Iterable[Sample] = ()) -> dict[str, Any]:
    """Returns what the page shows of one prepared data set."""
    splits = list(record.get("counts") or ())
    per_split = record.get("class_counts") or {}
    lists = [per_split.get(split) or [] for split in splits]
    balance = [*zip_longest(*lists, fillvalue=0)]  # of each class its examples in every split
    names = [*map(str, record.get("class_names") or [])]
    labels = [*names, *map(str, range(len(names), len(balance)))]
    many = len(balance) > MANY_CLASSES
    skipped = record.get("skipped") or ()
    return {
        "name": run_names.split_token(token)[0],
        "token": token,
        "record": record,
        "samples": [(each.label, each.text, _address(each.image), each.small) for each in samples],
        "splits": splits if balance else [],
        "balance": [] if many else list(zip(labels, balance, strict=False)),
        "ends": [(min(each), max(each)) for each in zip(*balance, strict=True)] if many else [],
        "skipped": skipped[:SKIPPED_SHOWN],
        "skipped_count": record.get("skipped_count") or len(skipped),
        "warnings": list(data_warnings.warnings(token, record)),
    }


def _address(image: bytes) -> str:
    return f"data:image/webp;base64,{base64.b64encode(image).decode()}" if image else ""


def models(found: dict[Look, list[Summary]]) -> list[dict[str, Any]]:
    """Returns what the page shows of each model: its layers, and their weights in all."""
    return [
        {
            "name": run_names.split_token(model)[0],
            "shape": shape,
            "classes": classes,
            "layers": layers,
            "weights": sum(each.weights for each in layers),
        }
        for (model, shape, classes), layers in found.items()
    ]


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
