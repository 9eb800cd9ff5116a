"""One module per measure: pure functions, and `measure_run`, which measures a finished run.

A new measure is one module with the two functions below, one line in `MODULES` and its
settings in `measure_settings.MEASURES`::

    columns(settings) -> tuple[str, ...]
        Columns of the tables that the measure fills, for its settings by full name.
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
from batchscope.store import records

# Modules are imported when they are asked for: some need TensorFlow, some do not.
MODULES = {
    "evaluate": "batchscope.measures.evaluate",
    "sharpness": "batchscope.measures.sharpness",
    "weight_distance": "batchscope.measures.weight_distance",
    "displacement": "batchscope.measures.displacement",
    "gradient_alignment": "batchscope.measures.gradient_alignment",
    "hessian": "batchscope.measures.hessian",
    "sam_sharpness": "batchscope.measures.sam_sharpness",
    "landscape": "batchscope.measures.landscape",
    "line": "batchscope.measures.line",
}


def module(measure: str) -> ModuleType:
    """Imports and returns the module of a measure.

    Raises:
        ValueError: If there is no such measure.
    """
    if measure not in MODULES:
        raise ValueError(f"Expected one of {', '.join(MODULES)}. Received: {measure!r}")
    return importlib.import_module(MODULES[measure])


def write(
    measure: str,
    results: Path | str,
    run: str,
    settings: str,
    output: Path | str,
    model_file: Path | str | None = None,
) -> None:
    """Measures a run and writes the record; of a run that did not finish, its status alone.

    Args:
        measure: Name of a measure of one run.
        results: The folder of all results.
        run: Name of the run.
        settings: Name of the settings, as in the path.
        output: The record's file.
        model_file: The user's model file, where the model is not built in.

    Raises:
        UserError: If the run or its data are missing, or the measure refuses it.
    """
    found = module(measure)
    if hasattr(found, "write"):
        found.write(results, run, settings, output, model_file)
        return
    parsed = measure_settings.parse_settings(measure, settings)
    path = records.run_folder(results, run) / "record.json"
    status = disk.read_json(path, "status")["status"]
    values: dict[str, float | None] = dict.fromkeys(found.columns(parsed))
    details: dict[str, Any] = {}
    if status == records.FINISHED:
        values, details = found.measure_run(results, run, parsed, model_file)
    record = records.measure_record(measure, run, parsed, status, values, **details)
    disk.write_json(output, record)
