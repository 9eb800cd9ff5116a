"""Largest batch that fits: the entry."""

from batchscope.catalogue import shared_columns
from batchscope.catalogue.entries import Column, Figure, Integer, Table, Text, Timing
from batchscope.catalogue.parameters import Parameter

_LARGEST = {
    "batch_size": Integer("Batch size that was tried."),
    "outcome": Text("fits, out_of_memory, over_limit or killed."),
    "peak_mb": Column("Most memory taken, MB; of what did not fit a lower bound."),
    "baseline_mb": Column("The same before the batch was there, MB."),
    "seconds": Column("Time of the try, s."),
    "message": Text("Why it did not fit."),
    "process_percent_mean": Column(
        "CPU utilisation over the try, its start and all its processes included, % of "
        "its cores: mean, since their clock ticks too slowly for a median."
    ),
    **shared_columns.GPU,
    "gpu_memory_peak_mb": shared_columns.GPU_MEMORY_PEAK_MB,
    "foreign_cores": Column("Cores that other processes took during the try: mean."),
}

ENTRY = Timing(
    name="max_batch_size",
    version="max_batch_size-v1",
    doc=("The largest batch that fits into memory: each size is tried in a process of its own."),
    settings=(
        Parameter(
            "limit_mb",
            "lim",
            "int",
            0,
            "Memory that may be taken; 0 for 90 % of what is free when the search starts.",
            "MB",
            minimum=0,
        ),
        Parameter(
            "most", "most", "int", 65536, "Largest batch size to try.", minimum=1, maximum=100000000
        ),
        Parameter(
            "resolution",
            "res",
            "float",
            0.03125,
            "Share of the answer within which the search may end.",
            minimum=0,
        ),
    ),
    batch_sizes="searched",
    tables={"largest": Table("timing_tables.largest", _LARGEST)},
    figures=(
        Figure(
            "max_batch_size",
            "Largest batch size",
            "Machine",
            caption=(
                "Every batch size that was tried, against the most memory that it took: two "
                "training steps on one batch in a process of its own. The search doubles until "
                "a size does not fit and then halves the gap, until it is within the "
                "resolution. The dashed line is the limit; for a GPU without one it is the "
                "GPU's own memory, and not drawn. The solid line is fixed memory plus memory "
                "per example, fitted by least squares to the sizes that fit and stand out of the "
                "lowest peak. Memory is resident memory on a CPU and that of TensorFlow's "
                "allocator on a GPU. A ring stands on the largest size that fits."
            ),
        ),
    ),
    minutes=240,
    order=4,
)
