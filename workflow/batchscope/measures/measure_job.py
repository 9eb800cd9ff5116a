"""The job of a measure: measure one run or a pair of runs, and write the record."""

from __future__ import annotations

import importlib
import shutil
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from batchscope.core import disk
from batchscope.measures import Measured
from batchscope.measures.finished_run import FinishedRun
from batchscope.store import records
from batchscope.study import names, tasks
from batchscope.study.registry import MEASURES


def write(measure: str, runs: Sequence[FinishedRun], settings: str, output: Path | str) -> None:
    """Measure one run or a pair of runs; write the record, and the npz if the measure has one.

    If a run did not finish, the record has the status of the first such run and no values. A killed
    job continues from the files in a folder next to the record. The folder is deleted after the
    record is written.
    """
    entry = MEASURES[measure]
    parsed = names.parse_settings(measure, settings)
    scratch = Path(output).with_suffix(".kept")
    run, *partners = (replace(run, scratch=scratch) for run in runs)
    statuses = [run.record["status"] for run in (run, *partners)]
    status = next((status for status in statuses if status != records.FINISHED), records.FINISHED)
    epochs_run = run.record["epochs_run"]
    if status != records.FINISHED:
        measured = Measured()
    elif parsed.get("epoch", 0) > epochs_run:
        measured = Measured(details={"message": f"The training stopped after epoch {epochs_run}."})
    else:
        if entry.data:
            entry.check(run.factors, parsed, run.data.record["counts"]["train"])
        module = importlib.import_module(f"batchscope.measures.{measure}")
        measured = module.measure_run(run, *partners, parsed)
    task = records.dataset_task(run.results, run.factors["dataset"]) or tasks.CLASSIFICATION
    columns = tasks.columns_of_tasks(entry.columns_for(parsed), [task])
    values = {**dict.fromkeys(columns), **measured.values}
    details = {**({"other": partners[0].name} if entry.pairs else {}), **measured.details}
    record = records.measure_record(measure, run.name, parsed, status, values, **details)
    if ".npz" in entry.also_writes:
        disk.write_arrays(Path(output).with_suffix(".npz"), measured.arrays)
    disk.write_json(output, record)
    shutil.rmtree(scratch, ignore_errors=True)
