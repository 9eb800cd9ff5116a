"""Names, descriptions and panels of columns that several timings have."""

from __future__ import annotations

from batchscope.study.specifications import IntegerColumn, Panel, Scale, TextColumn

# A timing counts as disturbed if other processes use more cores than this on average.
MAX_FOREIGN_CORES = 0.2
# Suffixes of the columns of a median and of both quartiles.
QUARTILE_SUFFIXES = ("", "_q1", "_q3")
REPEAT_COLUMN = "repeat"  # This column numbers the timing jobs of a configuration.
REPEAT_DESCRIPTION = IntegerColumn("Number of the timing job, from 1.")
STATUS_DESCRIPTION = TextColumn(
    "finished, diverged, out_of_memory, no_gpu or no_cores (too few cores). The last two leave the "
    "row empty."
)
DISTURBED_BLOCKS_DESCRIPTION = IntegerColumn(
    "Blocks in which other processes used more than 0.2 cores.", adds_up=True
)

UTILISATION_PANELS = (
    Panel("process_percent", "CPU utilisation", "of its cores (%)", Scale.ZERO),
    Panel("gpu_percent", "GPU utilisation", "time with a kernel (%)", Scale.ZERO),
)
MEMORY_PANELS = (
    Panel("memory_peak_mb", "Resident memory", "peak (MB)"),
    Panel("gpu_memory_peak_mb", "Memory of the GPU", "peak (MB)"),
)
USAGE_PANELS = (*UTILISATION_PANELS, *MEMORY_PANELS)
