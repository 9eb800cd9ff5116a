"""Timings of a training configuration or a sweep, exclusively on the machine: one module each.

The module assigns its specification to `ENTRY` and has the function
`measure(job: TimingJob, settings: dict) -> Timed`, which gets every setting by name. The
specifications are read with every study: import slow libraries, and modules that need the registry,
inside the functions. Modules without `ENTRY` are helpers.

Timings train only a few steps. `timing_job` calls the function and writes the record; other files
are next to it. `batchscope.analysis` combines the records of several jobs and fits models.
"""

from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Timed:
    """Results of a timing.

    Attributes:
        status: Status of the record, such as `finished` or `out_of_memory`.
        details: Further keys of the record.
        values: Column of runs.csv -> number. None and missing columns are empty cells.
    """

    status: str
    details: dict[str, Any]
    values: dict[str, float | None] = field(default_factory=dict)


def with_summary(entry: dict[str, Any]) -> dict[str, Any]:
    """Return an entry of a record with the keys of `utilisation`, its summary of samples."""
    values = {name: value for name, value in entry.items() if value is not None}
    return (entry.get("utilisation") or {}) | values
