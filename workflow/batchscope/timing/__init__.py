"""Timing jobs, each alone on the machine: `epoch` of a run's configuration, the others of sweeps.

A timing of sweeps is one module with the function below, one line in `MODULES` and its settings
in `measure_settings.TIMINGS`::

    measure(results, sweep, settings, output, model_file=None) -> tuple[str, dict]
        Status and details of the record of a sweep, for settings by full name. What else it
        writes lies beside `output`.
"""

from __future__ import annotations

import importlib
from pathlib import Path
from types import ModuleType

from batchscope import disk
from batchscope.catalogue import measure_settings
from batchscope.catalogue.sweep_names import Sweep
from batchscope.host import description
from batchscope.store import records

# Modules are imported when they are asked for: the search for the largest batch size leaves
# TensorFlow to its children.
MODULES = {
    "throughput": "batchscope.timing.throughput",
    "utilisation": "batchscope.timing.utilisation",
    "max_batch_size": "batchscope.timing.max_batch_size",
    "profile": "batchscope.timing.profile",
}


def module(timing: str) -> ModuleType:
    """Imports and returns the module of a timing of sweeps.

    Raises:
        ValueError: If there is no such timing.
    """
    if timing not in MODULES:
        raise ValueError(f"Expected one of {', '.join(MODULES)}. Received: {timing!r}")
    return importlib.import_module(MODULES[timing])


def write(
    timing: str,
    results: Path | str,
    machine_name: str,
    sweep: Sweep,
    settings: str,
    output: Path | str,
    model_file: Path | str | None = None,
) -> None:
    """Measures a sweep and writes the record.

    Args:
        timing: Name of the timing.
        results: The folder of all results.
        machine_name: Name of this machine in the configuration.
        sweep: What is timed.
        settings: Name of the settings, as in the path.
        output: The record's file.
        model_file: The user's model file, where the model is not built in.

    Raises:
        UserError: If the data are missing, or the timing cannot be done here.
    """
    parsed = measure_settings.parse_settings(timing, settings)
    # Before a framework may leave this process fewer of the machine's cores.
    before, described = description.load(), description.describe()
    status, details = module(timing).measure(results, sweep, parsed, output, model_file)
    record = records.measure_record(
        timing,
        sweep.name,
        parsed,
        status,
        {},
        factors=sweep.factors,
        device=sweep.factors["device"],
        **{"threads": sweep.factors["threads"], **details},
        load={"before": before, "after": description.load()},
        versions=description.versions(),
        machine={"name": machine_name, **described},
    )
    disk.write_json(output, record)
