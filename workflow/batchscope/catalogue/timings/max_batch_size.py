"""The largest batch that fits into memory: each size is tried in a process of its own."""

from batchscope.catalogue.entries import Column, Figure, Integer, Table, Text, Timing
from batchscope.catalogue.parameters import Parameter

_LARGEST = {
    "batch_size": Integer("Batch size that was tried."),
    "outcome": Text("fits, out_of_memory, over_limit or killed."),
    "peak_mb": Column("Most memory taken, MB; of what did not fit a lower bound."),
    "seconds": Column("Time of the try, s."),
    "message": Text("Why it did not fit."),
}

ENTRY = Timing(
    version="max_batch_size-v1",
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
    tables={"largest": Table(_LARGEST)},
    figures=(
        Figure(
            "max_batch_size",
            "Largest batch size",
            "Machine",
            "Every batch size that was tried, in a process of its own, against the most "
            "memory that it took; one of unknown memory stands at the upper edge. The fit is "
            "fixed memory plus memory per example.",
            kind="tries",
            table="largest",
            columns=("seconds", "message"),
        ),
    ),
    minutes=240,
    order=4,
)
