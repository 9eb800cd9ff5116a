"""Largest eigenvalue (Lanczos) and trace (Hutchinson) of the training loss's Hessian, each with its
error.
"""

from batchscope.catalogue.entries import Column, Figure, Measure, Panel
from batchscope.catalogue.parameters import Parameter
from batchscope.catalogue.shared import WEIGHTS, examples

ENTRY = Measure(
    version="hessian-v1",
    settings=(
        WEIGHTS,
        examples(2000),
        Parameter("probes", "pr", "int", 20, "Random vectors behind the trace.", minimum=2),
        Parameter(
            "iterations", "it", "int", 100, "Most products of the Lanczos search.", minimum=5
        ),
    ),
    columns={
        "hessian_top_eigenvalue": Column(
            "Largest eigenvalue of the training loss's Hessian.",
            label="Largest eigenvalue of the Hessian",
        ),
        "hessian_top_eigenvalue_error": Column(
            "Euclidean norm of H v - lambda v: an eigenvalue lies no further away than that."
        ),
        "hessian_trace": Column(
            "Trace of the Hessian: the mean over random probes (Hutchinson).",
            label="Trace of the Hessian",
        ),
        "hessian_trace_error": Column("Standard error of that mean."),
    },
    figures=(
        Figure(
            "hessian",
            "Curvature",
            "Sharpness",
            "Largest eigenvalue (Lanczos) and trace (Hutchinson) of the Hessian of the "
            "training loss. With one seed, bars are numerical errors.",
            panels=(
                Panel(
                    "hessian_top_eigenvalue",
                    "Largest eigenvalue",
                    "largest eigenvalue λ",
                    error="hessian_top_eigenvalue_error",
                ),
                Panel("hessian_trace", "Trace", "trace", error="hessian_trace_error"),
            ),
        ),
    ),
    minutes=240,
    order=6,
)
