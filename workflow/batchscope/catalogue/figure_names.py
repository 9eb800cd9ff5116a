"""The figures of an experiment: those that it draws unasked, and what is wrong with those it names.

It names them in `figures` and `published`.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from batchscope import wording
from batchscope.catalogue import coercion
from batchscope.catalogue.entries import Figure, Need
from batchscope.catalogue.figures import FIGURES
from batchscope.catalogue.timings import OF_SECONDS, OF_SWEEPS
from batchscope.problems import Place, Problem, received

# What gives trainings their seconds, in a message.
TIMED = wording.listed(
    (
        f"{name} in measure" if entry.trains else f"{name} of an experiment under beside"
        for name, entry in OF_SECONDS.items()
    ),
    "or",
)


@dataclass(frozen=True)
class Given:
    """What an experiment gives its figures.

    Attributes:
        measures: Its measures and timings.
        varied: Factors of which it crosses several values with all else.
        needs: What it has of what a figure may need.
        own: Columns of a table of trainings that were made elsewhere; None for trainings here.
    """

    measures: Collection[str] = ()
    varied: Collection[str] = ()
    needs: Collection[Need] = ()
    own: Collection[str] | None = None

    def suffices(self, figure: Figure) -> bool:
        """Returns whether a figure is drawn of it unasked."""
        if (
            figure.along
            or figure.asked
            or not ({*figure.varied} <= {*self.varied} and {*figure.needs} <= {*self.needs})
        ):
            return False
        if self.own is not None:
            return not of_own_runs(figure, {*self.own, *self.varied})
        trained = not self.measures or not {*self.measures} <= {*OF_SWEEPS}
        return bool(trained or figure.measures) and not _lacking(figure.measures, self.measures)


def available(given: Given) -> list[str]:
    """Returns the figures that an experiment draws unasked, in the registry's order."""
    return [name for name, figure in FIGURES.items() if given.suffices(figure)]


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
    for at, figure in named(place, body):
        if figure.along == "seconds" and not timed:
            yield _without(at, figure, TIMED)
    for name in coercion.as_map(body.get("published")):
        at = (*place, "published", name)
        yield from _problems_of(at, name, measures)
        if drawn and name in FIGURES and name not in drawn:
            text = f"received '{name}', which is not drawn; a figure of `figures` is expected."
            yield Problem(at, text)


def named(place: Place, body: dict[str, Any]) -> Iterator[tuple[Place, Figure]]:
    """Yields place and entry of every figure that an experiment names and that there is."""
    published = coercion.as_map(body.get("published"))
    names = [
        *coercion.items((*place, "figures"), body.get("figures")),
        *(((*place, "published", name), name) for name in published),
    ]
    yield from ((at, FIGURES[name]) for at, name in names if _known(name))


def without(place: Place, body: dict[str, Any], need: Need) -> Iterator[Problem]:
    """Yields the problems of an experiment that names figures without the key that they need."""
    for at, figure in named(place, body):
        if need in figure.needs:
            yield _without(at, figure, f"{need.value} in the experiment")


def of_own_runs(figure: Figure, columns: Collection[str]) -> str:
    """Returns why a figure cannot be drawn of trainings that were made elsewhere; empty if it can.

    Args:
        columns: Columns of our tables that theirs fills, and factors that are varied.
    """
    measured = figure.own == () and not {*figure.measures} <= {"evaluate"}
    if figure.own is None or Need.AT_EPOCHS in figure.needs or measured:
        return "it shows what a training here leaves behind"
    found = _lacking(figure.own, columns)
    found += [f"several values of {one}" for one in figure.varied if one not in columns]
    return f"it needs {wording.listed(one.replace('|', ' or ') for one in found)}" if found else ""


def drawn(body: dict[str, Any]) -> tuple[str, ...]:
    """Returns the figures that an experiment names, in order."""
    return tuple(name for _, name in coercion.items((), body.get("figures")))


def _known(name: Any) -> bool:
    return isinstance(name, str) and name in FIGURES


def _problems_of(place: Place, name: Any, measures: dict[str, Any]) -> Iterator[Problem]:
    if not _known(name):
        yield received(place, name, "the name of a figure", FIGURES)
    elif needed := _lacking(FIGURES[name].measures, measures):
        yield _without(place, FIGURES[name], wording.listed(map(_home, needed)))


def _lacking(wanted: Iterable[str], there: Collection[str]) -> list[str]:
    """Returns what is wanted and not there; either will do of `a|b`."""
    return [one for one in wanted if not {*one.split("|")} & {*there}]


def _home(measures: str) -> str:
    """Returns `evaluate in measure`, or `time_epoch in measure or throughput in timing`."""
    homes = ((name, "timing" if name in OF_SWEEPS else "measure") for name in measures.split("|"))
    return wording.listed((f"{name} in {home}" for name, home in homes), "or")


def _without(place: Place, figure: Figure, expected: str) -> Problem:
    text = f"received '{figure.name}' without its requirements; {expected} is expected."
    return Problem(place, text)
