"""Timing jobs, each alone on the machine: of a training's configuration, or of a sweep.

Nothing is trained to its end here, and nothing is fitted over jobs: batchscope.analysis does.

What a timing is called, takes and fills stands in its entry in batchscope.catalogue.timings. Its
module, of the same name, has the function::

    measure(results, subject, settings, output, model_file=None) -> Timed

It gets every setting by full name, the user's model file where the model is not built in, and
writes no record: `write` does. What else it writes lies beside `output`, the record's file.
"""

from __future__ import annotations

import importlib
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType
from typing import Any

from batchscope import disk
from batchscope.catalogue import measure_settings
from batchscope.catalogue.run_names import Configuration
from batchscope.catalogue.sweep_names import Sweep
from batchscope.catalogue.timings import TIMINGS
from batchscope.host import description
from batchscope.store import records


@dataclass(frozen=True)
class Timed:
    """What a timing found."""

    status: str
    details: dict[str, Any]  # of the record; `device` and `threads` among them
    # Column of runs.csv -> number; what is left out, or None, has no value.
    values: dict[str, float | None] = field(default_factory=dict)


def module(timing: str) -> ModuleType:
    """Imports and returns the module of a timing: a search leaves TensorFlow to its children.

    Raises:
        ValueError: If there is no such timing.
    """
    if timing not in TIMINGS:
        raise ValueError(f"Expected one of {', '.join(TIMINGS)}. Received: {timing!r}")
    return importlib.import_module(f"{__name__}.{timing}")


def write(
    timing: str,
    results: Path | str,
    machine_name: str,
    subject: Sweep | Configuration,
    settings: str,
    output: Path | str,
    model_file: Path | str | None = None,
) -> None:
    """Times a sweep, or a training's configuration, and writes the record.

    Raises:
        UserError: If the data are missing, or the timing cannot be done here.
    """
    parsed = measure_settings.parse_settings(timing, settings)
    # Before a framework may leave this process fewer of the machine's cores.
    before, described = description.load(), description.describe()
    found = module(timing).measure(results, subject, parsed, output, model_file)
    record = records.measure_record(
        timing,
        subject.name,
        parsed,
        found.status,
        {**dict.fromkeys(TIMINGS[timing].columns), **found.values},
        factors=subject.factors,
        **found.details,
        load={"before": before, "after": description.load()},
        versions=description.versions(),
        machine={"name": machine_name, **described},
    )
    disk.write_json(output, record)
