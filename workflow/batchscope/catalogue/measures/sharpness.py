"""Sharpness, metric 2.1 of Keskar et al. 2017 (arXiv 1609.04836): a lower bound by L-BFGS-B from
several starts.
"""

from batchscope.catalogue.entries import Figure, Measure, Panel, Positive
from batchscope.catalogue.parameters import Parameter
from batchscope.catalogue.shared import WEIGHTS, examples

ENTRY = Measure(
    version="sharpness-v1",
    settings=(
        WEIGHTS,
        Parameter("epsilons", "eps", "float", (0.001, 0.0005), "Box sizes.", above=0, many=True),
        Parameter(
            "spaces",
            "sp",
            "str",
            ("full", "subspace"),
            "Spaces to search.",
            choices=("full", "subspace"),
            many=True,
        ),
        examples(2000),
        Parameter("iterations", "it", "int", 10, "L-BFGS-B iterations per start.", minimum=1),
        Parameter("starts", "st", "int", 4, "Starting points of the maximiser.", minimum=1),
        Parameter("dimensions", "dim", "int", 100, "Columns of the subspace.", minimum=1),
        Parameter(
            "batch_norm",
            "bn",
            "str",
            "moving",
            "Statistics that batch normalisation uses.",
            choices=("moving", "batch"),
        ),
        Parameter("memory_mb", "mem", "int", 2048, "Limit on the subspace.", "MB", minimum=1),
    ),
    columns={
        "sharpness_{spaces}_{epsilons}": Positive(
            "100 * (highest loss found in the box - loss) / (1 + loss), in the `full` space or a "
            "random `subspace`, for a box of size epsilon (Keskar et al. 2017, metric 2.1).",
            unit="% of 1 + loss",
            label="Sharpness ({spaces}, epsilon {epsilons})",
            direction="rises",
            source="Keskar et al. 2017, arXiv 1609.04836",
            words={"full": "full space", "subspace": "random subspace"},
        )
    },
    figures=(
        Figure(
            "sharpness",
            "Sharpness",
            "Sharpness",
            "Highest loss found in a box of size ε around the weights, relative to 1 + loss "
            "(Keskar et al. 2017, metric 2.1). The search is stopped early: a lower bound.",
            panels=(
                Panel(
                    "sharpness_{spaces}_{epsilons}",
                    "{spaces}, ε = {epsilons}",
                    "sharpness (% of 1 + loss)",
                ),
            ),
        ),
    ),
    minutes=240,
    order=2,
)
