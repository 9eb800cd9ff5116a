"""All measures and timings, which their packages define as `ENTRY`, and versions of all steps."""

import importlib
import re
from pathlib import Path
from typing import Any

from batchscope.study.specifications import Entry, Measure, Timing


def _discover(package: str) -> dict[str, Any]:
    """Return the specifications of a package of the library, by name and in order.

    A module that assigns `ENTRY` is a plug-in. Other modules are helpers and may be slow to import,
    so the text of each module is searched first.
    """
    entries = []
    for path in Path(__file__).parents[1].joinpath(package).glob("*.py"):
        if re.search(r"^ENTRY = ", path.read_text(encoding="utf-8"), re.MULTILINE):
            module = importlib.import_module(f"batchscope.{package}.{path.stem}")
            doc = " ".join(module.__doc__.partition("\n\n")[0].split())
            entries.append(module.ENTRY.with_name(path.stem, doc))
    entries.sort(key=lambda entry: (entry.order, entry.name))
    return {entry.name: entry for entry in entries}


MEASURES: dict[str, Measure] = _discover("measures")
TIMINGS: dict[str, Timing] = _discover("timing")
# Measures of losses and metrics.
OUTCOME_MEASURES = {name: entry for name, entry in MEASURES.items() if entry.outcomes}
# Timings of a training's configuration, under `measure`; timings of sweeps, under `timing`.
TRAINING_TIMINGS = {name: entry for name, entry in TIMINGS.items() if entry.trains}
SWEEP_TIMINGS = {name: entry for name, entry in TIMINGS.items() if not entry.trains}
# Timings that give trainings their seconds.
SECONDS_TIMINGS = {name: entry for name, entry in TIMINGS.items() if entry.seconds}
ENTRIES: dict[str, Entry] = {**MEASURES, **TIMINGS}
# Snakemake compares these versions of the costly steps with those of earlier results. Change one,
# here or in an entry, when the numbers of its step change, and only then: the step runs again.
VERSIONS = {
    "prepare_data": "prepare_data-v3",
    "train": "train-v4",
    "run_command": "run_command-v2",
    **{name: entry.version for name, entry in ENTRIES.items()},
}
