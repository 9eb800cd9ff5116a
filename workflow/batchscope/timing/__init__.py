"""Timings of a training configuration or a sweep, exclusively on the machine: one module each.

The module assigns its specification to `ENTRY` and has the function
`measure(job: TimingJob, settings: dict) -> Timed`, which gets every setting by name. The
specifications are read with every study: import slow libraries, and modules that need the registry,
inside the functions.

Timings train only a few steps. batchscope.analysis fits models over jobs.
`timing_job` writes the records. Other files are next to `job.output`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Timed:
    """Results of a timing.

    Attributes:
        details: Keys of the record.
        values: Column of runs.csv -> number. A missing column, or None, has no value.
    """

    status: str
    details: dict[str, Any]
    values: dict[str, float | None] = field(default_factory=dict)


def with_summary(part: dict[str, Any]) -> dict[str, Any]:
    """Return a part of a record, with the summary of its samples for keys that it lacks."""
    values = {name: value for name, value in part.items() if value is not None}
    return (part.get("utilisation") or {}) | values
