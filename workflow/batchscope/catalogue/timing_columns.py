"""The tables of timings: what their rows are of, and their columns by table."""

from __future__ import annotations

from batchscope.catalogue import sweep_names, tables
from batchscope.catalogue.entries import Column

# What a row is of: the machine, the sweep and its factors.
FIRST = (
    "machine",
    "sweep",
    "dataset",
    "dataset_digest",
    "model",
    "model_digest",
    *(name for name in sweep_names.FACTORS if name not in ("dataset", "model", "batch_size")),
)
# Cores that others may take on average before a timing counts as disturbed.
DISTURBED_CORES = 0.2
QUARTILES = ("", "_q1", "_q3")
# Table -> its columns beside those of FIRST.
COLUMNS: dict[str, dict[str, Column]] = {
    f"{name}.csv": table.columns for name, table in tables.OF_TIMINGS.items()
}
