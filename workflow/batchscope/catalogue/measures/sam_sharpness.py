"""Rise of the loss after one step of length rho along the gradient (Foret et al. 2021, arXiv
2010.01412).
"""

from batchscope.catalogue.entries import Column, Figure, Measure, Panel
from batchscope.catalogue.parameters import Parameter
from batchscope.catalogue.shared import WEIGHTS, examples

ENTRY = Measure(
    version="sam_sharpness-v1",
    settings=(
        WEIGHTS,
        Parameter("rhos", "rho", "float", (0.05,), "Lengths of the step.", above=0, many=True),
        examples(2000),
    ),
    columns={
        "sam_sharpness_{rhos}": Column(
            "Rise of the loss at one step of length rho along its gradient (Foret et al. 2021).",
            label="SAM's sharpness, rho {rhos}",
        )
    },
    figures=(
        Figure(
            "sam_sharpness",
            "Sharpness along the gradient",
            "Sharpness",
            "Rise of the training loss after one step of length ρ along its gradient (Foret et "
            "al. 2021).",
            panels=(Panel("sam_sharpness_{rhos}", "ρ = {rhos}", "f(w + ρ g/‖g‖) − f(w){nats}"),),
        ),
    ),
    order=7,
)
