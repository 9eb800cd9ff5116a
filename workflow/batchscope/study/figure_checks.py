"""Checks of the figures in `figures` and `published` of an experiment."""

from __future__ import annotations

from collections.abc import Collection, Iterator

from batchscope import wording
from batchscope.problems import Place, Problem, received
from batchscope.study import figure_names
from batchscope.study.experiments import Experiment
from batchscope.study.figures import FIGURES
from batchscope.study.registry import OF_SECONDS, OF_SWEEPS
from batchscope.study.specifications import Figure, FigureRequirement

# Sources of seconds, for messages.
TIMED = wording.listed(
    (
        f"{name} in measure" if entry.trains else f"{name} of an experiment under beside"
        for name, entry in OF_SECONDS.items()
    ),
    "or",
)


def problems(
    place: Place, keys: Experiment, measures: Collection[str], timed: bool
) -> Iterator[Problem]:
    """Yield unknown figures, and figures with requirements that the experiment lacks.

    Args:
        measures: Measures or timings of the experiment.
        timed: Whether its runs have seconds.
    """
    for at, name in _names(place, keys):
        if name not in FIGURES:
            yield received(at, name, "the name of a figure", FIGURES)
        elif needed := figure_names.lacking(FIGURES[name].requires.measures, measures):
            yield _without(at, FIGURES[name], wording.listed(map(_home, needed)))
        elif at[-2] == "published" and keys.figures and name not in keys.figures:
            yield received(at, name, "a figure of `figures`", keys.figures)
    for at, figure in named(place, keys):
        if figure.along == "seconds" and not timed:
            yield _without(at, figure, TIMED)
        at_epochs = FigureRequirement.AT_EPOCHS
        if at_epochs in figure.requires.conditions and not keys.at_epochs:
            yield _without(at, figure, f"{at_epochs.value} in the experiment")


def named(place: Place, keys: Experiment) -> Iterator[tuple[Place, Figure]]:
    yield from ((at, FIGURES[name]) for at, name in _names(place, keys) if name in FIGURES)


def _names(place: Place, keys: Experiment) -> Iterator[tuple[Place, str]]:
    yield from (((*place, "figures", index), name) for index, name in enumerate(keys.figures))
    yield from (((*place, "published", name), name) for name in keys.published)


def _home(measures: str) -> str:
    """Return `evaluate in measure`, or `time_epoch in measure or throughput in timing`."""
    homes = ((name, "timing" if name in OF_SWEEPS else "measure") for name in measures.split("|"))
    return wording.listed((f"{name} in {home}" for name, home in homes), "or")


def _without(place: Place, figure: Figure, required: str) -> Problem:
    return Problem(place, f"The figure needs {required} (received '{figure.name}').")
