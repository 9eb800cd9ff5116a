"""Where the numbers come from: data sets and machines."""

from __future__ import annotations

import base64
import json
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

from batchscope import wording
from batchscope.analysis import run_series
from batchscope.catalogue import run_names
from batchscope.catalogue.weight_counts import Summary
from batchscope.datasets.samples import Sample
from batchscope.report.content import Look, Records
from batchscope.report.text import is_number, plain
from batchscope.store import data_warnings

MANY_CLASSES = 40  # more are summarised in a line
SKIPPED_SHOWN = 200  # more are in the data set's record
_DATASET_LABELS = {
    "classes": "Classes",
    "scale": "Scale",
    "split_seed": "Split seed",
    "bytes": "Size on disk",
    "definition": "Definition",
}
_MACHINE_LABELS = {
    "cpu": "CPU",
    "cpu_max_mhz": "CPU clock, at most",
    "cores": "Cores",
    "logical_cores": "Logical cores",
    "usable_cores": "Usable cores",
    "gpu": "GPU",
    "gpu_max_mhz": "GPU clock, at most",
    "gpu_cores": "GPU cores",
    "memory_gb": "Memory",
    "platform": "System",
}


def dataset(token: str, record: dict[str, Any], samples: Iterable[Sample] = ()) -> dict[str, Any]:
    """Returns what the page shows of one prepared data set."""
    counts = record.get("counts") or {}
    splits = list(counts)
    pairs = [("Name in paths", token), ("Source", plain(record.get("source")))]
    pairs += [(f"Examples, {split}", plain(counts[split])) for split in splits]
    if record.get("input_shape"):
        pairs.append(("Shape", _shape(record["input_shape"])))
    for key, label in _DATASET_LABELS.items():
        if record.get(key) is not None:
            pairs.append((label, _dataset_value(key, record[key])))
    balance = _balance(record, splits)
    if len(balance) > MANY_CLASSES:
        for position, split in enumerate(splits):
            sizes = [row[position] for _, row in balance]
            pairs.append((f"Per class, {split}", f"{min(sizes)} to {max(sizes)}"))
        balance = []
    items = record.get("skipped") or ()
    skipped = [(plain(item.get("file")), plain(item.get("reason"))) for item in items]
    return {
        "name": run_names.split_token(token)[0],
        "pairs": pairs,
        "samples": [(each.label, each.text, _address(each.image), each.small) for each in samples],
        "splits": splits if balance else [],
        "balance": balance,
        "checksums": list((record.get("sha256") or {}).items()),
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
            "title": f"{run_names.split_token(model)[0]}, for examples of {_shape(shape)} "
            f"in {wording.count(classes, 'class', 'classes')}",
            "layers": [(each.layer, _shape(each.shape), f"{each.weights:,}") for each in layers],
            "weights": f"{sum(each.weights for each in layers):,}",
        }
        for (model, shape, classes), layers in found.items()
    ]


def _shape(shape: Sequence[int | None] | None) -> str:
    """Returns `8 \N{MULTIPLICATION SIGN} 8 \N{MULTIPLICATION SIGN} 1`."""
    if shape is None:
        return wording.ABSENT
    sides = ("any" if side is None else str(side) for side in shape)
    return " \N{MULTIPLICATION SIGN} ".join(sides)


def _dataset_value(key: str, value: Any) -> str:
    if key == "bytes" and is_number(value):
        return wording.size(value)
    if key == "scale" and is_number(value):
        return f"\N{MULTIPLICATION SIGN} {wording.cell(value, 6)}"
    return plain(value)


def _balance(record: dict[str, Any], splits: list[str]) -> list[tuple[str, list[int]]]:
    per_split = record.get("class_counts") or {}
    lists = [per_split.get(split) or [] for split in splits]
    labels = record.get("class_names") or []
    length = max((len(counts) for counts in lists), default=0)
    labels = [*map(str, labels[:length]), *map(str, range(len(labels), length))]
    return [
        (label, [counts[index] if index < len(counts) else 0 for counts in lists])
        for index, label in enumerate(labels)
    ]


def machines(made: Records) -> dict[str, Any]:
    """Returns the table of machines with what was made on them: a column per set of versions."""
    columns: dict[str, dict[str, Any]] = {}
    for use, noun, found in (
        ("Trainings", "run", [*made.runs.values(), *made.other_runs]),
        ("Times", "timing job", made.timings),
    ):
        for record in found:
            machine, versions = record.get("machine"), record.get("versions") or {}
            machine = machine if isinstance(machine, dict) else {"name": machine}
            key = json.dumps([machine, versions], sort_keys=True)
            column = columns.setdefault(key, {"machine": machine, "versions": versions, "uses": {}})
            how = (plain(record.get("device")), record.get("threads"))
            column["uses"].setdefault((use, noun), Counter())[how] += 1
    order = {key: place for place, key in enumerate(_MACHINE_LABELS)}
    keys = dict.fromkeys(key for column in columns.values() for key in column["machine"])
    keys.pop("name", None)
    rows = [
        (
            _MACHINE_LABELS.get(key, key),
            [_machine_value(key, column["machine"].get(key)) for column in columns.values()],
        )
        for key in sorted(keys, key=lambda key: order.get(key, len(order)))
    ]
    for use in dict.fromkeys(use for column in columns.values() for use in column["uses"]):
        rows.append((use[0], [_uses(column["uses"], use) for column in columns.values()]))
    if columns:
        rows.append(("Versions", [_versions(column["versions"]) for column in columns.values()]))
    titles = [plain(column["machine"].get("name")) for column in columns.values()]
    return {"titles": titles, "rows": rows}


def _uses(uses: dict[tuple[str, str], Counter], use: tuple[str, str]) -> str:
    """Returns `30 runs on CPU with 1 thread`, or `none`."""
    counts = uses.get(use)
    if not counts:
        return "none"
    parts = [
        f"{'' if len(counts) == 1 else f'{count} '}on {run_series.describe({'device': device})} "
        f"with {_threads(threads)}"
        for (device, threads), count in counts.items()
    ]
    return f"{wording.count(counts.total(), use[1])} {', '.join(parts)}"


def _threads(threads: Any) -> str:
    if threads == 0:
        return "all threads"
    known = isinstance(threads, int)
    return wording.count(threads, "thread") if known else f"{plain(threads)} threads"


def _versions(versions: Any) -> str:
    if not isinstance(versions, dict):
        return plain(versions)
    return ", ".join(f"{name} {version}" for name, version in versions.items())


def _machine_value(key: str, value: Any) -> str:
    if key == "memory_gb" and is_number(value):
        return f"{wording.cell(value, 3)} GiB"
    if key == "gpu" and not value:
        return "none"
    values = value if isinstance(value, list) else [value]
    unit = " MHz" if key.endswith("_mhz") else ""
    return ", ".join(plain(item) + (unit if is_number(item) else "") for item in values)
