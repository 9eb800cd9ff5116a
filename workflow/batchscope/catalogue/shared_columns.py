"""Columns that the tables of several timings have."""

from batchscope.catalogue.entries import Column, Integer, Text

REPEAT = "repeat"  # the column that numbers the timing jobs of a configuration
WHICH = Integer("Which of the timing jobs of its configuration, from 1 on.")
STATUS = Text(
    "finished, diverged, out_of_memory; or not_installed where the framework has no environment "
    "here, no_gpu where no GPU is within reach, or no_cores where it asks for more threads than "
    "there are cores, and the rest of the row is empty."
)
DISTURBED_BLOCKS = Integer(
    "Those during which other processes took more than 0.2 cores.", adds_up=True
)
PROCESS_ZERO_SHARE = Column("Share of their time without work of the process on the CPU.")
# How busy the GPU was while something short lasted.
GPU = {
    "gpu_percent": Column(
        "GPU utilisation, % of the time in which a kernel ran: median; empty, as the three that "
        "follow, where nothing lasts longer than the 1 s that NVML averages over."
    ),
    "gpu_zero_share": Column("Share of the time at 0 %."),
    "gpu_bandwidth_percent": Column(
        "% of the time in which GPU memory was read or written: median."
    ),
    "gpu_power_watts": Column("Mean power of the GPU, W."),
}
GPU_MEMORY_PEAK_MB = Column("Peak memory in use on the GPU, by all processes, MB.")
