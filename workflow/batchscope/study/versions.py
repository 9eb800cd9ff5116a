"""Versions of the costly steps.

Raise a string, here or in an entry, when the numbers of its step change, and only then: Snakemake
has it as the only parameter of the step's rule, and a new one runs the step again.
"""

from __future__ import annotations

from batchscope.study.registry import MEASURES, TIMINGS
from batchscope.study.specifications import Entry

ENTRIES: dict[str, Entry] = {**MEASURES, **TIMINGS}
VERSIONS = {
    "prepare_data": "prepare_data-v2",
    "train": "train-v3",
    "run_command": "run_command-v2",
    **{name: entry.version for name, entry in ENTRIES.items()},
}
