"""Gradient noise scale of McCandlish et al. 2018 (arXiv 1812.06162) at the start, after the epochs
of `at_epochs` and at the end of the training.
"""

from __future__ import annotations

from collections.abc import Iterator

from batchscope.catalogue.entries import Column, Figure, Measure, Panel, Scale, Settings
from batchscope.catalogue.parameters import Parameter
from batchscope.catalogue.shared import epoch, examples

FEWEST_UNITS = 3  # gradients: the jackknife leaves one out, and two have one pair


def _problems(settings: Settings) -> Iterator[tuple[str, str]]:
    wanted, size = settings["examples"], settings["micro_batch"]
    least = FEWEST_UNITS * size
    if 0 < wanted < least:
        text = f"received {wanted}; at least {least} is expected, {FEWEST_UNITS} gradients of "
        yield "examples", f"{text}{size} (micro_batch)."


_UNITS = {
    "gradient_noise_scale": "examples",
    "gradient_noise_scale_error": "examples",
    "gradient_norm_squared": "nats^2",
    "gradient_variance": "nats^2",
    "normalisation_noise_scale": "examples",
    "normalisation_noise_ratio": "",
}

ENTRY = Measure(
    version="noise_scale-v2",
    settings=(
        examples(512, "Training examples whose gradients are taken"),
        Parameter(
            "micro_batch",
            "mb",
            "int",
            1,
            "Examples behind each gradient; more where those of single examples cost too much or "
            "cannot be had.",
            "examples",
            minimum=1,
        ),
        epoch("start and end of the training"),
    ),
    columns={
        **{
            f"{name}_start": Column(f"{name} at the initial weights.", unit, at_epochs=False)
            for name, unit in _UNITS.items()
        },
        "gradient_noise_scale": Column(
            "gradient_variance / gradient_norm_squared at the last weights: the batch size at "
            "which noise and signal of a gradient are equally large (McCandlish et al. 2018); "
            "empty where gradient_norm_squared is not above zero, which is not resolved.",
            "examples",
        ),
        "gradient_noise_scale_error": Column(
            "Standard error of gradient_noise_scale by the jackknife over examples.", "examples"
        ),
        "gradient_norm_squared": Column(
            "Squared norm of the expected gradient at the last weights, unbiased: what noise "
            "makes of it may lie below zero.",
            "nats^2",
        ),
        "gradient_variance": Column(
            "Trace of the covariance of single examples' gradients at the last weights, unbiased.",
            "nats^2",
        ),
        "normalisation_noise_scale": Column(
            "The noise scale of the weights of normalisation layers alone, at the last weights "
            "(Gray et al. 2024, arXiv 2411.00999); empty of a model without any, and where it is "
            "not resolved.",
            "examples",
        ),
        "normalisation_noise_ratio": Column(
            "normalisation_noise_scale over gradient_noise_scale.",
            label="Noise scale of normalisation layers over that of all weights",
        ),
    },
    problems=_problems,
    weights=("initial", "final"),
    at_epochs=True,
    figures=(
        Figure(
            "noise_scale",
            "Gradient noise scale",
            "Gradients",
            "The number of examples at which noise and signal of a mean gradient are equally "
            "large (McCandlish et al. 2018), with Fieller's 95 % interval. Below it a larger "
            "batch saves updates nearly in proportion; far above it, few. Dotted: the batch "
            "size that was used.",
            kind="noise_scale",
            panels=(Panel("gradient_noise_scale", "", "noise scale (examples)", Scale.LOG),),
        ),
        Figure(
            "normalisation_noise_scale",
            "Noise scale of normalisation layers alone",
            "Gradients",
            "The gradient noise scale of the weights of normalisation layers alone over that of "
            "all weights: where it is about the same at every batch size, the former foretells the "
            "latter (Gray et al. 2024).",
            panels=(
                Panel(
                    "normalisation_noise_ratio",
                    "",
                    "normalisation layers / all weights",
                    Scale.LOG,
                ),
            ),
        ),
    ),
    minutes=120,
    order=5,
)
