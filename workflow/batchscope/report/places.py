"""Where the numbers come from: data sets and machines."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

from batchscope import names
from batchscope.report.content import Inputs
from batchscope.report.text import format_number, is_number, plain, plural, size

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
    "cores": "Cores",
    "gpu": "GPU",
    "memory_gb": "Memory",
    "platform": "System",
    "name": "Name",
}
_IDENTITY = ("machine", "device", "threads", "versions")


def dataset(token: str, record: dict[str, Any]) -> dict[str, Any]:
    """Returns what the page shows of one prepared data set."""
    counts = record.get("counts") or {}
    splits = list(counts)
    pairs = [("Name in paths", token), ("Source", plain(record.get("source")))]
    pairs += [(f"Images, {split}", plain(counts[split])) for split in splits]
    if record.get("input_shape"):
        pairs.append(("Shape", " \N{MULTIPLICATION SIGN} ".join(map(str, record["input_shape"]))))
    for key, label in _DATASET_LABELS.items():
        if record.get(key) is not None:
            pairs.append((label, _dataset_value(key, record[key])))
    balance = _balance(record, splits)
    if len(balance) > MANY_CLASSES:
        for position, split in enumerate(splits):
            sizes = [row[position] for _, row in balance]
            pairs.append((f"Per class, {split}", f"{min(sizes)} to {max(sizes)}"))
        balance = []
    skipped = [
        (plain(item.get("file")), plain(item.get("reason"))) for item in record.get("skipped") or ()
    ]
    return {
        "name": names.split_token(token)[0],
        "pairs": pairs,
        "splits": splits if balance else [],
        "balance": balance,
        "checksums": list((record.get("sha256") or {}).items()),
        "skipped": skipped[:SKIPPED_SHOWN],
        "skipped_count": record.get("skipped_count") or len(skipped),
    }


def _dataset_value(key: str, value: Any) -> str:
    if key == "bytes" and is_number(value):
        return size(value)
    if key == "scale" and is_number(value):
        return f"\N{MULTIPLICATION SIGN} {format_number(value, 6)}"
    return plain(value)


def _balance(record: dict[str, Any], splits: list[str]) -> list[tuple[str, list[int]]]:
    """Returns class -> images per split."""
    per_split = record.get("class_counts") or {}
    lists = [per_split.get(split) or [] for split in splits]
    labels = record.get("class_names") or []
    length = max((len(counts) for counts in lists), default=0)
    return [
        (
            str(labels[index]) if index < len(labels) else str(index),
            [counts[index] if index < len(counts) else 0 for counts in lists],
        )
        for index in range(length)
    ]


def machines(inputs: Inputs) -> list[dict[str, Any]]:
    """Returns one entry per distinct machine, device, threads and versions."""
    trainings = _grouped(inputs.runs.values())
    timings = _grouped(inputs.timings)
    return [
        *(_machine("Trainings", "run", group) for group in trainings),
        *(_machine("Times", "timing job", group) for group in timings),
    ]


def _grouped(found: Iterable[dict[str, Any]]) -> list[list[dict[str, Any]]]:
    groups: dict[str, list[dict[str, Any]]] = {}
    for record in found:
        identity = {key: record.get(key) for key in _IDENTITY}
        groups.setdefault(json.dumps(identity, sort_keys=True), []).append(identity)
    return list(groups.values())


def _machine(title: str, noun: str, group: list[dict[str, Any]]) -> dict[str, Any]:
    return {"title": f"{title}: {plural(len(group), noun)}", "pairs": _pairs(group[0])}


def _pairs(identity: dict[str, Any]) -> list[tuple[str, str]]:
    machine = identity["machine"]
    machine = machine if isinstance(machine, dict) else {"name": machine}
    known = [key for key in _MACHINE_LABELS if key in machine]
    others = [key for key in machine if key not in known]
    pairs = [
        (_MACHINE_LABELS.get(key, key), _machine_value(key, machine[key]))
        for key in [*known, *others]
    ]
    pairs += [("Device", plain(identity["device"])), ("Threads", plain(identity["threads"]))]
    versions = identity["versions"]
    if isinstance(versions, dict):
        listed = ", ".join(f"{name} {version}" for name, version in versions.items())
        pairs.append(("Versions", listed))
    return pairs


def _machine_value(key: str, value: Any) -> str:
    if key == "memory_gb" and is_number(value):
        return f"{format_number(value, 3)} GB"
    if key == "gpu" and not value:
        return "none"
    return plain(value)
