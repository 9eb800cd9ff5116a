"""Versions of the costly steps, which Snakemake compares with those of earlier results.

Change a version, here or in an entry, when the numbers of its step change, and only then. It is the
only parameter of the step's rule, and a new version runs the step again.
"""

from __future__ import annotations

from batchscope.study.registry import MEASURES, TIMINGS
from batchscope.study.specifications import Entry

ENTRIES: dict[str, Entry] = {**MEASURES, **TIMINGS}
VERSIONS = {
    "prepare_data": "prepare_data-v3",
    "train": "train-v4",
    "run_command": "run_command-v2",
    **{name: entry.version for name, entry in ENTRIES.items()},
}
