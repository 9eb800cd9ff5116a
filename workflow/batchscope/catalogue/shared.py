"""Settings and columns that several measures or timings have."""

from __future__ import annotations

from batchscope.catalogue.entries import Column, Integer, Percent, Text
from batchscope.catalogue.parameters import Parameter

WEIGHTS = Parameter(
    "weights", "w", "str", "final", "Which weights to measure.", choices=("final", "best")
)
REPEAT = "repeat"  # the column that numbers the timing jobs of a configuration
WHICH = Integer("Which of the timing jobs of its configuration, from 1 on.")
STATUS = Text(
    "finished, diverged, out_of_memory; or no_gpu where no GPU is within reach, or no_cores where "
    "it asks for more threads than there are cores, and the rest of the row is empty."
)
DISTURBED_BLOCKS = Integer(
    "Those during which other processes took more than 0.2 cores.", adds_up=True
)
PROCESS_ZERO_SHARE = Column("Share of their time without work of the process on the CPU.")
# How busy the GPU was while something short lasted.
GPU = {
    "gpu_percent": Percent(
        "GPU utilisation, % of the time in which a kernel ran: median; empty, as the three that "
        "follow, where nothing lasts longer than the 1 s that NVML averages over."
    ),
    "gpu_zero_share": Column("Share of the time at 0 %."),
    "gpu_bandwidth_percent": Percent(
        "% of the time in which GPU memory was read or written: median."
    ),
    "gpu_power_watts": Column("Mean power of the GPU, W."),
}
GPU_MEMORY_PEAK_MB = Column("Peak memory in use on the GPU, by all processes, MB.")


def examples(default: int, doc: str = "Training examples behind the loss") -> Parameter:
    """Returns the setting for how many examples a measure is of."""
    doc, all_of_them = f"{doc}; 0 or `all` for all of them.", (("all", 0),)
    return Parameter(
        "examples", "ex", "int", default, doc, "examples", minimum=0, words=all_of_them
    )


def epoch(otherwise: str) -> Parameter:
    """Returns the setting for the epoch after which a measure is taken; 0 is for what is given."""
    doc = f"Epoch after which to measure, given by `at_epochs`; 0 for {otherwise}."
    return Parameter("epoch", "at", "int", 0, doc, minimum=0)
