"""The measures, their settings, what these cannot be together, and the codec of their names.

What is measured of a run is in `MEASURES`, what is measured of a machine in `TIMINGS`. A name of
settings holds those that differ from their birth value, and `default` where none does::

    eps=0.001+ex=0
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from batchscope.catalogue import parameters, run_names
from batchscope.catalogue.parameters import Parameter

_WEIGHTS = Parameter(
    "weights", "w", "str", "final", "Which weights to measure.", choices=("final", "best")
)


def _examples(birth: int) -> Parameter:
    return Parameter(
        "examples",
        "ex",
        "int",
        birth,
        "Training examples behind the loss; 0 or `all` for all of them.",
        "examples",
        minimum=0,
        words=(("all", 0),),
    )


_BATCH_NORM = Parameter(
    "batch_norm",
    "bn",
    "str",
    "moving",
    "Statistics that batch normalisation uses.",
    choices=("moving", "batch"),
)

# Measures and their settings; every setting has a birth value. Append; never reorder.
MEASURES: dict[str, dict[str, Parameter]] = {
    measure: {setting.name: setting for setting in settings}
    for measure, settings in {
        "evaluate": (
            _WEIGHTS,
            Parameter(
                "epoch",
                "at",
                "int",
                0,
                "Epoch after which to measure, given by `at_epochs`; 0 for `weights`.",
                minimum=0,
            ),
        ),
        "sharpness": (
            _WEIGHTS,
            Parameter("epsilons", "eps", "float", (1e-3, 5e-4), "Box sizes.", above=0, many=True),
            Parameter(
                "spaces",
                "sp",
                "str",
                ("full", "subspace"),
                "Spaces to search.",
                choices=("full", "subspace"),
                many=True,
            ),
            _examples(2000),
            Parameter("iterations", "it", "int", 10, "L-BFGS-B iterations per start.", minimum=1),
            Parameter("starts", "st", "int", 4, "Starting points of the maximiser.", minimum=1),
            Parameter("dimensions", "dim", "int", 100, "Columns of the subspace.", minimum=1),
            _BATCH_NORM,
            Parameter("memory_mb", "mem", "int", 2048, "Limit on the subspace.", "MB", minimum=1),
        ),
        "weight_distance": (_WEIGHTS,),
        "time_epoch": (
            Parameter("blocks", "bl", "int", 7, "Timed blocks.", minimum=3),
            Parameter(
                "block_seconds", "bsec", "float", 0.25, "Least seconds in a block.", "s", above=0
            ),
        ),
        "displacement": (),
        "gradient_alignment": (
            Parameter("examples", "ex", "int", 256, "Training examples.", "examples", minimum=2),
            Parameter("draws", "dr", "int", 20, "Random divisions into batches.", minimum=1),
            Parameter("memory_mb", "mem", "int", 2048, "Limit on the gradients.", "MB", minimum=1),
        ),
        "hessian": (
            _WEIGHTS,
            _examples(2000),
            Parameter("probes", "pr", "int", 20, "Random vectors behind the trace.", minimum=2),
            Parameter(
                "iterations", "it", "int", 100, "Most products of the Lanczos search.", minimum=5
            ),
        ),
        "sam_sharpness": (
            _WEIGHTS,
            Parameter("rhos", "rho", "float", (0.05,), "Lengths of the step.", above=0, many=True),
            _examples(2000),
        ),
        "landscape": (
            _WEIGHTS,
            _examples(2000),
            Parameter("points", "pt", "int", 51, "Points along each axis; odd.", minimum=3),
            Parameter("span", "sp", "float", 1.0, "Largest distance along a direction.", above=0),
            Parameter(
                "pairs",
                "pa",
                "int",
                1,
                "Surfaces, each over its own pair of directions.",
                minimum=0,
            ),
            Parameter("lines", "ln", "int", 5, "One-dimensional profiles.", minimum=0),
        ),
        "line": (
            _WEIGHTS,
            Parameter(
                "examples",
                "ex",
                "int",
                0,
                "Examples of each split; 0 or `all` for all.",
                "examples",
                minimum=0,
                words=(("all", 0),),
            ),
            Parameter("points", "pt", "int", 25, "Points on the line.", minimum=2),
            Parameter("start", "from", "float", -1.0, "First position; the small run is at 0."),
            Parameter("stop", "to", "float", 2.0, "Last position; the large run is at 1."),
        ),
    }.items()
}

# Measures of the machine, by experiments that train nothing; one job over all batch sizes.
TIMINGS: dict[str, dict[str, Parameter]] = {
    measure: {setting.name: setting for setting in settings}
    for measure, settings in {
        "throughput": (
            Parameter("blocks", "bl", "int", 7, "Timed blocks of every batch size.", minimum=4),
            Parameter(
                "block_seconds", "bsec", "float", 0.25, "Least seconds in a block.", "s", above=0
            ),
            Parameter(
                "iterations",
                "it",
                "int",
                0,
                "Steps of every batch size in all its blocks together; 0 for what block_seconds "
                "asks for.",
                "steps",
                minimum=0,
            ),
        ),
        "utilisation": (
            Parameter(
                "seconds", "sec", "float", 5.0, "Training at every batch size.", "s", above=0
            ),
            Parameter("pause_seconds", "pau", "float", 1.0, "Rest before each.", "s", minimum=0),
            Parameter("interval", "int", "float", 0.1, "Between two samples.", "s", above=0),
        ),
        "max_batch_size": (
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
                *("most", "most", "int", 65536, "Largest batch size to try."),
                minimum=1,
                maximum=run_names.MOST_EXAMPLES,
            ),
            Parameter(
                "resolution",
                "res",
                "float",
                1 / 32,
                "Share of the answer within which the search may end.",
                minimum=0,
            ),
        ),
        "profile": (Parameter("steps", "st", "int", 20, "Profiled steps.", "steps", minimum=1),),
    }.items()
}

# Measures of two runs; `between` in the configuration says which.
PAIR_MEASURES = ("line",)
# Measures that read weights alone: without TensorFlow.
LIGHT_MEASURES = ("weight_distance", "displacement")


def _settings_of(measure: str) -> dict[str, Parameter]:
    return MEASURES[measure] if measure in MEASURES else TIMINGS[measure]


def settings_name(measure: str, settings: dict[str, Any]) -> str:
    """Returns the name of a measure's settings: those that differ from birth, or `default`."""
    parts = parameters.encode(_settings_of(measure), settings, ())
    return parameters.checked("+".join(parts) or "default")


def parse_settings(measure: str, name: str) -> dict[str, Any]:
    """Returns every setting of a measure, by full name.

    Raises:
        ValueError: If the name is not one that `settings_name` would have written.
    """
    known = _settings_of(measure)
    values = {} if name == "default" else parameters.decode(known, name.split("+"), name)
    if settings_name(measure, values) != name:
        raise ValueError(f"Expected the canonical form of settings. Received: {name!r}")
    return {key: values.get(key, setting.birth) for key, setting in known.items()}


def problems(measure: str, settings: dict[str, Any]) -> Iterator[tuple[str, str]]:
    """Yields a setting, and in words what is wrong with it beside the others.

    Args:
        measure: A measure or a timing.
        settings: Every setting of it, each sound by itself.
    """
    if measure == "landscape":
        if settings["points"] % 2 == 0:
            text = f"received {settings['points']}; an odd number is expected: 0 is among the "
            yield "points", f"{text}points."
        if settings["pairs"] == settings["lines"] == 0:
            text = "received no pairs and no lines; at least one of either is expected."
            yield "pairs", text
    if measure == "line" and settings["start"] >= settings["stop"]:
        text = f"received {settings['stop']:g}; a number above start, {settings['start']:g}, is"
        yield "stop", f"{text} expected."
