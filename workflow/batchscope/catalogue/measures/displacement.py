"""Number, size and straightness of the updates: the entry."""

from batchscope.catalogue.entries import Column, Figure, Integer, Measure, Table, Topic

_UPDATES = {
    "low": Column("Lower edge of a bin of the norms of the updates."),
    "high": Column("Upper edge of the bin."),
    "count": Integer("Updates in it.", "updates"),
    "share": Column("Their share of all the run's updates."),
}

ENTRY = Measure(
    name="displacement",
    version="displacement-v1",
    doc=(
        "Distance from the initial weights as an exact product: number of updates, their mean "
        "norm, and the straightness of the path (distance over path length)."
    ),
    columns={
        "updates": Integer(
            "Updates whose norms were kept.", unit="updates", label="Number of updates"
        ),
        "update_norm_mean": Column(
            "Mean Euclidean norm of an update, ||w after - w before||.",
            label="Mean norm of an update",
        ),
        "update_norm_median": Column(
            "Median Euclidean norm of an update.", label="Median norm of an update"
        ),
        "path_length": Column("Sum of the norms of all updates.", label="Length of the path"),
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
            caption=(
                "Fewer or smaller updates? The distance of the final weights from the initial "
                "ones is the number of updates times their mean norm times the straightness of "
                "the way, so its logarithm is the sum of three. Left: how much each of them "
                "adds, in doublings, to the change from the smallest batch size; black is their "
                "sum. Right: each by itself, relative to the smallest batch size. Runs are "
                "paired by seed; means have a 95 % interval (Student's t)."
            ),
        ),
        Figure(
            "update_norms",
            "Sizes of the updates",
            "Weights",
            caption=(
                "Left: the distribution of the Euclidean norms of all updates of a training, "
                "one outline per batch size, in bins of equal width on a logarithmic axis; "
                "shares are means over seeds, triangles mark medians. Right: the median against "
                "batch size. Every seed is a point; means have a 95 % interval (Student's t)."
            ),
            topics=(Topic(r"smaller updates|updates or through"),),
        ),
    ),
    tables={"updates": Table("long_tables.updates", _UPDATES)},
    memory_mb=1000,
    minutes=10,
    order=4,
)
