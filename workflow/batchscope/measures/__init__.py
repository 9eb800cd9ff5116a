"""One module per measure: pure functions, and `measure_run`, which measures a finished run.

What a measure is called, takes and fills stands in its entry in batchscope.catalogue.measures. Its
module, of the same name, has the function::

    measure_run(results, run, settings, model_file=None) -> tuple[dict, dict]
        Column -> value, and the details of the record, of a run that finished.

A measure that writes more than its record, or is of two runs, has a `write` of its own in place
of `measure_run`.
"""

from __future__ import annotations

import importlib
from pathlib import Path
from types import ModuleType
from typing import Any

from batchscope import disk
from batchscope.catalogue import measure_settings
from batchscope.catalogue.measures import MEASURES
from batchscope.store import records


def module(measure: str) -> ModuleType:
    """Imports and returns the module of a measure: some need TensorFlow, some do not.

    Raises:
        ValueError: If there is no such measure.
    """
    if measure not in MEASURES:
        raise ValueError(f"Expected one of {', '.join(MEASURES)}. Received: {measure!r}")
    return importlib.import_module(f"{__name__}.{measure}")


def write(
    measure: str,
    results: Path | str,
    runs: tuple[str, ...],
    settings: str,
    output: Path | str,
    model_file: Path | str | None = None,
) -> None:
    """Measures a run and writes the record; of a run that did not finish, its status alone.

    Args:
        measure: Name of the measure.
        results: The folder of all results.
        runs: Name of the run, or of both.
        settings: Name of the settings, as in the path.
        output: The record's file.
        model_file: The user's model file, where the model is not built in.

    Raises:
        UserError: If the run or its data are missing, or the measure refuses it.
    """
    found = module(measure)
    if hasattr(found, "write"):
        found.write(results, *runs, settings, output, model_file)
        return
    (run,) = runs
    parsed = measure_settings.parse_settings(measure, settings)
    path = records.run_folder(results, run) / "record.json"
    status = disk.read_json(path, "status")["status"]
    values: dict[str, float | None] = dict.fromkeys(MEASURES[measure].columns_for(parsed))
    details: dict[str, Any] = {}
    if status == records.FINISHED:
        measured, details = found.measure_run(results, run, parsed, model_file)
        values.update(measured)
    record = records.measure_record(measure, run, parsed, status, values, **details)
    disk.write_json(output, record)
