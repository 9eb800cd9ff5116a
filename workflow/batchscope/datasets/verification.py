"""Whether the files of a study are still what their records say: every byte is read."""

from __future__ import annotations

from functools import partial
from pathlib import Path

from batchscope import datasets, disk
from batchscope.errors import UserError
from batchscope.store import records
from batchscope.study import plan


def verify(study: plan.Study, results: Path | str) -> str:
    """Checks arrays and weights of a study by their SHA-256; returns what, in a sentence.

    Raises:
        UserError: If a file is missing or another one; it says so of every such file.
    """
    folders = [records.dataset_folder(results, token) for token in study.datasets]
    data = [
        partial(datasets.load, results, folder.name, verify=True)
        for folder in folders
        if (folder / "record.json").exists()
    ]
    made = [records.run_record(records.run_folder(results, run)) for run in study.runs]
    runs = [partial(_check_weights, record) for record in made if record.exists()]
    problems = []
    for check in (*data, *runs):
        try:
            check()
        except UserError as error:
            problems.append(str(error))
    if problems:
        raise UserError("\n".join(problems))
    counts = f"the arrays of {len(data)} data set(s), the weights of {len(runs)} run(s)"
    return f"Verified by SHA-256: {counts}."


def _check_weights(record: Path) -> None:
    for name, sha256 in disk.read_json(record, "weights")["weights"].items():
        disk.check_sha256(record.with_name(f"{name}.npz"), sha256, delete=record)
