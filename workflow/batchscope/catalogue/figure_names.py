"""What is wrong with the figures that an experiment names in `figures` and `published`."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import Any

from batchscope import wording
from batchscope.catalogue import coercion
from batchscope.catalogue.figures import FIGURES
from batchscope.catalogue.timings import OF_SECONDS, OF_SWEEPS
from batchscope.problems import Place, Problem, received

MARGIN_FIGURES = tuple(name for name, figure in FIGURES.items() if figure.margins)
EPOCH_FIGURES = tuple(name for name, figure in FIGURES.items() if figure.at_epochs)
# What gives trainings their seconds, in a message.
TIMED = wording.listed(
    (
        f"{name} in measure" if entry.trains else f"{name} of an experiment under beside"
        for name, entry in OF_SECONDS.items()
    ),
    "or",
)


def problems(
    place: Place, body: dict[str, Any], measures: dict[str, Any], timed: bool
) -> Iterator[Problem]:
    """Yields what is wrong with the figures that an experiment names.

    Args:
        timed: Whether its trainings have seconds.
    """
    drawn: list[Any] = []
    for at, name in coercion.items((*place, "figures"), body.get("figures")):
        if name in drawn:
            yield Problem(at, f"received '{name}' again; every figure once is expected.")
        drawn.append(name)
        yield from _problems_of(at, name, measures)
    for at, name in named(place, body):
        known = FIGURES.get(name) if isinstance(name, str) else None
        if known and known.along == "seconds" and not timed:
            yield _without(at, name, TIMED)
    for name in coercion.as_map(body.get("published")):
        at = (*place, "published", name)
        yield from _problems_of(at, name, measures)
        if drawn and name in FIGURES and name not in drawn:
            text = f"received '{name}', which is not drawn; a figure of `figures` is expected."
            yield Problem(at, text)


def named(place: Place, body: dict[str, Any]) -> Iterator[tuple[Place, Any]]:
    """Yields place and name of every figure that an experiment names."""
    yield from coercion.items((*place, "figures"), body.get("figures"))
    for name in coercion.as_map(body.get("published")):
        yield (*place, "published", name), name


def lacking(
    place: Place, body: dict[str, Any], figures: tuple[str, ...], key: str
) -> Iterator[Problem]:
    """Yields the problems of an experiment that names figures without the key that they need."""
    for at, name in named(place, body):
        if name in figures:
            yield _without(at, name, f"{key} in the experiment")


def of_own_runs(name: str, columns: Collection[str]) -> str:
    """Returns why a figure cannot be drawn of trainings that were made elsewhere; empty if it can.

    Args:
        columns: Columns of our tables that theirs fills, and factors that are varied.
    """
    figure = FIGURES.get(name)
    if figure is None:
        return ""  # reported as unknown
    measured = figure.own == () and not {*figure.measures} <= {"evaluate"}
    if figure.own is None or figure.at_epochs or measured:
        return "it shows what a training here leaves behind"
    found = [one for one in figure.own if not {*one.split("|")} & {*columns}]
    found += [f"several values of {one}" for one in figure.varied if one not in columns]
    return f"it needs {wording.listed(one.replace('|', ' or ') for one in found)}" if found else ""


def drawn(body: dict[str, Any]) -> tuple[str, ...]:
    """Returns the figures that an experiment names, in order."""
    return tuple(name for _, name in coercion.items((), body.get("figures")))


def _problems_of(place: Place, name: Any, measures: dict[str, Any]) -> Iterator[Problem]:
    if not isinstance(name, str) or name not in FIGURES:
        yield received(place, name, "the name of a figure", FIGURES)
        return
    needed = [one for one in FIGURES[name].measures if not {*one.split("|")} & {*measures}]
    if needed:
        yield _without(place, name, wording.listed(map(_home, needed)))


def _home(measures: str) -> str:
    """Returns `evaluate in measure`, or `time_epoch in measure or throughput in timing`."""
    homes = ((name, "timing" if name in OF_SWEEPS else "measure") for name in measures.split("|"))
    return wording.listed((f"{name} in {home}" for name, home in homes), "or")


def _without(place: Place, name: str, expected: str) -> Problem:
    return Problem(place, f"received '{name}' without its requirements; {expected} is expected.")
