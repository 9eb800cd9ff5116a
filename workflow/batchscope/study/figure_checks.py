"""What is wrong with the figures that an experiment names, in `figures` and `published`."""

from __future__ import annotations

from collections.abc import Collection, Iterator

from batchscope import wording
from batchscope.catalogue import figure_names
from batchscope.catalogue.entries import Figure, Need
from batchscope.catalogue.figures import FIGURES
from batchscope.catalogue.registry import OF_SECONDS, OF_SWEEPS
from batchscope.problems import Place, Problem, received
from batchscope.study.document import ExperimentKeys

# What gives runs their seconds, in a message.
TIMED = wording.listed(
    (
        f"{name} in measure" if entry.trains else f"{name} of an experiment under beside"
        for name, entry in OF_SECONDS.items()
    ),
    "or",
)


def problems(
    place: Place,
    keys: ExperimentKeys,
    written: Collection[str],
    asked: Collection[str],
    timed: bool,
) -> Iterator[Problem]:
    """Yields the figures that there are not, that are named twice, or that lack something.

    Args:
        written: Keys of the experiment, sound or not.
        asked: What the experiment measures or times.
        timed: Whether its runs have seconds.
    """
    for at, name in _names(place, keys):
        if name not in FIGURES:
            yield received(at, name, "the name of a figure", FIGURES)
        elif needed := figure_names.lacking(FIGURES[name].measures, asked):
            yield _without(at, FIGURES[name], wording.listed(map(_home, needed)))
        elif at[-2] == "published" and keys.figures and name not in keys.figures:
            text = f"received '{name}', which is not drawn; a figure of `figures` is expected."
            yield Problem(at, text)
    for at, figure in named(place, keys):
        if figure.along == "seconds" and not timed:
            yield _without(at, figure, TIMED)
        for need in figure.needs:
            if need in (Need.AT_EPOCHS, Need.MARGINS) and need.value not in written:
                yield _without(at, figure, f"{need.value} in the experiment")


def named(place: Place, keys: ExperimentKeys) -> Iterator[tuple[Place, Figure]]:
    yield from ((at, FIGURES[name]) for at, name in _names(place, keys) if name in FIGURES)


def _names(place: Place, keys: ExperimentKeys) -> Iterator[tuple[Place, str]]:
    yield from (((*place, "figures", index), name) for index, name in enumerate(keys.figures))
    yield from (((*place, "published", name), name) for name in keys.published)


def _home(measures: str) -> str:
    """Returns `evaluate in measure`, or `time_epoch in measure or throughput in timing`."""
    homes = ((name, "timing" if name in OF_SWEEPS else "measure") for name in measures.split("|"))
    return wording.listed((f"{name} in {home}" for name, home in homes), "or")


def _without(place: Place, figure: Figure, wanted: str) -> Problem:
    text = f"received '{figure.name}' without its requirements; {wanted} is expected."
    return Problem(place, text)
