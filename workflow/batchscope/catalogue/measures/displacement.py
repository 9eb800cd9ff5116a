"""Distance from the initial weights as an exact product: number of updates, their mean norm, and
the straightness of the path (distance over path length).
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from batchscope.catalogue.entries import (
    Column,
    Figure,
    Integer,
    Measure,
    Panel,
    Positive,
    Scale,
    Table,
)

_UPDATES = {
    "low": Column("Lower edge of a bin of the norms of the updates."),
    "high": Column("Upper edge of the bin."),
    "count": Integer("Updates in it.", "updates"),
    "share": Column("Their share of all the run's updates."),
}


def _rows(record: dict[str, Any], path: Path) -> Iterator[dict[str, Any]]:
    """Yields the bins of a histogram of update norms, with shares of all the run's updates."""
    histogram = record.get("histogram")
    for at, count in enumerate(histogram["counts"] if histogram else ()):
        low, high = histogram["edges"][at : at + 2]
        share = count / record["values"]["updates"]
        yield {"low": low, "high": high, "count": count, "share": share}


ENTRY = Measure(
    version="displacement-v1",
    columns={
        "updates": Integer(
            "Updates whose norms were kept.", unit="updates", label="Number of updates"
        ),
        "update_norm_mean": Positive(
            "Mean Euclidean norm of an update, ||w after - w before||.",
            label="Mean norm of an update",
        ),
        "update_norm_median": Positive(
            "Median Euclidean norm of an update.", label="Median norm of an update"
        ),
        "path_length": Positive("Sum of the norms of all updates.", label="Length of the path"),
        "straightness": Column(
            "Distance from first to last weights over path_length: 1 for a straight way.",
            label="Straightness of the path",
        ),
    },
    weights=("initial", "final"),
    reads=("updates.npz",),
    data=False,
    factors={"update_norms": True},
    figures=(
        Figure(
            "displacement",
            "Number and size of the updates",
            "Weights",
            "Fewer or smaller updates? The distance from the initial weights is their number "
            "times their mean norm times the straightness of the way: its doublings from the "
            "smallest batch size, paired by seed, are the sum of theirs.",
            kind="displacement",
            panels=tuple(
                Panel(column, title, "doublings from the smallest size", Scale.LINEAR)
                for column, title in (
                    ("updates", "Number of updates"),
                    ("update_norm_mean", "Mean norm of an update"),
                    ("straightness", "Straightness"),
                    ("distance", "Distance: their sum"),
                )
            ),
        ),
        Figure(
            "update_norms",
            "Sizes of the updates",
            "Weights",
            "Left: distribution of the norms of all updates, each batch size at its best "
            "learning rate. Right: the median norm.",
            kind="update_norms",
            table="updates",
            panels=(Panel("update_norm_median", "Median", "median ‖update‖"),),
            columns=("low", "high", "count", "share"),
            best_rate=True,
        ),
    ),
    tables={"updates": Table(_UPDATES, _rows)},
    memory_mb=1000,
    minutes=10,
    order=4,
)
