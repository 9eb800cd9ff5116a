"""What is measured of a finished run, or of two: one module per measure.

Nothing is trained or timed here, and no module but this one writes a file.

What a measure is called, takes and fills stands in its entry in batchscope.catalogue.measures. Its
module, of the same name, has the function::

    measure_run(run: FinishedRun, settings: dict) -> Measured

or, of two runs, `measure_run(run, other, settings)`. It gets every setting by full name and is
asked of runs that finished, and reached the setting `epoch` where there is one. A `UserError` says
where a run's weights or data are missing.
"""

from __future__ import annotations

import importlib
import math
import shutil
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from batchscope import disk
from batchscope.catalogue import names, tasks
from batchscope.catalogue.measures import MEASURES
from batchscope.measures.finished_run import FinishedRun
from batchscope.store import records


@dataclass(frozen=True)
class Measured:
    """What a measure found."""

    # Column of runs.csv -> number; what is left out, or None, has no value.
    values: dict[str, float | None] = field(default_factory=dict)
    details: dict[str, Any] = field(default_factory=dict)  # what else the record holds
    arrays: dict[str, np.ndarray] = field(default_factory=dict)  # of a measure that writes an npz

    def also(self, details: dict[str, Any]) -> Measured:
        return replace(self, details={**self.details, **details})


def finite(values: dict[str, float]) -> dict[str, float | None]:
    """Returns values with None for what is not finite."""
    return {name: value if math.isfinite(value) else None for name, value in values.items()}


def write(measure: str, runs: Sequence[FinishedRun], settings: str, output: Path | str) -> None:
    """Measures a run, or two, and writes the record, and the npz of a measure that has one.

    Of runs that did not all finish, the record has the status of the first that did not, and no
    values. What a measure keeps to go on from when it is killed lies beside the record, and goes
    when that is written.
    """
    entry = MEASURES[measure]
    parsed = names.parse_settings(measure, settings)
    scratch = Path(output).with_suffix(".kept")
    run, *others = (replace(each, scratch=scratch) for each in runs)
    statuses = [each.record["status"] for each in (run, *others)]
    status = next((word for word in statuses if word != records.FINISHED), records.FINISHED)
    epochs_run = run.record["epochs_run"]
    if status != records.FINISHED:
        found = Measured()
    elif parsed.get("epoch", 0) > epochs_run:
        found = Measured(details={"message": f"The training stopped after epoch {epochs_run}."})
    else:
        module = importlib.import_module(f"{__name__}.{measure}")
        found = module.measure_run(run, *others, parsed)
    learned = records.task(run.results, run.factors["dataset"]) or tasks.CLASSIFICATION
    columns = tasks.kept(entry.columns_for(parsed), [learned])
    values = {**dict.fromkeys(columns), **found.values}
    details = {**({"other": others[0].name} if entry.pairs else {}), **found.details}
    record = records.measure_record(measure, run.name, parsed, status, values, **details)
    if ".npz" in entry.also_writes:
        disk.write_arrays(Path(output).with_suffix(".npz"), found.arrays)
    disk.write_json(output, record)
    shutil.rmtree(scratch, ignore_errors=True)
