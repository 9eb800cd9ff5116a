"""Measures of a finished run, or of a pair of runs: one module each.

The module assigns its specification to `ENTRY`: settings, columns, tables, figures and version. It
has the function::

    measure_run(run: FinishedRun, settings: dict) -> Measured

or `measure_run(run, other, settings)` for two runs. The function gets every setting by name, and
only finished runs that reached the setting `epoch`, if the measure has it. It raises `UserError` if
weights or data of a run are missing. The specifications are read with every study: import slow
libraries, and modules that need the registry, inside the functions.

`measure_job` calls the function and writes the record. Modules without `ENTRY` are helpers.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy as np


@dataclass(frozen=True)
class Measured:
    """Results of a measure.

    Attributes:
        values: Column of runs.csv -> number. None and missing columns are empty cells.
        details: Further keys of the record, for the tables.
        arrays: Arrays of the npz, if the measure writes one.
    """

    values: dict[str, float | None] = field(default_factory=dict)
    details: dict[str, Any] = field(default_factory=dict)
    arrays: dict[str, np.ndarray] = field(default_factory=dict)


def finite(values: dict[str, float]) -> dict[str, float | None]:
    """Replace values that are not finite by None."""
    return {name: value if math.isfinite(value) else None for name, value in values.items()}
