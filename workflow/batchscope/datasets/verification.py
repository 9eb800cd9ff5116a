"""Whether the files of a study are still what their records say: every byte is read."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

from batchscope import datasets, disk
from batchscope.errors import UserError
from batchscope.store import records
from batchscope.study import plan


def verify(study: plan.Study, results: Path | str) -> str:
    """Checks the prepared arrays and the weights of a study's runs by their SHA-256.

    Returns:
        What was checked, in a sentence.

    Raises:
        UserError: If a file is missing or another one; it says so of every such file.
    """
    results, problems = Path(results), []
    data, runs = list(_data(study, results)), list(_weights(study, results))
    for check in (*data, *runs):
        try:
            check()
        except UserError as error:
            problems.append(str(error))
    if problems:
        raise UserError("\n".join(problems))
    counts = f"the arrays of {len(data)} data set(s), the weights of {len(runs)} run(s)"
    return f"Verified by SHA-256: {counts}."


def _data(study: plan.Study, results: Path) -> Iterator[Callable[[], object]]:
    for token in study.datasets:
        if (records.dataset_folder(results, token) / "record.json").exists():
            yield lambda token=token: datasets.load(results, token, verify=True)


def _weights(study: plan.Study, results: Path) -> Iterator[Callable[[], object]]:
    for run in study.runs:
        folder = records.run_folder(results, run)
        if records.run_record(folder).exists():
            yield lambda folder=folder: _check_weights(folder)


def _check_weights(folder: Path) -> None:
    record = records.run_record(folder)
    for name, sha256 in disk.read_json(record, "weights")["weights"].items():
        disk.check_sha256(folder / f"{name}.npz", sha256, delete=record)
