"""Distance from the initial weights: the entry."""

from batchscope.catalogue.entries import Column, Figure, Integer, Measure, Table, Text, Topic
from batchscope.catalogue.shared_settings import WEIGHTS

_LAYERS = {
    "position": Integer("Place of the layer in the model, from 0."),
    "layer": Text("Name of the layer."),
    "distance": Column("Euclidean distance of its weights from the initial ones."),
    "relative": Column("distance over the norm of its initial weights."),
}

ENTRY = Measure(
    name="weight_distance",
    version="weight_distance-v1",
    doc="Distance of the weights from the initial ones: overall, relative and by layer.",
    settings=(WEIGHTS,),
    columns={
        "weight_distance": Column(
            "Euclidean distance of the weights from the initial ones.",
            label="Distance from the initial weights",
            direction="falls",
            source="Keskar et al. 2017, arXiv 1609.04836; Hoffer et al. 2017, arXiv 1705.08741",
        ),
        "weight_distance_relative": Column(
            "weight_distance over the Euclidean norm of the initial weights.",
            label="Relative distance from the initial weights",
        ),
    },
    weights=("initial", "final", "best"),
    data=False,
    figures=(
        Figure(
            "weight_distance",
            "Distance from the initial weights",
            "Weights",
            caption=(
                "Euclidean distance of the trained weights from the initial ones, and the same "
                "relative to the norm of the initial weights, against batch size. Every seed is "
                "a point; means have a 95 % interval (Student's t)."
            ),
            columns={
                "weight_distance": ("Distance from the initial weights", "‖w − w₀‖"),
                "weight_distance_relative": ("Relative distance", "‖w − w₀‖ / ‖w₀‖"),
            },
            topics=(Topic(r"closer|farther|initial weights|distances\b"),),
        ),
        Figure(
            "weight_distance_by_layer",
            "Distance from the initial weights, by layer",
            "Weights",
            caption=(
                "Euclidean distance of each layer's weights from the initial ones, against "
                "batch size, one panel per layer in the model's order. Every seed is a point; "
                "means have a 95 % interval (Student's t)."
            ),
        ),
        Figure(
            "epoch_distance",
            "Distance within an epoch",
            "Weights",
            caption=(
                "Left: Euclidean distance between the weights at the end and at the start of "
                "each epoch, one colour per batch size. Thin lines are single runs; thick lines "
                "are means over the seeds that still train. Right: the distance at the smallest "
                "batch size over that at the largest, in pairs of the same seed, with their "
                "geometric mean. Bands are 95 % intervals (Student's t)."
            ),
            over=(
                "Euclidean distance between the weights at the end and at the start of each epoch, "
                "against {axis} at its end, one colour per batch size. Thick lines are means "
                "over the seeds that still train, with a 95 % interval (Student's t). Thin lines "
                "are single runs."
            ),
        ),
    ),
    tables={
        "layers": Table(
            "long_tables.layers", _LAYERS, keys=("layer",), figures=("weight_distance_by_layer",)
        )
    },
    memory_mb=1000,
    minutes=10,
    order=3,
)
