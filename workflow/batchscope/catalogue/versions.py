"""Version strings of the costly steps; a new one recomputes a step and what follows.

Raise a string when the numbers of its step change, and only then: Snakemake carries it as the
step's one parameter, so that edits that change no number recompute nothing. Those of measures
and timings stand in their entries.
"""

from batchscope.catalogue.measure_settings import ENTRIES

VERSIONS = {
    "prepare_data": "prepare_data-v2",
    "train": "train-v3",
    **{name: entry.version for name, entry in ENTRIES.items()},
}
